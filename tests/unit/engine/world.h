/* SPDX-License-Identifier: Apache-2.0 */
/* A scheduler over a toy model and a stand-in kvd, single threaded, with a clock that tests move.
 */
#ifndef TESTS_WORLD_H
#define TESTS_WORLD_H

#include "engine/step.h"
#include "tests/unit/engine/kv_standin.h"
#include "tests/unit/engine/toy.h"

#define WORLD_TOKENS_MAX 1024u

struct world {
	struct toy *toy;
	struct forward *forward;
	struct step *step;
	struct kv *kv;
	struct sched sched;
	struct engine_stats stats;
	uint64_t now_ns;
	uint64_t next_id;
};

struct world_options {
	uint32_t pages;
	uint32_t magazine_max;
	uint32_t page_tokens;
	uint32_t batch_tokens;
	uint32_t chunk_tokens;
	uint32_t sequences_max;
	bool graphs;
	bool no_overlap;
};

/* Where worlds compute; NULL: the CPU. */
extern const struct kernel_ops *world_ops;

/* What one request's client saw. */
struct client {
	struct engine_submit_args args;
	struct seq *seq;
	uint32_t tokens[WORLD_TOKENS_MAX]; /* generated */
	float logprobs[WORLD_TOKENS_MAX];
	uint32_t count;
	float echo[WORLD_TOKENS_MAX]; /* of prompt tokens, by position */
	uint32_t echo_count;
	struct engine_done done;
	uint32_t done_count;
};

extern const struct world_options world_defaults;

void world_init(struct world *w, const struct world_options *o);
/* Also checks that no page and no lease is left. */
void world_fini(struct world *w);

void client_init(struct client *c, const uint32_t *prompt, uint32_t count, uint32_t max_tokens);
void world_submit(struct world *w, struct client *c);
/* One turn of the loop; the clock moves by 1 ms. Returns whether a step ran. */
bool world_turn(struct world *w);
/* Turns until all of them are done; fails the test after a great many. */
void world_run(struct world *w, struct client *clients, uint32_t count);
void world_random_tokens(uint32_t *out, uint32_t count, uint64_t seed);
/* What the request generates alone, in a world with memory in plenty, step after step. */
void world_expected(const struct client *c, struct client *out);
void assert_same_answer(const struct client *a, const struct client *b);

#endif
