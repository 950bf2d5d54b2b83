/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every kernel stands on: launches, dynamic shared memory, matrix products, asynchronous
 * copies, conversions. It has two sides with one interface: PTX for the device (sm_80 and up), and
 * tests/cudasim's executor, which runs the same .cu as C++ on the processor (KVD_CUDASIM). So a
 * kernel holds no PTX of its own (hopper.cuh adds what needs sm_90a), no static __shared__, and is
 * launched by KV_LAUNCH alone.
 *
 * The simulator answers faults that a device often forgives: a barrier that some threads of the
 * block never reach or reach at another line, a lane named in a mask that does not come, shared
 * memory read before it was written or before kv_cp_wait, an unaligned row.
 */
#ifndef KERNELS_CUDA_COMMON_CUH
#define KERNELS_CUDA_COMMON_CUH

#include <base/mutant.h>
#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>

#define KV_WARP 32
#define KV_FULL_MASK 0xffffffffu
#define KV_FP16_MAX 65504.0f
/* More dynamic shared memory than this must be asked for; KV_LAUNCH does. */
#define KV_SMEM_PLAIN_BYTES (48u * 1024u)

#ifdef KVD_CUDASIM

/*
 * Brings KV_KERNEL, KV_DEVICE, KV_SMEM, KV_LAUNCH, the built-in variables and functions of CUDA
 * C++, and each kv_ function of the other branch.
 */
#include <exec/device.cuh>

#else

/* KV_KERNEL [__launch_bounds__(n)] name(arguments) { ... } */
#define KV_KERNEL static __global__ void
#define KV_DEVICE __device__ __forceinline__

/* The launch's dynamic shared memory, the only kind there is; its bytes are not initialised. */
#define KV_SMEM(type, name)                                                                        \
	extern __shared__ __align__(1024) unsigned char kv_smem_base[];                            \
	type *const name = reinterpret_cast<type *>(kv_smem_base)

KV_DEVICE uint32_t kv_smem_address(const void *p)
{
	return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

/*
 * d += a * b for a 16x16 tile of bf16 times a 16x8 one, in the fragments of mma.m16n8k16: with
 * g = lane / 4 and t = lane % 4, a[0] is row g, columns 2t and 2t + 1; a[1] row g + 8; a[2], a[3]
 * the same rows, columns + 8. b[0] is column g, rows 2t and 2t + 1; b[1] rows + 8. d[0], d[1] are
 * row g, columns 2t and 2t + 1; d[2], d[3] row g + 8. All lanes take part.
 */
KV_DEVICE void kv_mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2])
{
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
		     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
		     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
		     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/*
 * Loads 8x8 matrices of 16-bit elements: lane 8 * i + r gives the address of row r of matrix i (16
 * bytes, aligned); r[i] gets row lane / 4, elements 2 * (lane % 4) and the next. The _trans forms
 * give the transposed matrix's. Of the x2 forms only lanes 0 to 15 give addresses.
 */
KV_DEVICE void kv_ldmatrix_x4(uint32_t r[4], const void *smem_row)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
		     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
		     : "r"(kv_smem_address(smem_row))
		     : "memory");
}

KV_DEVICE void kv_ldmatrix_x4_trans(uint32_t r[4], const void *smem_row)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
		     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
		     : "r"(kv_smem_address(smem_row))
		     : "memory");
}

KV_DEVICE void kv_ldmatrix_x2(uint32_t r[2], const void *smem_row)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];\n"
		     : "=r"(r[0]), "=r"(r[1])
		     : "r"(kv_smem_address(smem_row))
		     : "memory");
}

KV_DEVICE void kv_ldmatrix_x2_trans(uint32_t r[2], const void *smem_row)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];\n"
		     : "=r"(r[0]), "=r"(r[1])
		     : "r"(kv_smem_address(smem_row))
		     : "memory");
}

/*
 * Begins a copy of 16 aligned bytes into shared memory, or of zeros when !valid (`global` is then
 * not read). It is done for this thread after the kv_cp_wait that covers its group, and for others
 * after a barrier behind that.
 */
KV_DEVICE void kv_cp_async16(void *smem, const void *global, bool valid)
{
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n"
		     :
		     : "r"(kv_smem_address(smem)), "l"(__cvta_generic_to_global(global)),
		       "r"(valid ? 16 : 0)
		     : "memory");
}

/* Ends a group of this thread's copies. */
KV_DEVICE void kv_cp_commit()
{
	asm volatile("cp.async.commit_group;\n" ::: "memory");
}

/* Waits until at most the N latest groups of this thread are under way. */
template <int N> KV_DEVICE void kv_cp_wait()
{
	asm volatile("cp.async.wait_group %0;\n" ::"n"(N) : "memory");
}

/* Barrier `id` (1 to 15; 0 is __syncthreads) of `count` threads, a multiple of the warp. */
KV_DEVICE void kv_barrier(uint32_t id, uint32_t count)
{
	asm volatile("bar.sync %0, %1;\n" ::"r"(id), "r"(count) : "memory");
}

/* Counts as one of kv_barrier's `count` without waiting. */
KV_DEVICE void kv_barrier_arrive(uint32_t id, uint32_t count)
{
	asm volatile("bar.arrive %0, %1;\n" ::"r"(id), "r"(count) : "memory");
}

/* 2 to the x, approximate (2 ulp); subnormal results are zero. */
KV_DEVICE float kv_exp2(float x)
{
	float y;

	asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
	return y;
}

/* The only fused multiply-add: no other product and sum may be contracted. */
KV_DEVICE float kv_fma(float a, float b, float c)
{
	return __fmaf_rn(a, b, c);
}

/* Two bf16, rounded to nearest even, `lo` in the lower half. */
KV_DEVICE uint32_t kv_bf16x2(float lo, float hi)
{
	uint32_t r;

	asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(r) : "f"(hi), "f"(lo));
	return r;
}

KV_DEVICE uint16_t kv_f32_to_bf16(float x)
{
	uint16_t r;

	asm("cvt.rn.bf16.f32 %0, %1;\n" : "=h"(r) : "f"(x));
	return r;
}

/* Rounded to nearest even; what is beyond fp16's largest number becomes that. */
KV_DEVICE uint16_t kv_f32_to_fp16(float x)
{
	float in_range = fabsf(x) > KV_FP16_MAX ? copysignf(KV_FP16_MAX, x) : x;
	uint16_t r;

	asm("cvt.rn.f16.f32 %0, %1;\n" : "=h"(r) : "f"(in_range));
	return r;
}

KV_DEVICE float kv_fp16_to_f32(uint16_t x)
{
	float y;

	asm("cvt.f32.f16 %0, %1;\n" : "=f"(y) : "h"(x));
	return y;
}

#endif

/* What enters a product: fp16, or bf16. */
KV_DEVICE uint16_t kv_f32_to_half(float x, bool fp16)
{
	return fp16 ? kv_f32_to_fp16(x) : kv_f32_to_bf16(x);
}

KV_DEVICE uint32_t kv_halfx2(float lo, float hi, bool fp16)
{
	if (!fp16)
		return kv_bf16x2(lo, hi);
	return kv_f32_to_fp16(lo) | static_cast<uint32_t>(kv_f32_to_fp16(hi)) << 16;
}

KV_DEVICE float kv_bf16_to_f32(uint16_t x)
{
	return __uint_as_float(static_cast<uint32_t>(x) << 16);
}

/* The halves of a pair. */
KV_DEVICE float kv_bf16x2_lo(uint32_t x)
{
	return __uint_as_float(x << 16);
}

KV_DEVICE float kv_bf16x2_hi(uint32_t x)
{
	return __uint_as_float(x & 0xffff0000u);
}

/* Over all lanes, each of which gets the same bits: the order of the sum is fixed. */
KV_DEVICE float kv_warp_sum(float x)
{
	for (int distance = KV_WARP / 2; distance > 0; distance /= 2)
		x += __shfl_xor_sync(KV_FULL_MASK, x, distance);
	return x;
}

KV_DEVICE float kv_warp_max(float x)
{
	for (int distance = KV_WARP / 2; distance > 0; distance /= 2)
		x = fmaxf(x, __shfl_xor_sync(KV_FULL_MASK, x, distance));
	return x;
}

#ifndef KVD_CUDASIM

template <typename... P> struct kv_launcher {
	void (*kernel)(P...);

	cudaError_t operator()(dim3 grid, dim3 block, size_t smem_bytes, cudaStream_t stream,
			       P... args) const
	{
		const void *entry = reinterpret_cast<const void *>(kernel);
		void *pointers[] = {static_cast<void *>(&args)...};

		if (smem_bytes > KV_SMEM_PLAIN_BYTES) {
			cudaError_t e = cudaFuncSetAttribute(
				entry, cudaFuncAttributeMaxDynamicSharedMemorySize,
				static_cast<int>(smem_bytes));

			if (e != cudaSuccess)
				return e;
		}
		return cudaLaunchKernel(entry, grid, block, pointers, smem_bytes, stream);
	}
};

template <typename... P> static inline kv_launcher<P...> kv_launcher_of(void (*kernel)(P...))
{
	return kv_launcher<P...>{kernel};
}

/*
 * KV_LAUNCH(kernel, grid, block, smem_bytes, stream, arguments...): a cudaError_t. The arguments
 * are copied, converted to the kernel's types. A template's name with a comma goes in parentheses.
 */
#define KV_LAUNCH(kernel, grid, block, smem_bytes, stream, ...)                                    \
	kv_launcher_of(kernel)(grid, block, smem_bytes, stream, __VA_ARGS__)

#endif

#endif
