/* SPDX-License-Identifier: Apache-2.0 */
/* A persistent team of threads: one fork and join per operation. The caller is thread 0. */
#ifndef KERNELS_CPU_TEAM_H
#define KERNELS_CPU_TEAM_H

#include <stdint.h>

#define TEAM_THREADS_MAX 256u

struct team;

/* Runs on each thread of the team, index 0 on the caller. */
typedef void team_fn(void *arg, uint32_t index, uint32_t count);

/* threads 0: one per core that this process may use. 0 or -errno. */
int team_new(uint32_t threads, struct team **out);
void team_free(struct team *t);
uint32_t team_threads(const struct team *t);
/* Cores that this process may use, at least 1. */
uint32_t team_cores(void);

/* Returns when fn has ended on all threads. One caller at a time. */
void team_run(struct team *t, team_fn *fn, void *arg);

/* The part [*out_begin, *out_end) of `items` that thread index of count takes: fixed, contiguous.
 */
static inline void team_part(uint32_t items, uint32_t index, uint32_t count, uint32_t *out_begin,
			     uint32_t *out_end)
{
	*out_begin = (uint32_t)((uint64_t)items * index / count);
	*out_end = (uint32_t)((uint64_t)items * (index + 1) / count);
}

#endif
