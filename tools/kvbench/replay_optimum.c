/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Belady's optimum: what goes is what is used again last. A block's next use never comes before its
 * parent's, so this breaks no chain either.
 *
 * The blocks that are there stand in a heap by their next use, the farthest on top. A block that is
 * used gets a new entry, and the old one, whose time has come by then, is below all others and is
 * never on top as long as another is there: it is skipped.
 */
#include "tools/kvbench/replay.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

struct optimum {
	const uint32_t *ids;
	uint64_t *next_use;  /* of each reference: the next one of its id */
	uint64_t *use_of_id; /* while next_use is made; then: the entry of the id that counts */
	uint64_t *heap;	     /* of references */
	uint64_t heap_count;
	uint64_t there_count;
	bool *there; /* by id */
};

static bool farther(const struct optimum *o, uint64_t a, uint64_t b)
{
	return o->next_use[a] > o->next_use[b] || (o->next_use[a] == o->next_use[b] && a > b);
}

static void push(struct optimum *o, uint64_t reference)
{
	uint64_t i = o->heap_count++;

	for (; i > 0 && farther(o, reference, o->heap[(i - 1) / 2]); i = (i - 1) / 2)
		o->heap[i] = o->heap[(i - 1) / 2];
	o->heap[i] = reference;
}

static uint64_t pop(struct optimum *o)
{
	uint64_t top = o->heap[0];
	uint64_t last = o->heap[--o->heap_count];
	uint64_t i = 0;

	for (;;) {
		uint64_t child = 2 * i + 1;
		if (child + 1 < o->heap_count && farther(o, o->heap[child + 1], o->heap[child]))
			child++;
		if (child >= o->heap_count || !farther(o, o->heap[child], last))
			break;
		o->heap[i] = o->heap[child];
		i = child;
	}
	o->heap[i] = last;
	return top;
}

static int optimum_init(struct optimum *o, const struct replay_trace *t)
{
	*o = (struct optimum){
		.ids = t->ids,
		.next_use = malloc(t->id_count * sizeof(*o->next_use)),
		.use_of_id = malloc(t->id_end * sizeof(*o->use_of_id)),
		.heap = malloc((t->id_count + 1) * sizeof(*o->heap)),
		.there = calloc(t->id_end, sizeof(*o->there)),
	};
	if (!o->next_use || !o->use_of_id || !o->heap || !o->there)
		return -ENOMEM;
	for (uint32_t id = 0; id < t->id_end; id++)
		o->use_of_id[id] = UINT64_MAX;
	for (uint64_t i = t->id_count; i-- > 0;) {
		o->next_use[i] = o->use_of_id[t->ids[i]];
		o->use_of_id[t->ids[i]] = i;
	}
	return 0;
}

static void optimum_fini(struct optimum *o)
{
	free(o->next_use);
	free(o->use_of_id);
	free(o->heap);
	free(o->there);
}

/* True: the block was there. */
static bool use(struct optimum *o, uint64_t reference, uint32_t blocks)
{
	uint32_t id = o->ids[reference];
	bool found = o->there[id];

	while (!found && o->there_count == blocks) {
		uint64_t victim = pop(o);
		if (o->use_of_id[o->ids[victim]] != victim)
			continue;
		o->there[o->ids[victim]] = false;
		o->there_count--;
	}
	o->there_count += !found;
	o->there[id] = true;
	o->use_of_id[id] = reference;
	push(o, reference);
	return found;
}

int replay_optimum(const struct replay_trace *t, uint32_t blocks, struct replay_result *out)
{
	struct optimum o;
	int rc = optimum_init(&o, t);

	*out = (struct replay_result){0};
	for (uint32_t r = 0; rc == 0 && r < t->request_count; r++) {
		uint64_t found = 0;
		for (uint64_t i = t->first[r]; i < t->first[r + 1]; i++)
			found += use(&o, i, blocks);
		replay_count(t, r, t->first[r + 1] - t->first[r], found, out);
	}
	optimum_fini(&o);
	return rc;
}
