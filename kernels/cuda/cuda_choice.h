/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernel attention of prompts takes, by the length of a step. */
#ifndef KERNELS_CUDA_CUDA_CHOICE_H
#define KERNELS_CUDA_CUDA_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#define CUDA_CHOICE_RUNGS 3u

/* Of steps from cuda_choice_rows[i] rows on: is the Hopper kernel the faster? */
struct cuda_choice {
	bool hopper[CUDA_CHOICE_RUNGS];
};
extern const uint32_t cuda_choice_rows[CUDA_CHOICE_RUNGS];

struct kernels_ctx;

/*
 * Reads the table that was kept for this device and these shapes, or measures it and keeps it. What
 * goes wrong leaves the kernel that every device has.
 */
void cuda_choice_make(struct kernels_ctx *ctx);
bool cuda_choice_hopper(const struct cuda_choice *c, uint32_t rows);

#endif
