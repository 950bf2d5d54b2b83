/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an engine will be and how much memory that takes, known before anything is allocated: a
 * start that does not fit is refused with the numbers.
 */
#ifndef ENGINE_FOOTPRINT_H
#define ENGINE_FOOTPRINT_H

#include <engine/engine.h>
#include <engine/forward.h>
#include <engine/step.h>
#include <stdio.h>

struct footprint {
	struct engine_config config; /* every 0 replaced by its default */
	struct forward_limits forward;
	struct step_limits step;
};

/* Fills in defaults and checks that the figures go together. 0, or -EINVAL with a sentence. */
int footprint_init(struct footprint *f, const struct engine_config *config, char *error,
		   size_t size);
/* Bytes that engine_new() will allocate; weights, which are there already, not counted. */
size_t footprint_bytes(const struct footprint *f);
/* 0, or -ENOMEM with the numbers in error[size]. */
int footprint_check(const struct footprint *f, char *error, size_t size);
/* The table that --print-plan shows. */
void footprint_print(const struct footprint *f, FILE *out);

/*
 * Memory for weights and activations that may still be taken where `ops` runs: what the device
 * says; of the host, what the machine has available, less where a control group says so. `max`, if
 * not 0, is what somebody allowed.
 */
uint64_t footprint_room_bytes(const struct kernel_ops *ops, uint64_t max);

#endif
