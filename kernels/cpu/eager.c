/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step on the CPU: nothing is recorded, nothing is padded, and every operation has ended when it
 * returns, so that begin hands the caller's batch through and wait has nothing to wait for.
 */
#include "kernels/cpu/ctx.h"

bool eager_prepare(struct kernels_ctx *ctx, struct kernel_batch *out)
{
	return false;
}

enum kernel_step eager_begin(struct kernels_ctx *ctx, const struct kernel_batch *in,
			     struct kernel_batch *out)
{
	*out = *in;
	return KERNEL_STEP_RUN;
}

void eager_end(struct kernels_ctx *ctx)
{
	ctx->steps++;
}

int eager_wait(struct kernels_ctx *ctx, uint32_t left)
{
	return 0;
}

const char *eager_failure(const struct kernels_ctx *ctx)
{
	return "";
}

const float *eager_view(struct kernels_ctx *ctx, const float *row, uint32_t count)
{
	return row;
}

void eager_counts(const struct kernels_ctx *ctx, struct kernel_counts *out)
{
	*out = (struct kernel_counts){.eager_steps = ctx->steps};
}
