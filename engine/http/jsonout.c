/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A token may end inside a character, and a probability may be zero; a client still wants valid
 * JSON. All functions return new references, NULL only without memory.
 */
#include "engine/http/jsonout.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* The length of the character at text, or 0: not UTF-8. */
static size_t char_bytes(const char *text, size_t bytes)
{
	utf8proc_int32_t c;
	utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)text,
					      (utf8proc_ssize_t)(bytes < 4 ? bytes : 4), &c);

	return n > 0 ? (size_t)n : 0;
}

bool jsonout_is_utf8(const char *text, size_t bytes)
{
	for (size_t at = 0, n; at < bytes; at += n) {
		n = char_bytes(text + at, bytes - at);
		if (n == 0)
			return false;
	}
	return true;
}

json_t *jsonout_text(const char *text, size_t bytes)
{
	static const char replacement[] = "\xEF\xBF\xBD";

	if (bytes == 0)
		return json_string("");
	if (jsonout_is_utf8(text, bytes))
		return json_stringn(text, bytes);
	char *fixed = malloc(3 * bytes + 1);
	size_t used = 0;
	if (!fixed)
		return NULL;
	for (size_t at = 0; at < bytes;) {
		size_t n = char_bytes(text + at, bytes - at);
		size_t step = n ? n : 1;

		memcpy(fixed + used, n ? text + at : replacement, n ? n : 3);
		used += n ? n : 3;
		at += step;
	}
	json_t *out = json_stringn(fixed, used);
	free(fixed);
	return out;
}

json_t *jsonout_logprob(float v)
{
	return json_real(isfinite(v) ? (double)v : -9999.0);
}

json_t *jsonout_bytes(const char *text, size_t bytes)
{
	json_t *out = json_array();

	for (size_t i = 0; out && i < bytes; i++)
		(void)json_array_append_new(out, json_integer((unsigned char)text[i]));
	return out;
}

size_t jsonout_chars(const char *text, size_t bytes)
{
	size_t n = 0;

	for (size_t i = 0; i < bytes; i++)
		n += ((unsigned char)text[i] & 0xC0) != 0x80;
	return n;
}
