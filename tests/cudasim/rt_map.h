/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of device memory: reserved with guards, mapped, protected, and not used again soon. */
#ifndef TESTS_CUDASIM_RT_MAP_H
#define TESTS_CUDASIM_RT_MAP_H

#include <stdbool.h>
#include <stdint.h>

/* Addresses that nobody may touch, aligned to RT_GRANULARITY. NULL: none left. */
uint8_t *rt_map_reserve(uint64_t bytes);
/* Forgets all that is mapped there; the addresses stay untouchable for a while. */
void rt_map_drop(uint8_t *base, uint64_t bytes);
/* Puts the file there; prot as mmap()'s. Nothing else may have it but work and rt_map users. */
int rt_map_file(uint8_t *base, uint64_t bytes, int fd, int prot);
int rt_map_protect(uint8_t *base, uint64_t bytes, int prot);
void rt_map_unfile(uint8_t *base, uint64_t bytes);
/* The address lies in what was reserved, whether or not anything is there. */
bool rt_map_owns(const void *at);

/* How many sim_memory_open() of this thread have no end yet; to come back to after a fault. */
unsigned rt_map_depth(void);
void rt_map_depth_set(unsigned depth);

/* For ASan: what lies outside of allocations may not be touched. Nothing without it. */
void rt_map_forbid(const void *at, uint64_t bytes);
void rt_map_allow(const void *at, uint64_t bytes);

#endif
