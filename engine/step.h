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
 * Chooses the rows of a step over d's running sequences, and starts it. Until step_finish() no
 * sequence that is in it may end or lose its lease.
 */
enum step_result step_start(struct step *t, struct sched *d);
/* Tells clients what came of the step before: a device computes meanwhile. false: nothing did. */
bool step_tell(struct step *t, struct sched *d);
/* After STEP_STARTED. 0, or -EIO: the device failed for good. */
int step_finish(struct step *t, struct sched *d);
/* What waits to be told; for sched_init(). */
struct tell *step_words(struct step *t);

#endif
