/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What clients will hear of a step. Its words wait until the next step has been started, so that a
 * device computes while sockets are written; a sequence that ends earlier hears its own first.
 */
#ifndef ENGINE_TELL_H
#define ENGINE_TELL_H

#include <engine/engine.h>
#include <stddef.h>

struct seq;

struct tell_word {
	struct seq *s; /* NULL: told already */
	struct engine_token token;
	bool ends; /* with this token */
	enum engine_finish finish;
};

struct tell {
	struct tell_word *word; /* [max] */
	uint32_t max;
	uint32_t count;
	uint32_t next; /* to be told */
};

/* max: words of one step. 0 or -ENOMEM. */
int tell_init(struct tell *t, uint32_t max);
void tell_fini(struct tell *t);
/* A new word; all of the step before have been told. */
struct tell_word *tell_add(struct tell *t, struct seq *s);
/* Takes the oldest word that waits. false: there is none. */
bool tell_take(struct tell *t, struct tell_word *out);
/* Tells all that waits for s, but for an end. */
void tell_flush(struct tell *t, const struct seq *s);

#endif
