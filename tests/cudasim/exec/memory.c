/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared memory of the running block, and checks of the addresses that kernels hand to the
 * executor. One buffer serves all blocks; each begins with poison (NaN in every float format), so
 * that what a block before it left cannot be read. The red zone behind its end is looked at when
 * the block is done, and closed to all when the address sanitizer is there.
 */
#include "tests/cudasim/exec/block.h"

#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define MEMORY_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MEMORY_ASAN 1
#endif
#endif
#ifdef MEMORY_ASAN
#include <sanitizer/asan_interface.h>
#endif

#define REDZONE_BYTE 0xa5
#define KNOWN_PAGES 1024u
#define PAGE_SHIFT 12

static unsigned char buffer[BLOCK_SMEM_MAX + BLOCK_REDZONE_BYTES] __attribute__((aligned(1024)));
/* For each 16 bytes: 0, or the thread whose copy landed there (from 1), and its epoch then. */
static struct {
	uint32_t thread;
	uint32_t epoch;
} copied[BLOCK_SMEM_MAX / 16];
static unsigned char redzone[BLOCK_REDZONE_BYTES];
/* OS pages found to be device memory in this launch, by the low bits of their number. */
static uintptr_t known[KNOWN_PAGES];

void memory_new_launch(void)
{
	memset(known, 0, sizeof(known));
	memset(redzone, REDZONE_BYTE, sizeof(redzone));
}

int memory_new_block(size_t smem_bytes)
{
	if (smem_bytes > BLOCK_SMEM_MAX)
		return -1;
#ifdef MEMORY_ASAN
	__asan_unpoison_memory_region(buffer, sizeof(buffer));
#endif
	memset(buffer, BLOCK_POISON, smem_bytes);
	memset(copied, 0, (smem_bytes + 15) / 16 * sizeof(*copied));
	memcpy(buffer + smem_bytes, redzone, sizeof(redzone));
#ifdef MEMORY_ASAN
	__asan_poison_memory_region(buffer + smem_bytes, sizeof(redzone));
#endif
	sim_block.smem = buffer;
	sim_block.smem_bytes = smem_bytes;
	return 0;
}

bool memory_redzone_whole(void)
{
#ifdef MEMORY_ASAN
	__asan_unpoison_memory_region(buffer, sizeof(buffer));
#endif
	return memcmp(buffer + sim_block.smem_bytes, redzone, sizeof(redzone)) == 0;
}

void memory_check_smem(const void *at, size_t bytes, size_t alignment, const char *what,
		       struct sim_place place)
{
	uintptr_t offset = (uintptr_t)at - (uintptr_t)buffer;

	if (offset > sim_block.smem_bytes || bytes > sim_block.smem_bytes - offset)
		sim_fault(cudaErrorIllegalAddress, place, "%s: not in shared memory", what);
	if (offset % alignment)
		sim_fault(cudaErrorMisalignedAddress, place, "%s: not aligned to %zu bytes", what,
			  alignment);
}

static size_t chunk_of(const void *at)
{
	return ((uintptr_t)at - (uintptr_t)buffer) / 16;
}

void memory_copied(const void *at)
{
	const struct block_thread *t = block_current();

	copied[chunk_of(at)].thread = t->index + 1;
	copied[chunk_of(at)].epoch = t->fence_epoch;
}

bool memory_fenced(const void *at)
{
	size_t i = chunk_of(at);

	return !copied[i].thread ||
	       block_thread(copied[i].thread - 1)->fence_epoch != copied[i].epoch;
}

static bool device_page(uintptr_t page)
{
	uintptr_t *entry = &known[page % KNOWN_PAGES];

	if (*entry == page)
		return true;
	if (!sim_is_device((const void *)(page << PAGE_SHIFT), (size_t)1 << PAGE_SHIFT))
		return false;
	*entry = page;
	return true;
}

void memory_check_global(const void *at, size_t bytes, size_t alignment, const char *what,
			 struct sim_place place)
{
	uintptr_t first = (uintptr_t)at;

	if (first % alignment)
		sim_fault(cudaErrorMisalignedAddress, place, "%s: not aligned to %zu bytes", what,
			  alignment);
	/* An allocation may end within a page. */
	if (!device_page(first >> PAGE_SHIFT) && !sim_is_device(at, bytes))
		sim_fault(cudaErrorIllegalAddress, place, "%s: not in device memory", what);
}
