/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What only sm_90a has: matrix products of a warpgroup that read shared memory by themselves
 * (wgmma), barriers in shared memory that count arrivals (mbarrier), copies of whole boxes (TMA),
 * registers moved between warpgroups. As in common.cuh there are two sides with one interface.
 *
 * The products belong to the asynchronous proxy: shared memory that threads or cp.async wrote is
 * theirs to read only after kv_fence_async of who wrote it, and then a barrier. Accumulators and A
 * operands in registers must not be touched between a product and the kv_wgmma_wait that covers it.
 */
#ifndef KERNELS_CUDA_HOPPER_CUH
#define KERNELS_CUDA_HOPPER_CUH

#include "kernels/cuda/common.cuh"

#define KV_WARPGROUP 128

#ifdef KVD_CUDASIM

#include <exec/hopper.h>

#define KV_GRID_CONSTANT

/* The simulator's TMA has copied when the call returns. */
struct kv_tensor_map {
	const unsigned char *base;
	uint64_t lines;
	uint64_t line_bytes;
};

static inline cudaError_t kv_tensor_map_init(kv_tensor_map *map, uint64_t base, uint64_t lines,
					     uint32_t line_elements)
{
	map->base = reinterpret_cast<const unsigned char *>(base);
	map->lines = lines;
	map->line_bytes = line_elements * 2;
	return cudaSuccess;
}

KV_DEVICE void kv_tma_load(void *smem, const kv_tensor_map &map, uint32_t element, uint32_t line,
			   uint64_t *bar)
{
	const unsigned char *from = map.base + line * map.line_bytes + element * 2;
	uintptr_t to = reinterpret_cast<uintptr_t>(smem);

	for (uint32_t i = 0; i < 64 * 8; i++, to += 16) {
		void *piece = reinterpret_cast<void *>(to ^ (to >> 7 & 7) << 4);

		if (line + i / 8 < map.lines)
			memcpy(piece, from + i / 8 * map.line_bytes + i % 8 * 16, 16);
		else
			memset(piece, 0, 16);
	}
}

KV_DEVICE void kv_mbarrier_arrive_after(uint64_t *bar, uint32_t bytes, SIM_PLACE)
{
	sim_mbarrier_arrive(bar, SIM_HERE);
}

#else

#include <cuda.h>

#define KV_GRID_CONSTANT __grid_constant__

/* Lines of bf16 in global memory, of which kv_tma_load copies boxes. */
typedef CUtensorMap kv_tensor_map;

/*
 * `lines` lines of `line_elements` from `base` on, a multiple of 16; only what a copy asks for need
 * be memory.
 */
static inline cudaError_t kv_tensor_map_init(kv_tensor_map *map, uint64_t base, uint64_t lines,
					     uint32_t line_elements)
{
	const cuuint64_t shape[] = {line_elements, lines};
	const cuuint64_t pitch[] = {line_elements * 2ull};
	const cuuint32_t box[] = {64, 64}, step[] = {1, 1};
	cudaDriverEntryPointQueryResult found;
	void *encode = nullptr;
	cudaError_t e = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000,
							 cudaEnableDefault, &found);

	if (e != cudaSuccess || !encode)
		return e != cudaSuccess ? e : cudaErrorNotSupported;
	return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(encode)(
		       map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, reinterpret_cast<void *>(base),
		       shape, pitch, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
		       CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
		       CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS
		       ? cudaSuccess
		       : cudaErrorInvalidValue;
}

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* A matrix in shared memory in lines of 128 bytes, swizzled: address bits 4-6 ^= bits 7-9.
 */
struct kv_operand {
	uint64_t bits;
};

/*
 * `at` is 16-byte aligned in a pattern that begins at a multiple of 1024 bytes. step_bytes leads
 * from 8 lines to the next 8; column_bytes from 64 elements of a line to the next 64, where the
 * lines are what the product does not sum over (it is ignored elsewhere).
 */
KV_DEVICE kv_operand kv_operand_of(const void *at, uint32_t column_bytes, uint32_t step_bytes)
{
	kv_operand o;

	o.bits = static_cast<uint64_t>((kv_smem_address(at) & 0x3ffff) >> 4) |
		 static_cast<uint64_t>(column_bytes >> 4) << 16 |
		 static_cast<uint64_t>(step_bytes >> 4) << 32 | static_cast<uint64_t>(1) << 62;
	return o;
}

/* The same matrix from `bytes` behind its start on. */
KV_DEVICE kv_operand kv_operand_skip(kv_operand o, uint32_t bytes)
{
	o.bits += bytes >> 4;
	return o;
}

/* Before the first product of a batch, and after threads touched its registers. */
KV_DEVICE void kv_wgmma_begin()
{
	asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
}

/* Ends a batch. */
KV_DEVICE void kv_wgmma_commit()
{
	asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
}

/* Waits until at most the N latest batches are under way. */
template <int N> KV_DEVICE void kv_wgmma_wait()
{
	asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(N) : "memory");
}

/* Tells the compiler that a product under way may write these. */
template <int N> KV_DEVICE void kv_wgmma_hold(float (*d)[4])
{
#pragma unroll
	for (int i = 0; i < N; i++)
		asm volatile(""
			     : "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]),
			       "+f"(d[i][3])::"memory");
}

#define KV_ACC4(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3])

/*
 * d (+)= a * b over 16 elements. Both lie with the summed elements along their lines: a has 64
 * lines, b a line for each column of the result. Warp w has rows 16 w .. of it, in mma.m16n8k16's
 * fragments: d[n] columns 8 n ...
 */
KV_DEVICE void kv_wgmma_64x64(float (*d)[4], kv_operand a, kv_operand b, bool add)
{
	asm volatile("{\n"
		     ".reg .pred p;\n"
		     "setp.ne.b32 p, %34, 0;\n"
		     "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
		     "%0, %1, %2, %3, %4, %5, %6, %7, "
		     "%8, %9, %10, %11, %12, %13, %14, %15, "
		     "%16, %17, %18, %19, %20, %21, %22, %23, "
		     "%24, %25, %26, %27, %28, %29, %30, %31"
		     "}, %32, %33, p, 1, 1, 0, 0;\n"
		     "}\n"
		     : KV_ACC4(d[0]), KV_ACC4(d[1]), KV_ACC4(d[2]), KV_ACC4(d[3]), KV_ACC4(d[4]),
		       KV_ACC4(d[5]), KV_ACC4(d[6]), KV_ACC4(d[7])
		     : "l"(a.bits), "l"(b.bits), "r"(static_cast<int>(add)));
}

/*
 * d += a * b over 16 elements; a in registers, a warp's rows as in mma.m16n8k16; b has a line for
 * each of the 16, its elements along the result's columns.
 */
KV_DEVICE void kv_wgmma_64x64_turned(float (*d)[4], const uint32_t a[4], kv_operand b)
{
	asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
		     "%0, %1, %2, %3, %4, %5, %6, %7, "
		     "%8, %9, %10, %11, %12, %13, %14, %15, "
		     "%16, %17, %18, %19, %20, %21, %22, %23, "
		     "%24, %25, %26, %27, %28, %29, %30, %31"
		     "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 1;\n"
		     : KV_ACC4(d[0]), KV_ACC4(d[1]), KV_ACC4(d[2]), KV_ACC4(d[3]), KV_ACC4(d[4]),
		       KV_ACC4(d[5]), KV_ACC4(d[6]), KV_ACC4(d[7])
		     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.bits));
}

KV_DEVICE void kv_wgmma_64x128_turned(float (*d)[4], const uint32_t a[4], kv_operand b)
{
	asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
		     "%0, %1, %2, %3, %4, %5, %6, %7, "
		     "%8, %9, %10, %11, %12, %13, %14, %15, "
		     "%16, %17, %18, %19, %20, %21, %22, %23, "
		     "%24, %25, %26, %27, %28, %29, %30, %31, "
		     "%32, %33, %34, %35, %36, %37, %38, %39, "
		     "%40, %41, %42, %43, %44, %45, %46, %47, "
		     "%48, %49, %50, %51, %52, %53, %54, %55, "
		     "%56, %57, %58, %59, %60, %61, %62, %63"
		     "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 1;\n"
		     : KV_ACC4(d[0]), KV_ACC4(d[1]), KV_ACC4(d[2]), KV_ACC4(d[3]), KV_ACC4(d[4]),
		       KV_ACC4(d[5]), KV_ACC4(d[6]), KV_ACC4(d[7]), KV_ACC4(d[8]), KV_ACC4(d[9]),
		       KV_ACC4(d[10]), KV_ACC4(d[11]), KV_ACC4(d[12]), KV_ACC4(d[13]),
		       KV_ACC4(d[14]), KV_ACC4(d[15])
		     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.bits));
}

#undef KV_ACC4

/* What threads (and finished copies of theirs) wrote to shared memory, for products and TMA. */
KV_DEVICE void kv_fence_async()
{
	asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
}

/* A barrier whose phase ends at `count` arrivals; to be seen by others after a block barrier. */
KV_DEVICE void kv_mbarrier_init(uint64_t *bar, uint32_t count)
{
	asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n"
		     "fence.mbarrier_init.release.cluster;\n" ::"r"(kv_smem_address(bar)),
		     "r"(count)
		     : "memory");
}

KV_DEVICE void kv_mbarrier_arrive(uint64_t *bar)
{
	asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(kv_smem_address(bar))
		     : "memory");
}

/* Arrives; the phase does not end before `bytes` of kv_tma_load have come. */
KV_DEVICE void kv_mbarrier_arrive_after(uint64_t *bar, uint32_t bytes)
{
	asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(
			     kv_smem_address(bar)),
		     "r"(bytes)
		     : "memory");
}

/*
 * One thread: begins the copy of 64 elements of each of 64 lines into lines of 128 bytes, swizzled
 * as kv_operand's; `smem` is a multiple of 1024. The map is a KV_GRID_CONSTANT argument of the
 * kernel. The phase that it counts for is the one that is open when kv_mbarrier_arrive_after
 * follows.
 */
KV_DEVICE void kv_tma_load(void *smem, const kv_tensor_map &map, uint32_t element, uint32_t line,
			   uint64_t *bar)
{
	asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
		     "[%0], [%1, {%2, %3}], [%4];\n" ::"r"(kv_smem_address(smem)),
		     "l"(&map), "r"(element), "r"(line), "r"(kv_smem_address(bar))
		     : "memory");
}

/* Whether the phase of this parity has ended. */
KV_DEVICE bool kv_mbarrier_test(uint64_t *bar, uint32_t parity)
{
	uint32_t done;

	asm volatile("{\n"
		     ".reg .pred p;\n"
		     "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
		     "selp.u32 %0, 1, 0, p;\n"
		     "}\n"
		     : "=r"(done)
		     : "r"(kv_smem_address(bar)), "r"(parity)
		     : "memory");
	return done;
}

KV_DEVICE void kv_mbarrier_wait(uint64_t *bar, uint32_t parity)
{
	uint32_t done;

	do {
		asm volatile("{\n"
			     ".reg .pred p;\n"
			     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
			     "selp.u32 %0, 1, 0, p;\n"
			     "}\n"
			     : "=r"(done)
			     : "r"(kv_smem_address(bar)), "r"(parity)
			     : "memory");
	} while (!done);
}

/* The warpgroup's registers from here on; together at most the block's at its launch. */
template <int N> KV_DEVICE void kv_registers_raise()
{
	asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(N));
}

template <int N> KV_DEVICE void kv_registers_drop()
{
	asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(N));
}

#endif

#endif

#endif
