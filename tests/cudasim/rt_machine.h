/* SPDX-License-Identifier: Apache-2.0 */
/* Segments: pieces of a device's memory that several processes of one machine may map. */
#ifndef TESTS_CUDASIM_RT_MACHINE_H
#define TESTS_CUDASIM_RT_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#define RT_GRANULARITY (2ull << 20)

/* Names a segment in every process of the machine. */
struct rt_segment {
	int32_t physical;
	int32_t pid;	/* of its maker */
	uint64_t start; /* when that process began: numbers of processes come again */
	uint64_t number;
	uint64_t bytes;
};

/* A new one, poisoned; *out_fd keeps it, as does any mapping. -ENOMEM: the device is full. */
int rt_machine_new(int physical, uint64_t bytes, struct rt_segment *out, int *out_fd);
/* One that another process made; -ENOENT: its maker freed it, or is dead. */
int rt_machine_open(const struct rt_segment *segment, int *out_fd);
/* Which segment an fd keeps; -EINVAL: none. */
int rt_machine_identify(int fd, struct rt_segment *out);
/*
 * The caller neither maps nor keeps it any more; with `hide` nobody may open it any more. The
 * memory comes back when nobody maps or keeps it. True: somebody still does.
 */
bool rt_machine_leave(const struct rt_segment *segment, bool hide);
uint64_t rt_machine_free_bytes(int physical);

#endif
