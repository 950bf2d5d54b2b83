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
	STEP_IDLE = 0, /* no sequence has a row to compute */
	STEP_DONE,
};

/* Runs one step over d's running sequences. STEP_*, or -EIO: the device failed for good. */
int step_run(struct step *t, struct sched *d);

#endif
