/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on single rows: embedding, RMSNorm, gather. Each row is one thread's. */
#include "kernels/cpu/ctx.h"

#include <string.h>

struct rows_job {
	const struct isa *isa;
	void (*row)(const struct rows_job *j, uint32_t row);
	const struct kernel_weight *w;
	const uint32_t *index;
	const uint32_t *drawn;
	const float *x;
	const float *weight;
	void *out;
	float eps;
	uint32_t m;
	uint32_t d;
};

static void rows_thread(void *arg, uint32_t index, uint32_t count)
{
	const struct rows_job *j = arg;
	uint32_t row, end;

	team_part(j->m, index, count, &row, &end);
	for (; row < end; row++)
		j->row(j, row);
}

static void rows_run(struct kernels_ctx *ctx, struct rows_job *j)
{
	j->isa = ctx->isa;
	if (j->m < CTX_FORK_ROWS)
		rows_thread(j, 0, 1);
	else
		team_run(ctx->team, rows_thread, j);
}

static void embed_row(const struct rows_job *j, uint32_t row)
{
	uint32_t token = kernel_token(j->index[row], j->drawn);

	j->isa->embed(j->w, token, (float *)j->out + (size_t)row * j->d);
}

static void rmsnorm_row(const struct rows_job *j, uint32_t row)
{
	size_t at = (size_t)row * j->d;

	j->isa->rmsnorm(j->x + at, j->weight, j->eps, (kernel_bf16 *)j->out + at, j->d);
}

static void gather_row(const struct rows_job *j, uint32_t row)
{
	memcpy((float *)j->out + (size_t)row * j->d, j->x + (size_t)j->index[row] * j->d,
	       j->d * sizeof(float));
}

void op_rows_embed(struct kernels_ctx *ctx, const struct kernel_weight *w, const uint32_t *tokens,
		   const uint32_t *drawn, float *x, uint32_t m)
{
	struct rows_job j = {.row = embed_row,
			     .w = w,
			     .index = tokens,
			     .drawn = drawn,
			     .out = x,
			     .m = m,
			     .d = w->k};

	rows_run(ctx, &j);
}

void op_rows_rmsnorm(struct kernels_ctx *ctx, const float *x, const float *weight, float eps,
		     kernel_bf16 *out, uint32_t m, uint32_t d)
{
	struct rows_job j = {.row = rmsnorm_row,
			     .x = x,
			     .weight = weight,
			     .eps = eps,
			     .out = out,
			     .m = m,
			     .d = d};

	rows_run(ctx, &j);
}

void op_rows_gather(struct kernels_ctx *ctx, const float *x, const uint32_t *rows, uint32_t count,
		    uint32_t d, float *out)
{
	struct rows_job j = {
		.row = gather_row, .x = x, .index = rows, .out = out, .m = count, .d = d};

	rows_run(ctx, &j);
}
