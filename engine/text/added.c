/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spellings are sorted; a match narrows the range of those that agree with the text, one byte
 * at a time, by binary search. No automaton is needed: almost every position of a text is refused
 * by its first byte.
 */
#include "engine/text/added.h"

#include <base/bits.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int by_bytes(const void *a, const void *b, void *ctx)
{
	const struct vocab *v = ctx;
	const struct vocab_token *x = &v->token[*(const uint32_t *)a];
	const struct vocab_token *y = &v->token[*(const uint32_t *)b];
	int order = memcmp(v->text + x->offset, v->text + y->offset, BITS_MIN(x->bytes, y->bytes));

	return order ? order : (int)x->bytes - (int)y->bytes;
}

static uint8_t byte_at(const struct added *a, uint32_t i, size_t at)
{
	return (uint8_t)a->v->text[a->v->token[a->id[i]].offset + at];
}

int added_init(struct added *a, const struct vocab *v)
{
	*a = (struct added){.v = v};
	for (uint32_t id = 0; id < v->count; id++)
		a->count += v->token[id].kind != VOCAB_NORMAL && v->token[id].bytes;
	a->id = calloc(a->count + 1u, sizeof(*a->id));
	if (!a->id)
		return -ENOMEM;
	for (uint32_t id = 0, i = 0; id < v->count; id++) {
		if (v->token[id].kind != VOCAB_NORMAL && v->token[id].bytes)
			a->id[i++] = id;
	}
	qsort_r(a->id, a->count, sizeof(*a->id), by_bytes, (void *)(uintptr_t)v);
	for (uint32_t b = 0, i = 0; b <= 256; b++) {
		while (i < a->count && byte_at(a, i, 0) < b)
			i++;
		a->first[b] = i;
	}
	return 0;
}

void added_fini(struct added *a)
{
	free(a->id);
	*a = (struct added){0};
}

/* The first of [low, high) whose byte `at` is not below `byte`; all are longer than `at`. */
static uint32_t lower_bound(const struct added *a, uint32_t low, uint32_t high, size_t at,
			    uint32_t byte)
{
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (byte_at(a, middle, at) < byte)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

uint32_t added_match(const struct added *a, const char *text, size_t bytes, bool special,
		     size_t *out_bytes)
{
	uint32_t low = a->first[(uint8_t)text[0]];
	uint32_t high = a->first[(uint8_t)text[0] + 1];
	uint32_t best = VOCAB_NONE;

	/* All of [low, high) agree with the first `length` bytes; the shortest come first. */
	for (size_t length = 1; low < high; length++) {
		while (low < high && a->v->token[a->id[low]].bytes == length) {
			uint32_t id = a->id[low++];

			if (special || a->v->token[id].kind == VOCAB_USER) {
				best = id;
				*out_bytes = length;
			}
		}
		if (length == bytes)
			break;
		low = lower_bound(a, low, high, length, (uint8_t)text[length]);
		high = lower_bound(a, low, high, length, (uint8_t)text[length] + 1u);
	}
	return best;
}
