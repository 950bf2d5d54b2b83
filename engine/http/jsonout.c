/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A token may end inside a character, and a probability may be zero; a client still wants valid
 * JSON. All functions return new references, NULL only without memory.
 */
#include "engine/http/jsonout.h"
#include "engine/text/utf8.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

bool jsonout_is_utf8(const char *text, size_t bytes)
{
	for (size_t at = 0, step; at < bytes; at += step)
		if (utf8_next(text + at, bytes - at, &step) != UTF8_CHARACTER)
			return false;
	return true;
}

/* As detok.c spells the same bytes in the text: one U+FFFD for each broken beginning. */
json_t *jsonout_text(const char *text, size_t bytes)
{
	if (bytes == 0)
		return json_string("");
	if (jsonout_is_utf8(text, bytes))
		return json_stringn(text, bytes);
	char *fixed = malloc(UTF8_REPLACEMENT_BYTES * bytes);
	size_t used = 0;
	if (!fixed)
		return NULL;
	for (size_t at = 0, step; at < bytes; at += step) {
		bool good = utf8_next(text + at, bytes - at, &step) == UTF8_CHARACTER;
		size_t n = good ? step : UTF8_REPLACEMENT_BYTES;

		memcpy(fixed + used, good ? text + at : UTF8_REPLACEMENT, n);
		used += n;
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
