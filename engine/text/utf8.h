/* SPDX-License-Identifier: Apache-2.0 */
/* One step through bytes that should be UTF-8, and may be anything. */
#ifndef ENGINE_TEXT_UTF8_H
#define ENGINE_TEXT_UTF8_H

#include <stddef.h>
#include <stdint.h>

#define UTF8_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */
#define UTF8_REPLACEMENT_BYTES 3u

enum utf8_step {
	UTF8_CHARACTER,
	UTF8_INVALID, /* stands for one U+FFFD: the longest prefix of a character, at least a byte
		       */
	UTF8_PARTIAL, /* all that is left may be the beginning of a character */
};

/* left >= 1; *out_bytes is what to step over. Unicode 15, table 3-7 and section 3.9. */
static inline enum utf8_step utf8_next(const char *text, size_t left, size_t *out_bytes)
{
	const uint8_t *p = (const uint8_t *)text;
	uint8_t low = 0x80, high = 0xbf; /* of the second byte */
	size_t need;

	*out_bytes = 1;
	if (p[0] < 0x80)
		return UTF8_CHARACTER;
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return UTF8_INVALID;
	need = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	if (p[0] == 0xe0)
		low = 0xa0;
	else if (p[0] == 0xed)
		high = 0x9f;
	else if (p[0] == 0xf0)
		low = 0x90;
	else if (p[0] == 0xf4)
		high = 0x8f;
	for (size_t i = 1; i < need; i++) {
		*out_bytes = i;
		if (i == left)
			return UTF8_PARTIAL;
		if (p[i] < low || p[i] > high)
			return UTF8_INVALID;
		low = 0x80;
		high = 0xbf;
	}
	*out_bytes = need;
	return UTF8_CHARACTER;
}

/* The code point of a character that utf8_next() accepted. */
static inline uint32_t utf8_decode(const char *text, size_t bytes)
{
	const uint8_t *p = (const uint8_t *)text;
	uint32_t v = bytes == 1 ? p[0] : p[0] & (0x7fu >> bytes);

	for (size_t i = 1; i < bytes; i++)
		v = v << 6 | (p[i] & 0x3fu);
	return v;
}

#endif
