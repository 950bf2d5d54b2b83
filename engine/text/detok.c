/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens of a byte-level vocabulary may end inside a character. What leaves here is always whole,
 * valid UTF-8: an incomplete character waits in `held`, and bytes that cannot become one are
 * replaced by U+FFFD, exactly as decoding all tokens at once would.
 */
#include "engine/text/tokenizer.h"
#include "engine/text/utf8.h"

#include <errno.h>
#include <string.h>

struct writer {
	char *out;
	size_t size;
	size_t used;
	bool full;
};

static void put(struct writer *w, const char *text, size_t bytes)
{
	if (w->full || bytes > w->size - w->used) {
		w->full = true;
		return;
	}
	memcpy(w->out + w->used, text, bytes);
	w->used += bytes;
}

void detok_init(struct detok *d, const struct tokenizer *t)
{
	*d = (struct detok){.t = t};
}

/* Writes what is decided of text[bytes]; returns how many bytes at its end are not. */
static size_t put_decided(struct writer *w, const char *text, size_t bytes)
{
	size_t step;

	for (size_t at = 0; at < bytes; at += step) {
		switch (utf8_next(text + at, bytes - at, &step)) {
		case UTF8_CHARACTER:
			put(w, text + at, step);
			break;
		case UTF8_INVALID:
			put(w, UTF8_REPLACEMENT, UTF8_REPLACEMENT_BYTES);
			break;
		case UTF8_PARTIAL:
			return bytes - at;
		}
	}
	return 0;
}

/* Completes or refuses the held bytes with the first of the text; returns how many it used. */
static size_t put_held(struct detok *d, struct writer *w, const char *text, size_t bytes)
{
	size_t used = 0, step;

	while (d->held_bytes && used < bytes) {
		d->held[d->held_bytes++] = text[used++];
		switch (utf8_next(d->held, d->held_bytes, &step)) {
		case UTF8_CHARACTER:
			put(w, d->held, step);
			d->held_bytes = 0;
			break;
		case UTF8_INVALID:
			/* The new byte is what does not fit: it may begin something else. */
			put(w, UTF8_REPLACEMENT, UTF8_REPLACEMENT_BYTES);
			d->held_bytes = 0;
			used--;
			break;
		case UTF8_PARTIAL:
			break;
		}
	}
	return used;
}

int detok_push(struct detok *d, uint32_t token, char *out, size_t size)
{
	struct writer w = {out, size, 0, false};
	struct detok before = *d;
	const char *text;
	size_t bytes;

	if (tokenizer_piece(d->t, token, false, &text, &bytes))
		return 0;
	size_t used = put_held(d, &w, text, bytes);
	size_t rest = put_decided(&w, text + used, bytes - used);
	if (w.full) {
		*d = before;
		return -ENOSPC;
	}
	if (rest) {
		memcpy(d->held, text + bytes - rest, rest);
		d->held_bytes = (uint32_t)rest;
	}
	return (int)w.used;
}

int detok_finish(struct detok *d, char *out, size_t size)
{
	if (!d->held_bytes)
		return 0;
	if (size < UTF8_REPLACEMENT_BYTES)
		return -ENOSPC;
	memcpy(out, UTF8_REPLACEMENT, UTF8_REPLACEMENT_BYTES);
	d->held_bytes = 0;
	return (int)UTF8_REPLACEMENT_BYTES;
}
