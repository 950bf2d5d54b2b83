/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds the longest end of the text that begins some stop string: at most STOP_BYTES_MAX - 1
 * bytes, so that one push always fits. Stop strings and text are UTF-8, so a match never starts
 * inside a character.
 */
#include "engine/http/stop.h"
#include <base/assert.h>
#include <string.h>

void stop_init(struct stop *s, const struct stop_set *set)
{
	s->set = set;
	s->held_bytes = 0;
	s->hit = false;
}

/*
 * Where the stop string begins that is complete first, or held_bytes. First by its end, not by its
 * start, so that the answer does not depend on how the text was cut into pieces.
 */
static size_t first_hit(const struct stop *s)
{
	size_t first = s->held_bytes;
	size_t first_end = s->held_bytes + 1;

	for (uint32_t i = 0; i < s->set->count; i++) {
		const struct stop_string *t = &s->set->string[i];
		const char *at = memmem(s->held, s->held_bytes, t->text, t->bytes);
		size_t start = at ? (size_t)(at - s->held) : 0;
		size_t end = start + t->bytes;

		if (at && (end < first_end || (end == first_end && start < first))) {
			first = start;
			first_end = end;
		}
	}
	return first;
}

/* How many bytes at the end of the text could be the start of a stop string. */
static size_t open_bytes(const struct stop *s, const struct stop_string *t)
{
	size_t n = t->bytes - 1 < s->held_bytes ? t->bytes - 1 : s->held_bytes;

	while (n > 0 && memcmp(s->held + s->held_bytes - n, t->text, n) != 0)
		n--;
	return n;
}

/* Moves the first `bytes` of what is held to out and forgets them. */
static size_t let_go(struct stop *s, size_t bytes, char *out)
{
	memcpy(out, s->held, bytes);
	s->held_bytes -= bytes;
	memmove(s->held, s->held + bytes, s->held_bytes);
	return bytes;
}

size_t stop_push(struct stop *s, const char *text, size_t bytes, char *out)
{
	size_t keep = 0;

	ASSERT(!s->hit && bytes <= STOP_PUSH_BYTES_MAX);
	ASSERT(s->held_bytes + bytes <= sizeof(s->held));
	memcpy(s->held + s->held_bytes, text, bytes);
	s->held_bytes += bytes;
	size_t at = first_hit(s);
	if (at < s->held_bytes) {
		s->hit = true;
		s->held_bytes = at;
		return let_go(s, at, out);
	}
	for (uint32_t i = 0; i < s->set->count; i++) {
		size_t n = open_bytes(s, &s->set->string[i]);

		keep = n > keep ? n : keep;
	}
	return let_go(s, s->held_bytes - keep, out);
}

size_t stop_finish(struct stop *s, char *out)
{
	return let_go(s, s->held_bytes, out);
}
