/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One step: chooses the rows of running sequences, computes them, and hands out what came of it.
 */
#ifndef ENGINE_STEP_H
#define ENGINE_STEP_H

#include <engine/sched.h>

struct step;

struct step_limits {
	uint32_t batch_tokens;
	uint32_t chunk_tokens;
	uint32_t sequences_max;
	uint32_t vocab;
	bool overlap; /* submit a step while one computes; the device must be asynchronous */
};

/* Rows of logits that one step may need: for the forward pass's plan. */
uint32_t step_sampled_max(uint32_t sequences_max);
/* Bytes that step_new() allocates. */
size_t step_bytes(const struct step_limits *l);
int step_new(const struct step_limits *l, struct step **out);
void step_free(struct step *t);

enum step_result {
	STEP_IDLE, /* no sequence has a row to compute */
	STEP_STARTED,
};

/*
 * Chooses the rows of a step over d's running sequences, and starts it; at most one other may be
 * under way. Until step_finish() no sequence that is in it may lose its lease (seq.flights).
 */
enum step_result step_start(struct step *t, struct sched *d);
/* Tells clients what came of the step before: a device computes meanwhile. false: nothing did. */
bool step_tell(struct step *t, struct sched *d);
/*
 * Waits until no more than `left` steps are under way, and notes what came of the others. Clients
 * must have been told of all that was noted before. 0, or -EIO: the device failed for good.
 */
int step_finish(struct step *t, struct sched *d, uint32_t left);
/* How many steps may stay under way while the next one is chosen: 0 or 1. */
uint32_t step_overlap(const struct step *t, const struct sched *d);
uint32_t step_under_way(const struct step *t);
/* The device has failed: nothing comes of the steps under way. */
void step_forget(struct step *t);
/* What waits to be told; for sched_init(). */
struct tell *step_words(struct step *t);

#endif
