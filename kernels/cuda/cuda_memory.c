/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory for weights and activations, and the way weights get there: row after row, rounded
 * on the host, each row padded to 16 bytes, as cuBLASLt's fast kernels want it. Any thread;
 * what a call writes is in device memory when it returns, also for streams that do not wait for the
 * default one.
 */
#include "base/bits.h"
#include "base/log.h"
#include "base/units.h"
#include "kernels/cuda/cuda_ctx.h"
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#define CUDA_MEMORY_LD_STEP 8u
#define CUDA_MEMORY_ROOM_STEP (2 * UNITS_MIB)
#define CUDA_MEMORY_PIECE                                                                          \
	16384u /* elements of a row that are rounded, and then copied, at once                     \
		*/

/* Success, or the runtime forgets the error: it is the caller's now. */
static bool quiet(cudaError_t e)
{
	if (e != cudaSuccess)
		(void)cudaGetLastError();
	return e == cudaSuccess;
}

/* The callers' results have no room for words, and the first failure is the one that tells. */
static bool ok(cudaError_t e)
{
	static atomic_flag told = ATOMIC_FLAG_INIT;

	if (!quiet(e) && !atomic_flag_test_and_set(&told))
		log_error("cuda", "memory of the device: %s (%s)", cudaGetErrorString(e),
			  cudaGetErrorName(e));
	return e == cudaSuccess;
}

static bool fits(size_t bytes)
{
	void *memory;

	if (!quiet(cudaMalloc(&memory, bytes)))
		return false;
	return quiet(cudaFree(memory));
}

void cuda_memory_no_room(size_t asked, char *out, size_t size)
{
	size_t room = 0, total = 0, low = 0, high = asked / CUDA_MEMORY_ROOM_STEP + 1;
	char texts[3][32];

	(void)quiet(cudaMemGetInfo(&room, &total));
	while (low + 1 < high) {
		size_t mid = low + (high - low) / 2;

		*(fits(mid * CUDA_MEMORY_ROOM_STEP) ? &low : &high) = mid;
	}
	snprintf(out, size, "%s asked, %s free, the largest that fits is %s",
		 units_format_bytes(asked, texts[0], sizeof(texts[0])),
		 units_format_bytes(room, texts[1], sizeof(texts[1])),
		 units_format_bytes(low * CUDA_MEMORY_ROOM_STEP, texts[2], sizeof(texts[2])));
}

void *cuda_memory_new(const struct kernel_ops *ops, size_t bytes)
{
	void *memory;
	char why[160];

	if (!ok(cudaSetDevice(cuda_table_ordinal(ops))))
		return NULL;
	cudaError_t e = cudaMalloc(&memory, bytes);
	if (e == cudaErrorMemoryAllocation) {
		(void)quiet(e);
		cuda_memory_no_room(bytes, why, sizeof(why));
		log_error("cuda", "%s: %s", ops->name, why);
		return NULL;
	}
	if (!ok(e))
		return NULL;
	if (ok(cudaMemset(memory, 0, bytes)) && ok(cudaStreamSynchronize(cudaStreamLegacy)))
		return memory;
	(void)quiet(cudaFree(memory));
	return NULL;
}

void cuda_memory_free(const struct kernel_ops *ops, void *memory, size_t bytes)
{
	if (memory && quiet(cudaSetDevice(cuda_table_ordinal(ops))))
		(void)quiet(cudaFree(memory));
}

int cuda_memory_write(const struct kernel_ops *ops, void *dst, const void *src, size_t bytes)
{
	/* From pageable memory the copy may return before the last part has arrived. */
	if (ok(cudaSetDevice(cuda_table_ordinal(ops))) &&
	    ok(cudaMemcpy(dst, src, bytes, cudaMemcpyHostToDevice)) &&
	    ok(cudaStreamSynchronize(cudaStreamLegacy)))
		return 0;
	return -EIO;
}

uint64_t cuda_memory_room(const struct kernel_ops *ops)
{
	size_t room, total;

	if (!ok(cudaSetDevice(cuda_table_ordinal(ops))) || !ok(cudaMemGetInfo(&room, &total)))
		return 0;
	return room;
}

uint32_t cuda_memory_weight_ld(uint32_t k)
{
	return (uint32_t)bits_align_up(k, CUDA_MEMORY_LD_STEP);
}

size_t cuda_memory_weight_bytes(enum kernel_weight_kind kind, uint32_t n, uint32_t k)
{
	return (size_t)n * cuda_memory_weight_ld(k) * sizeof(kernel_half);
}

/* Rows as they lie in the weight: each followed by zeros up to the next. */
static bool write_rows(kernel_half *dst, const float *src, uint32_t rows, uint32_t k, uint32_t ld,
		       enum kernel_type type)
{
	kernel_half piece[CUDA_MEMORY_PIECE];
	size_t total = (size_t)rows * ld;
	uint32_t column = 0;

	for (size_t at = 0; at < total; at += CUDA_MEMORY_PIECE) {
		size_t count = BITS_MIN(CUDA_MEMORY_PIECE, total - at);

		for (size_t i = 0; i < count; i++) {
			piece[i] = column < k ? kernel_f32_to_half(*src++, type) : 0;
			column = column + 1 < ld ? column + 1 : 0;
		}
		if (!ok(cudaMemcpy(dst + at, piece, count * sizeof(*piece),
				   cudaMemcpyHostToDevice)))
			return false;
	}
	return true;
}

/* The call has no way to fail: the next context of the device does, in its place. */
void cuda_memory_weight_pack(const struct kernel_weight *w, uint32_t row0, uint32_t rows,
			     const float *src)
{
	kernel_half *data = w->data;
	uint32_t ld = cuda_memory_weight_ld(w->k);
	struct cudaPointerAttributes where;

	if (!ok(cudaPointerGetAttributes(&where, data)) || !ok(cudaSetDevice(where.device))) {
		cuda_table_fail(-1);
		return;
	}
	if (!write_rows(data + (size_t)row0 * ld, src, rows, w->k, ld, w->type) ||
	    !ok(cudaStreamSynchronize(cudaStreamLegacy)))
		cuda_table_fail(where.device);
}
