/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue of one step's words, in the order of its rows. It never grows: a step has a known number
 * of sampled rows, and its words are told before those of the next are added. Whoever ends a
 * sequence calls tell_flush() first, so that no word outlives it and done() comes last. The step
 * loop's thread alone.
 */
#include "engine/tell.h"
#include "base/assert.h"
#include "engine/seq.h"
#include <errno.h>
#include <stdlib.h>

int tell_init(struct tell *t, uint32_t max)
{
	*t = (struct tell){.max = max, .word = calloc(max, sizeof(*t->word))};
	return t->word ? 0 : -ENOMEM;
}

void tell_fini(struct tell *t)
{
	free(t->word);
	*t = (struct tell){0};
}

struct tell_word *tell_add(struct tell *t, struct seq *s)
{
	ASSERT(t->count < t->max);
	struct tell_word *w = &t->word[t->count++];

	*w = (struct tell_word){.s = s};
	return w;
}

bool tell_take(struct tell *t, struct tell_word *out)
{
	while (t->next < t->count) {
		struct tell_word *w = &t->word[t->next++];

		*out = *w;
		w->s = NULL;
		if (out->s)
			return true;
	}
	t->next = t->count = 0;
	return false;
}

void tell_flush(struct tell *t, const struct seq *s)
{
	for (uint32_t i = t->next; i < t->count; i++) {
		struct tell_word *w = &t->word[i];

		if (w->s != s)
			continue;
		w->s = NULL;
		s->args.sink.token(s->args.sink.ctx, &w->token);
	}
}
