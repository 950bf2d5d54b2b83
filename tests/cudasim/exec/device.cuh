/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA C++ for g++ and clang++: the built-in variables, functions and qualifiers that our kernels
 * use, and the simulator's side of kernels/cuda/common.cuh, which is its only user. Everything that
 * involves more than one thread goes to the executor (exec.h) with the caller's line.
 */
#ifndef CUDASIM_EXEC_DEVICE_CUH
#define CUDASIM_EXEC_DEVICE_CUH

#include <math.h>
#include <new>
#include <string.h>
#include <tuple>
#include <type_traits>

#include "tests/cudasim/exec/exec.h"

#define KV_KERNEL static void
#define KV_DEVICE static __forceinline__ __attribute__((unused))
#define KV_SMEM(type, name) type *const name = reinterpret_cast<type *>(sim_block.smem)

#define threadIdx (sim_self->thread_idx)
#define blockIdx (sim_block.block_idx)
#define blockDim (sim_block.block_dim)
#define gridDim (sim_block.grid_dim)

/* The caller's line, as a default argument. */
#define SIM_PLACE const char *sim_file = __builtin_FILE(), int sim_line = __builtin_LINE()
#define SIM_HERE                                                                                   \
	sim_place                                                                                  \
	{                                                                                          \
		sim_file, sim_line                                                                 \
	}

/* Block. */

KV_DEVICE void __syncthreads(SIM_PLACE)
{
	(void)sim_syncthreads(0, SIM_HERE);
}

KV_DEVICE int __syncthreads_count(int predicate, SIM_PLACE)
{
	return static_cast<int>(sim_syncthreads(predicate != 0, SIM_HERE));
}

KV_DEVICE int __syncthreads_or(int predicate, SIM_PLACE)
{
	return sim_syncthreads(predicate != 0, SIM_HERE) != 0;
}

KV_DEVICE int __syncthreads_and(int predicate, SIM_PLACE)
{
	return sim_syncthreads(predicate == 0, SIM_HERE) == 0;
}

KV_DEVICE void kv_barrier(uint32_t id, uint32_t count, SIM_PLACE)
{
	sim_barrier(id, count, SIM_HERE);
}

KV_DEVICE void kv_barrier_arrive(uint32_t id, uint32_t count, SIM_PLACE)
{
	sim_barrier_arrive(id, count, SIM_HERE);
}

KV_DEVICE void __threadfence()
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

KV_DEVICE void __threadfence_block()
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* Warp. */

KV_DEVICE void __syncwarp(unsigned mask = 0xffffffffu, SIM_PLACE)
{
	sim_syncwarp(mask, SIM_HERE);
}

template <typename T>
KV_DEVICE T sim_shuffle_as(unsigned mask, enum sim_shuffle_mode mode, T value, int operand,
			   int width, sim_place place)
{
	static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 4 or 8 bytes");
	uint64_t bits = 0;

	memcpy(&bits, &value, sizeof(T));
	bits = sim_shuffle(mask, mode, bits, operand, width, place);
	memcpy(&value, &bits, sizeof(T));
	return value;
}

template <typename T>
KV_DEVICE T __shfl_sync(unsigned mask, T value, int lane, int width = SIM_WARP, SIM_PLACE)
{
	return sim_shuffle_as(mask, SIM_SHFL_INDEX, value, lane, width, SIM_HERE);
}

template <typename T>
KV_DEVICE T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = SIM_WARP, SIM_PLACE)
{
	return sim_shuffle_as(mask, SIM_SHFL_UP, value, static_cast<int>(delta), width, SIM_HERE);
}

template <typename T>
KV_DEVICE T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = SIM_WARP,
			     SIM_PLACE)
{
	return sim_shuffle_as(mask, SIM_SHFL_DOWN, value, static_cast<int>(delta), width, SIM_HERE);
}

template <typename T>
KV_DEVICE T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = SIM_WARP, SIM_PLACE)
{
	return sim_shuffle_as(mask, SIM_SHFL_XOR, value, lanes, width, SIM_HERE);
}

KV_DEVICE unsigned __ballot_sync(unsigned mask, int predicate, SIM_PLACE)
{
	return sim_ballot(mask, predicate != 0, SIM_HERE);
}

KV_DEVICE int __any_sync(unsigned mask, int predicate, SIM_PLACE)
{
	return sim_ballot(mask, predicate != 0, SIM_HERE) != 0;
}

KV_DEVICE int __all_sync(unsigned mask, int predicate, SIM_PLACE)
{
	return sim_ballot(mask, predicate != 0, SIM_HERE) == mask;
}

template <typename T> KV_DEVICE unsigned __match_any_sync(unsigned mask, T value, SIM_PLACE)
{
	static_assert(sizeof(T) == 4 || sizeof(T) == 8, "matches compare 4 or 8 bytes");
	uint64_t bits = 0;

	memcpy(&bits, &value, sizeof(T));
	return sim_match_any(mask, bits, SIM_HERE);
}

KV_DEVICE unsigned __reduce_add_sync(unsigned mask, unsigned value, SIM_PLACE)
{
	return sim_reduce(mask, SIM_REDUCE_ADD, value, SIM_HERE);
}

KV_DEVICE int __reduce_add_sync(unsigned mask, int value, SIM_PLACE)
{
	return static_cast<int>(
		sim_reduce(mask, SIM_REDUCE_ADD, static_cast<uint32_t>(value), SIM_HERE));
}

KV_DEVICE unsigned __reduce_min_sync(unsigned mask, unsigned value, SIM_PLACE)
{
	return sim_reduce(mask, SIM_REDUCE_MIN_UNSIGNED, value, SIM_HERE);
}

KV_DEVICE int __reduce_min_sync(unsigned mask, int value, SIM_PLACE)
{
	return static_cast<int>(
		sim_reduce(mask, SIM_REDUCE_MIN_SIGNED, static_cast<uint32_t>(value), SIM_HERE));
}

KV_DEVICE unsigned __reduce_max_sync(unsigned mask, unsigned value, SIM_PLACE)
{
	return sim_reduce(mask, SIM_REDUCE_MAX_UNSIGNED, value, SIM_HERE);
}

KV_DEVICE int __reduce_max_sync(unsigned mask, int value, SIM_PLACE)
{
	return static_cast<int>(
		sim_reduce(mask, SIM_REDUCE_MAX_SIGNED, static_cast<uint32_t>(value), SIM_HERE));
}

KV_DEVICE unsigned __reduce_and_sync(unsigned mask, unsigned value, SIM_PLACE)
{
	return sim_reduce(mask, SIM_REDUCE_AND, value, SIM_HERE);
}

KV_DEVICE unsigned __reduce_or_sync(unsigned mask, unsigned value, SIM_PLACE)
{
	return sim_reduce(mask, SIM_REDUCE_OR, value, SIM_HERE);
}

KV_DEVICE unsigned __reduce_xor_sync(unsigned mask, unsigned value, SIM_PLACE)
{
	return sim_reduce(mask, SIM_REDUCE_XOR, value, SIM_HERE);
}

/* Atomics, which hold across processes too: device memory is shared memory here. */

template <typename T> KV_DEVICE T atomicCAS(T *p, T expected, T desired)
{
	sim_atomic();
	__atomic_compare_exchange_n(p, &expected, desired, false, __ATOMIC_SEQ_CST,
				    __ATOMIC_SEQ_CST);
	return expected;
}

template <typename T> KV_DEVICE T atomicExch(T *p, T value)
{
	T old;

	sim_atomic();
	__atomic_exchange(p, &value, &old, __ATOMIC_SEQ_CST);
	return old;
}

template <typename T, typename F> KV_DEVICE T sim_atomic_update(T *p, F update)
{
	T old, fresh;

	sim_atomic();
	__atomic_load(p, &old, __ATOMIC_SEQ_CST);
	do {
		fresh = update(old);
	} while (!__atomic_compare_exchange(p, &old, &fresh, false, __ATOMIC_SEQ_CST,
					    __ATOMIC_SEQ_CST));
	return old;
}

template <typename T> KV_DEVICE T atomicAdd(T *p, std::common_type_t<T> value)
{
	return sim_atomic_update(p, [value](T old) { return static_cast<T>(old + value); });
}

template <typename T> KV_DEVICE T atomicMax(T *p, std::common_type_t<T> value)
{
	return sim_atomic_update(p, [value](T old) { return old > value ? old : value; });
}

template <typename T> KV_DEVICE T atomicMin(T *p, std::common_type_t<T> value)
{
	return sim_atomic_update(p, [value](T old) { return old < value ? old : value; });
}

template <typename T> KV_DEVICE T atomicOr(T *p, std::common_type_t<T> value)
{
	return sim_atomic_update(p, [value](T old) { return static_cast<T>(old | value); });
}

template <typename T> KV_DEVICE T atomicAnd(T *p, std::common_type_t<T> value)
{
	return sim_atomic_update(p, [value](T old) { return static_cast<T>(old & value); });
}

/* Arithmetic. */

KV_DEVICE float __uint_as_float(unsigned x)
{
	float y;

	memcpy(&y, &x, sizeof(y));
	return y;
}

KV_DEVICE unsigned __float_as_uint(float x)
{
	unsigned y;

	memcpy(&y, &x, sizeof(y));
	return y;
}

KV_DEVICE float __int_as_float(int x)
{
	return __uint_as_float(static_cast<unsigned>(x));
}

KV_DEVICE int __float_as_int(float x)
{
	return static_cast<int>(__float_as_uint(x));
}

KV_DEVICE float __fmaf_rn(float a, float b, float c)
{
	return __builtin_fmaf(a, b, c);
}

KV_DEVICE float __fadd_rn(float a, float b)
{
	return a + b;
}

KV_DEVICE float __fmul_rn(float a, float b)
{
	return a * b;
}

KV_DEVICE float __fdividef(float a, float b)
{
	return a / b;
}

KV_DEVICE float __fdiv_rn(float a, float b)
{
	return a / b;
}

KV_DEVICE float __frcp_rn(float x)
{
	return 1.0f / x;
}

KV_DEVICE float __fsqrt_rn(float x)
{
	return __builtin_sqrtf(x);
}

KV_DEVICE float rsqrtf(float x)
{
	return 1.0f / __builtin_sqrtf(x);
}

KV_DEVICE float __frsqrt_rn(float x)
{
	return 1.0f / __builtin_sqrtf(x);
}

/* glibc's headers declare functions of these names. */
#define __expf(x) expf(x)
#define __logf(x) logf(x)

KV_DEVICE int __popc(unsigned x)
{
	return __builtin_popcount(x);
}

KV_DEVICE int __popcll(unsigned long long x)
{
	return __builtin_popcountll(x);
}

KV_DEVICE int __clz(int x)
{
	return x ? __builtin_clz(static_cast<unsigned>(x)) : 32;
}

KV_DEVICE int __clzll(long long x)
{
	return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64;
}

KV_DEVICE int __ffs(int x)
{
	return __builtin_ffs(x);
}

KV_DEVICE unsigned __umulhi(unsigned a, unsigned b)
{
	return static_cast<unsigned>(static_cast<uint64_t>(a) * b >> 32);
}

KV_DEVICE unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
	return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}

template <typename T> KV_DEVICE T __ldg(const T *p)
{
	return *p;
}

#define SIM_MIN_MAX(type)                                                                          \
	KV_DEVICE type min(type a, type b)                                                         \
	{                                                                                          \
		return a < b ? a : b;                                                              \
	}                                                                                          \
	KV_DEVICE type max(type a, type b)                                                         \
	{                                                                                          \
		return a > b ? a : b;                                                              \
	}

SIM_MIN_MAX(int)
SIM_MIN_MAX(unsigned)
SIM_MIN_MAX(long)
SIM_MIN_MAX(unsigned long)
SIM_MIN_MAX(long long)
SIM_MIN_MAX(unsigned long long)

KV_DEVICE float min(float a, float b)
{
	return fminf(a, b);
}

KV_DEVICE float max(float a, float b)
{
	return fmaxf(a, b);
}

/* The wrappers of common.cuh; what they mean is said there. */

KV_DEVICE void kv_mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2], SIM_PLACE)
{
	sim_mma_bf16(d, a, b, SIM_HERE);
}

KV_DEVICE void kv_ldmatrix_x4(uint32_t r[4], const void *smem_row, SIM_PLACE)
{
	sim_ldmatrix(r, 4, false, smem_row, SIM_HERE);
}

KV_DEVICE void kv_ldmatrix_x4_trans(uint32_t r[4], const void *smem_row, SIM_PLACE)
{
	sim_ldmatrix(r, 4, true, smem_row, SIM_HERE);
}

KV_DEVICE void kv_ldmatrix_x2(uint32_t r[2], const void *smem_row, SIM_PLACE)
{
	sim_ldmatrix(r, 2, false, smem_row, SIM_HERE);
}

KV_DEVICE void kv_ldmatrix_x2_trans(uint32_t r[2], const void *smem_row, SIM_PLACE)
{
	sim_ldmatrix(r, 2, true, smem_row, SIM_HERE);
}

KV_DEVICE void kv_cp_async16(void *smem, const void *global, bool valid, SIM_PLACE)
{
	sim_cp_async16(smem, global, valid, SIM_HERE);
}

KV_DEVICE void kv_cp_commit()
{
	sim_cp_commit();
}

template <int N> KV_DEVICE void kv_cp_wait()
{
	sim_cp_wait(N);
}

KV_DEVICE float kv_exp2(float x)
{
	float y = exp2f(x);

	return y < 0x1p-126f ? 0.0f : y;
}

KV_DEVICE float kv_fma(float a, float b, float c)
{
	return __builtin_fmaf(a, b, c);
}

KV_DEVICE uint16_t kv_f32_to_bf16(float x)
{
	uint32_t bits = __float_as_uint(x);

	if ((bits & 0x7fffffffu) > 0x7f800000u)
		return 0x7fff;
	return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

KV_DEVICE uint32_t kv_bf16x2(float lo, float hi)
{
	return kv_f32_to_bf16(lo) | static_cast<uint32_t>(kv_f32_to_bf16(hi)) << 16;
}

KV_DEVICE uint16_t kv_f32_to_fp16(float x)
{
	uint32_t bits = __float_as_uint(x), sign = bits >> 16 & 0x8000u;

	bits &= 0x7fffffffu;
	if (bits > 0x7f800000u)
		return 0x7fff;
	if (bits > 0x477fe000u)
		return static_cast<uint16_t>(sign | 0x7bff);
	if (bits >= 0x38800000u)
		return static_cast<uint16_t>(
			sign | (bits - 0x38000000u + 0xfffu + (bits >> 13 & 1)) >> 13);
	return static_cast<uint16_t>(sign |
				     (__float_as_uint(__uint_as_float(bits) + 0.5f) - 0x3f000000u));
}

KV_DEVICE float kv_fp16_to_f32(uint16_t x)
{
	uint32_t rest = (x & 0x7fffu) << 13, sign = (x & 0x8000u) << 16;

	if (rest >= 0x0f800000u)
		return __uint_as_float(sign | 0x7f800000u | rest);
	return __uint_as_float(__float_as_uint(__uint_as_float(rest) * 0x1p112f) | sign);
}

/* A launch keeps its arguments until the stream comes to it, or as long as a graph holds it. */
template <typename... P> struct kv_launcher {
	struct body {
		void (*kernel)(P...);
		std::tuple<P...> args;
	};

	void (*kernel)(P...);
	const char *name;

	static void run(void *arg)
	{
		body *b = static_cast<body *>(arg);

		std::apply(b->kernel, b->args);
	}

	static void drop(void *arg)
	{
		delete static_cast<body *>(arg);
	}

	cudaError_t operator()(dim3 grid, dim3 block, size_t smem_bytes, cudaStream_t stream,
			       P... args) const
	{
		static_assert((std::is_trivially_copyable<P>::value && ...),
			      "arguments travel as bytes");
		body *b = new (std::nothrow) body{kernel, std::tuple<P...>(args...)};

		if (!b)
			return cudaErrorMemoryAllocation;
		return sim_launch(name, grid, block, smem_bytes, stream,
				  sim_work{run, drop, b, name});
	}
};

template <typename... P>
static inline kv_launcher<P...> kv_launcher_of(void (*kernel)(P...), const char *name)
{
	return kv_launcher<P...>{kernel, name};
}

#define KV_LAUNCH(kernel, grid, block, smem_bytes, stream, ...)                                    \
	kv_launcher_of(kernel, #kernel)(grid, block, smem_bytes, stream, __VA_ARGS__)

#endif
