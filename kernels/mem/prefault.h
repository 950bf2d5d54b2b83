/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is there before anyone needs it. */
#ifndef KERNELS_MEM_PREFAULT_H
#define KERNELS_MEM_PREFAULT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Faults every OS page of a fresh map in, for writing, with at most so many threads; `huge`: asks
 * for huge pages first, which takes longer and spares a copy later. Blocks until all is there.
 * 0; -ENOMEM where memory ran out (never a signal); -errno of the kernel.
 */
int prefault(void *map, uint64_t bytes, uint32_t threads_max, bool huge);

#endif
