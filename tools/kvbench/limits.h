/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this machine can do at best, measured now: a bench's result means something only beside the
 * limit of the same run. Each call measures for a fraction of a second and returns the best of
 * several short samples. threads 0: one per core.
 */
#ifndef TOOLS_KVBENCH_LIMITS_H
#define TOOLS_KVBENCH_LIMITS_H

#include <stdint.h>

/* Less than this, read again and again, comes from a cache: memory is no limit to it. */
#define LIMITS_CACHED_BYTES (16u << 20)

/* Operations per second of the fastest instruction there is: AMX, AVX-512, FMA, or plain C. */
double limits_bf16_flops(uint32_t threads);
double limits_f32_flops(uint32_t threads);
double limits_int8_ops(uint32_t threads);

/* Bytes per second from memory far larger than the caches, and of memcpy (bytes copied). */
double limits_read_bytes_per_s(uint32_t threads);
double limits_copy_bytes_per_s(uint32_t threads);

#endif
