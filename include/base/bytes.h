/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cursor over untrusted bytes. Every read is checked; the first one that does not fit sets
 * `failed` and returns zero, and so do all later ones: a parser may read a whole record and
 * check once at its end. Integers are little endian.
 */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct bytes {
	const uint8_t *pos;
	const uint8_t *end;
	bool failed;
};

static inline struct bytes bytes_over(const void *data, size_t size)
{
	return (struct bytes){.pos = data, .end = (const uint8_t *)data + size};
}

static inline size_t bytes_left(const struct bytes *b)
{
	return b->failed ? 0 : (size_t)(b->end - b->pos);
}

/* Returns `size` bytes and steps over them, or NULL. The memory stays the caller's. */
static inline const uint8_t *bytes_take(struct bytes *b, uint64_t size)
{
	if (size > bytes_left(b)) {
		b->failed = true;
		return NULL;
	}
	const uint8_t *at = b->pos;
	b->pos += size;
	return at;
}

static inline uint64_t bytes_uint(struct bytes *b, size_t size)
{
	uint64_t v = 0;
	const uint8_t *at = bytes_take(b, size);

	for (size_t i = 0; at && i < size; i++)
		v |= (uint64_t)at[i] << (8 * i);
	return v;
}

static inline uint8_t bytes_u8(struct bytes *b)
{
	return (uint8_t)bytes_uint(b, 1);
}

static inline uint16_t bytes_u16(struct bytes *b)
{
	return (uint16_t)bytes_uint(b, 2);
}

static inline uint32_t bytes_u32(struct bytes *b)
{
	return (uint32_t)bytes_uint(b, 4);
}

static inline uint64_t bytes_u64(struct bytes *b)
{
	return bytes_uint(b, 8);
}

static inline float bytes_f32(struct bytes *b)
{
	uint32_t bits = bytes_u32(b);
	float v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}

#endif
