/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cp.async: a thread's copies into shared memory, in groups. The bytes are poison from the issue to
 * the wait that covers their group, so that whoever reads earlier sees it; a copy that nobody waits
 * for never lands. The source is read at the issue or at the wait, as the seed says: both are
 * allowed, so that a source which changes in between shows too.
 */
#include "tests/cudasim/exec/block.h"

#include <stdlib.h>
#include <string.h>

struct copy {
	unsigned char *to;
	const unsigned char *from; /* NULL: `bytes` hold what lands */
	unsigned char bytes[16];
	uint32_t group;
};

struct cp_async {
	uint32_t group; /* the open one */
	uint32_t first; /* copies before this one have landed */
	uint32_t count;
	uint32_t capacity;
	struct copy *copies;
};

void cp_async_reset(struct block_thread *t)
{
	if (t->copies)
		t->copies->group = t->copies->first = t->copies->count = 0;
}

/* One more entry in the thread's list. */
static struct copy *append(struct block_thread *t, struct sim_place place)
{
	struct cp_async *c = t->copies;

	if (!c)
		c = t->copies = calloc(1, sizeof(*c));
	if (c && c->count == c->capacity) {
		uint32_t capacity = c->capacity ? 2 * c->capacity : 32;
		struct copy *grown = realloc(c->copies, capacity * sizeof(*grown));

		if (grown) {
			c->copies = grown;
			c->capacity = capacity;
		}
	}
	if (!c || c->count == c->capacity)
		sim_fault(cudaErrorMemoryAllocation, place, "no memory for copies under way");
	return &c->copies[c->count++];
}

void sim_cp_async16(void *smem, const void *global, bool valid, struct sim_place place)
{
	struct block_thread *t = block_current();
	struct copy *copy;

	memory_check_smem(smem, 16, 16, "destination of a copy", place);
	if (valid)
		memory_check_global(global, 16, 16, "source of a copy", place);
	copy = append(t, place);
	copy->to = smem;
	copy->group = t->copies->group;
	copy->from = NULL;
	if (!valid)
		memset(copy->bytes, 0, sizeof(copy->bytes));
	else if (block_random() >> 63)
		copy->from = global;
	else
		memcpy(copy->bytes, global, sizeof(copy->bytes));
	memset(smem, BLOCK_POISON, 16);
}

void sim_cp_commit(void)
{
	struct block_thread *t = block_current();

	if (t->copies)
		t->copies->group++;
}

void sim_cp_wait(uint32_t groups_left)
{
	struct cp_async *c = block_current()->copies;

	if (!c)
		return;
	for (; c->first < c->count; c->first++) {
		const struct copy *copy = &c->copies[c->first];

		if (copy->group + groups_left >= c->group)
			return;
		memcpy(copy->to, copy->from ? copy->from : copy->bytes, 16);
		memory_copied(copy->to);
	}
	c->first = c->count = 0;
}
