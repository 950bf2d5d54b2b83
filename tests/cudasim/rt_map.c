/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where device memory lies in this process. Every reservation has a guard on both sides, and the
 * addresses of dropped ones stay reserved until many more were dropped, so that a stale pointer
 * faults. All mapped memory carries one protection key where the CPU has keys: host code faults
 * when it touches it, work has the key open. Without keys host code can touch it unseen.
 */
#include "tests/cudasim/rt_map.h"
#include "tests/cudasim/rt.h"
#include "tests/cudasim/rt_machine.h"
#include <errno.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define MAP_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MAP_ASAN 1
#endif
#endif
#ifdef MAP_ASAN
#include <sanitizer/asan_interface.h>
#endif

#define MAP_AREAS 4096
#define MAP_QUARANTINE 1024

/* What is reserved, dropped ones included; the oldest dropped goes first. */
static struct map_area {
	uint8_t *base;
	uint64_t bytes;
	uint64_t dropped; /* its turn; 0: in use */
} areas[MAP_AREAS];
static uint32_t area_count, dropped_count;
static uint64_t turns;

static int key = -2; /* -2: not asked yet, -1: none */
static _Thread_local unsigned open_depth;

static int map_key(void)
{
	if (key == -2)
		key = rt_env_u64("CUDASIM_PKEY", 1) ? pkey_alloc(0, PKEY_DISABLE_ACCESS) : -1;
	return key;
}

void sim_memory_open(void)
{
	if (open_depth++ == 0 && key >= 0)
		pkey_set(key, 0);
}

void sim_memory_close(void)
{
	if (--open_depth == 0 && key >= 0)
		pkey_set(key, PKEY_DISABLE_ACCESS);
}

unsigned rt_map_depth(void)
{
	return open_depth;
}

void rt_map_depth_set(unsigned depth)
{
	open_depth = depth;
	if (key >= 0)
		pkey_set(key, depth ? 0 : PKEY_DISABLE_ACCESS);
}

void rt_map_forbid(const void *at, uint64_t bytes)
{
#ifdef MAP_ASAN
	__asan_poison_memory_region(at, bytes);
#endif
}

void rt_map_allow(const void *at, uint64_t bytes)
{
#ifdef MAP_ASAN
	__asan_unpoison_memory_region(at, bytes);
#endif
}

static void map_release_oldest(void)
{
	uint32_t oldest = UINT32_MAX;

	for (uint32_t i = 0; i < area_count; i++)
		if (areas[i].dropped &&
		    (oldest == UINT32_MAX || areas[i].dropped < areas[oldest].dropped))
			oldest = i;
	struct map_area *a = &areas[oldest];
	munmap(a->base - RT_GRANULARITY, a->bytes + 2 * RT_GRANULARITY);
	*a = areas[--area_count];
	dropped_count--;
}

uint8_t *rt_map_reserve(uint64_t bytes)
{
	uint64_t all = bytes + 3 * RT_GRANULARITY;

	if (area_count == MAP_AREAS)
		return NULL;
	uint8_t *p = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	uint64_t skip = -(uintptr_t)p % RT_GRANULARITY;
	if (skip)
		munmap(p, skip);
	munmap(p + skip + bytes + 2 * RT_GRANULARITY, RT_GRANULARITY - skip);
	uint8_t *base = p + skip + RT_GRANULARITY;
	areas[area_count++] = (struct map_area){.base = base, .bytes = bytes};
	return base;
}

void rt_map_unfile(uint8_t *base, uint64_t bytes)
{
	rt_map_allow(base, bytes);
	mmap(base, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
	     0);
}

void rt_map_drop(uint8_t *base, uint64_t bytes)
{
	rt_map_unfile(base, bytes);
	for (uint32_t i = 0; i < area_count; i++)
		if (areas[i].base == base)
			areas[i].dropped = ++turns;
	if (++dropped_count > MAP_QUARANTINE)
		map_release_oldest();
}

int rt_map_protect(uint8_t *base, uint64_t bytes, int prot)
{
	int r = map_key() >= 0 ? pkey_mprotect(base, bytes, prot, map_key())
			       : mprotect(base, bytes, prot);

	return r < 0 ? -errno : 0;
}

int rt_map_file(uint8_t *base, uint64_t bytes, int fd, int prot)
{
	rt_trap_install();
	void *p = mmap(base, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, fd, 0);

	return p == MAP_FAILED ? -errno : rt_map_protect(base, bytes, prot);
}

bool rt_map_owns(const void *at)
{
	for (uint32_t i = 0; i < area_count; i++) {
		const uint8_t *base = areas[i].base - RT_GRANULARITY;
		if ((const uint8_t *)at >= base &&
		    (const uint8_t *)at < base + areas[i].bytes + 2 * RT_GRANULARITY)
			return true;
	}
	return false;
}
