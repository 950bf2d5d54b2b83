/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for weights and activations: anonymous maps, zeroed by the kernel, of huge OS pages where
 * it has them. The matrices are walked from end to end in every step, and small OS pages cost a
 * tenth of that. Any thread.
 */
#include "kernels/cpu/ctx.h"

#include <base/bits.h>
#include <string.h>
#include <sys/mman.h>

#define MEMORY_HUGE_BYTES ((size_t)2 << 20)

static size_t whole_bytes(size_t bytes)
{
	return bits_align_up(bytes, MEMORY_HUGE_BYTES);
}

void *memory_new(const struct kernel_ops *ops, size_t bytes)
{
	void *at = mmap(NULL, whole_bytes(bytes), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return NULL;
	/* Advice: without it the memory is as good, and slower to walk. */
	(void)madvise(at, whole_bytes(bytes), MADV_HUGEPAGE);
	return at;
}

void memory_free(const struct kernel_ops *ops, void *memory, size_t bytes)
{
	if (memory)
		munmap(memory, whole_bytes(bytes));
}

int memory_write(const struct kernel_ops *ops, void *dst, const void *src, size_t bytes)
{
	memcpy(dst, src, bytes);
	return 0;
}

uint64_t memory_room(const struct kernel_ops *ops)
{
	return UINT64_MAX;
}
