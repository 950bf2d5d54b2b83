/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A word starts as one symbol for each byte that has a token; bytes that have none are dropped, as
 * the reference tokenizers do. Then, while any two neighbours merge, the pair of the lowest rank
 * (the leftmost among equals) becomes one symbol.
 *
 * Candidates wait in a binary heap; a merge leaves stale ones behind, which are told by not
 * matching the symbols any more. Each merge adds at most two, so a word of n bytes takes
 * O(n log n), whatever it holds: a megabyte of one letter is no special case.
 */
#include "engine/text/bpe.h"

#include <base/bits.h>
#include <errno.h>
#include <stdlib.h>

#define NONE UINT32_MAX

struct bpe_symbol {
	uint32_t id; /* VOCAB_NONE: merged into its left neighbour */
	uint32_t prev;
	uint32_t next;
};

struct bpe_candidate {
	uint32_t rank;
	uint32_t left; /* symbol */
	uint32_t id;   /* what the pair becomes */
};

struct encoder {
	const struct merges *merges;
	struct bpe_symbol *symbol;
	struct bpe_candidate *heap;
	size_t heap_count;
};

static bool before(const struct bpe_candidate *a, const struct bpe_candidate *b)
{
	return a->rank != b->rank ? a->rank < b->rank : a->left < b->left;
}

static void heap_push(struct encoder *e, struct bpe_candidate c)
{
	size_t i = e->heap_count++;

	while (i && before(&c, &e->heap[(i - 1) / 2])) {
		e->heap[i] = e->heap[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	e->heap[i] = c;
}

static struct bpe_candidate heap_pop(struct encoder *e)
{
	struct bpe_candidate top = e->heap[0];
	struct bpe_candidate last = e->heap[--e->heap_count];
	size_t i = 0;

	for (;;) {
		size_t child = 2 * i + 1;

		if (child >= e->heap_count)
			break;
		if (child + 1 < e->heap_count && before(&e->heap[child + 1], &e->heap[child]))
			child++;
		if (!before(&e->heap[child], &last))
			break;
		e->heap[i] = e->heap[child];
		i = child;
	}
	e->heap[i] = last;
	return top;
}

static const struct merge *merge_at(const struct encoder *e, uint32_t left)
{
	uint32_t right = e->symbol[left].next;

	return right == NONE ? NULL
			     : merges_find(e->merges, e->symbol[left].id, e->symbol[right].id);
}

static void consider(struct encoder *e, uint32_t left)
{
	const struct merge *m = left == NONE ? NULL : merge_at(e, left);

	if (m)
		heap_push(e, (struct bpe_candidate){m->rank, left, m->id});
}

static void merge_all(struct encoder *e)
{
	while (e->heap_count) {
		struct bpe_candidate c = heap_pop(e);
		struct bpe_symbol *s = &e->symbol[c.left];
		const struct merge *m = s->id == VOCAB_NONE ? NULL : merge_at(e, c.left);

		if (!m || m->id != c.id)
			continue; /* stale */
		struct bpe_symbol *right = &e->symbol[s->next];
		s->id = c.id;
		s->next = right->next;
		right->id = VOCAB_NONE;
		if (s->next != NONE)
			e->symbol[s->next].prev = c.left;
		consider(e, s->prev);
		consider(e, c.left);
	}
}

static int reserve(struct bpe_work *w, size_t bytes)
{
	if (bytes <= w->bytes_max)
		return 0;
	bpe_work_fini(w);
	bytes = bits_pow2_up(BITS_MAX(bytes, 64));
	w->symbol = malloc(bytes * sizeof(*w->symbol));
	/* One candidate for each pair at first, two for each of at most n - 1 merges, one goes. */
	w->heap = malloc(3 * bytes * sizeof(*w->heap));
	if (!w->symbol || !w->heap) {
		bpe_work_fini(w);
		return -ENOMEM;
	}
	w->bytes_max = bytes;
	return 0;
}

int bpe_encode(const struct vocab *v, const struct merges *m, struct bpe_work *w, const char *text,
	       size_t bytes, struct tokens *out)
{
	uint32_t count = 0;

	if (reserve(w, bytes))
		return -ENOMEM;
	struct encoder e = {m, w->symbol, w->heap, 0};
	for (size_t i = 0; i < bytes; i++) {
		uint32_t id = v->byte_token[(uint8_t)text[i]];

		if (id == VOCAB_NONE)
			continue;
		e.symbol[count] = (struct bpe_symbol){id, count ? count - 1 : NONE, count + 1};
		count++;
	}
	if (!count)
		return 0;
	e.symbol[count - 1].next = NONE;
	for (uint32_t i = 0; i < count; i++)
		consider(&e, i);
	merge_all(&e);
	for (uint32_t i = 0; i != NONE; i = e.symbol[i].next)
		tokens_push(out, e.symbol[i].id);
	return 0;
}

void bpe_work_fini(struct bpe_work *w)
{
	free(w->heap);
	free(w->symbol);
	*w = (struct bpe_work){0};
}
