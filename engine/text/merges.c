/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open addressing over pairs of ids; at most half full, seeded at random against files that aim
 * at collisions. "a b" in the file becomes two ids once, here: encoding compares integers only.
 */
#include "engine/text/merges.h"

#include "engine/model/fail.h"

#include <base/bits.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define COUNT_MAX (1u << 22)

static uint32_t start(const struct merges *m, uint32_t left, uint32_t right)
{
	const uint32_t pair[2] = {left, right};

	return (uint32_t)XXH3_64bits_withSeed(pair, sizeof(pair), m->seed) & m->mask;
}

/* The slot of the pair, or the empty one where it belongs. */
static struct merge *probe(const struct merges *m, uint32_t left, uint32_t right)
{
	uint32_t i = start(m, left, right);

	while (m->slot[i].id != VOCAB_NONE &&
	       (m->slot[i].left != left || m->slot[i].right != right))
		i = (i + 1) & m->mask;
	return &m->slot[i];
}

const struct merge *merges_find(const struct merges *m, uint32_t left, uint32_t right)
{
	const struct merge *found = probe(m, left, right);

	return found->id == VOCAB_NONE ? NULL : found;
}

static int add(struct merges *m, const struct vocab *v, const struct gguf_string *spelling,
	       uint32_t rank)
{
	char text[2 * VOCAB_TOKEN_BYTES_MAX];
	const char *space = NULL;

	/* A spelled byte takes up to two bytes, and two tokens may merge into one of the maximum.
	 */
	if (spelling->bytes > 1 && spelling->bytes <= sizeof(text))
		space = memchr(spelling->text + 1, ' ', spelling->bytes - 1);
	if (!space)
		return -EINVAL;
	struct gguf_string left = {spelling->text, (size_t)(space - spelling->text)};
	struct gguf_string right = {space + 1, spelling->bytes - left.bytes - 1};
	int64_t left_bytes = vocab_unspell(&left, text);
	if (left_bytes <= 0)
		return -EINVAL;
	int64_t right_bytes = vocab_unspell(&right, text + left_bytes);
	if (right_bytes <= 0)
		return -EINVAL;
	uint32_t a = vocab_find(v, text, (size_t)left_bytes);
	uint32_t b = vocab_find(v, text + left_bytes, (size_t)right_bytes);
	uint32_t both = vocab_find(v, text, (size_t)(left_bytes + right_bytes));
	if (a == VOCAB_NONE || b == VOCAB_NONE || both == VOCAB_NONE)
		return -EINVAL;
	struct merge *slot = probe(m, a, b);
	if (slot->id == VOCAB_NONE)
		*slot = (struct merge){a, b, rank, both};
	return 0;
}

int merges_init(struct merges *m, const struct vocab *v, const struct gguf *g, char *error,
		size_t size)
{
	struct gguf_array list;
	struct gguf_string spelling;
	size_t offset = 0;

	*m = (struct merges){.seed = v->seed};
	if (gguf_get_array(g, "tokenizer.ggml.merges", GGUF_STRING, &list) ||
	    list.count > COUNT_MAX)
		return fail_with(error, size, -EINVAL,
				 "the file holds no list of at most %u merges", COUNT_MAX);
	size_t slots = bits_pow2_up(2 * list.count + 1);
	m->slot = malloc(slots * sizeof(*m->slot));
	if (!m->slot)
		return fail_with(error, size, -ENOMEM, "no memory for the merges of the tokenizer");
	memset(m->slot, 0xff, slots * sizeof(*m->slot));
	m->mask = (uint32_t)slots - 1;
	for (uint32_t rank = 0; gguf_next_string(&list, &offset, &spelling); rank++) {
		if (!add(m, v, &spelling, rank))
			continue;
		merges_fini(m);
		return fail_with(error, size, -EINVAL,
				 "merge %u does not make one token of two that exist", rank);
	}
	return 0;
}

void merges_fini(struct merges *m)
{
	free(m->slot);
	*m = (struct merges){0};
}
