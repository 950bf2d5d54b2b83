/* SPDX-License-Identifier: Apache-2.0 */
/* Stop strings over streamed text: what may still become one is held back. */
#ifndef ENGINE_HTTP_STOP_H
#define ENGINE_HTTP_STOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STOP_STRINGS_MAX 16u
#define STOP_BYTES_MAX 1024u
#define STOP_PUSH_BYTES_MAX 1024u

struct stop_string {
	const char *text;
	size_t bytes; /* 1 .. STOP_BYTES_MAX */
};

struct stop_set {
	struct stop_string string[STOP_STRINGS_MAX];
	uint32_t count;
};

/* Embedded, no memory of its own. */
struct stop {
	const struct stop_set *set;
	char held[STOP_BYTES_MAX + STOP_PUSH_BYTES_MAX];
	size_t held_bytes;
	bool hit;
};

void stop_init(struct stop *s, const struct stop_set *set);
/*
 * Adds text[bytes], bytes <= STOP_PUSH_BYTES_MAX, and returns in out[sizeof(s->held)] what can no
 * longer be part of a stop string. When one is complete, s->hit is set, and everything from it on
 * is dropped. Not to be called after that.
 */
size_t stop_push(struct stop *s, const char *text, size_t bytes, char *out);
/* The text ended: what is still held. */
size_t stop_finish(struct stop *s, char *out);

#endif
