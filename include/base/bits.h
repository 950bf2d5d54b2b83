/* SPDX-License-Identifier: Apache-2.0 */
/* Small arithmetic that would otherwise be written anew, and wrongly, in every file. */
#ifndef BASE_BITS_H
#define BASE_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define CONTAINER_OF(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

#define BITS_MIN(a, b) ((a) < (b) ? (a) : (b))
#define BITS_MAX(a, b) ((a) > (b) ? (a) : (b))

static inline bool bits_is_pow2(uint64_t v)
{
	return v != 0 && (v & (v - 1)) == 0;
}

/* align must be a power of two; the caller has checked that v + align does not wrap. */
static inline uint64_t bits_align_up(uint64_t v, uint64_t align)
{
	return (v + align - 1) & ~(align - 1);
}

static inline uint64_t bits_div_ceil(uint64_t v, uint64_t by)
{
	return v / by + (v % by != 0);
}

/* The smallest power of two that is >= v, for v in [1, 2^63]. */
static inline uint64_t bits_pow2_up(uint64_t v)
{
	return v <= 1 ? 1 : 1ull << (64 - __builtin_clzll(v - 1));
}

#endif
