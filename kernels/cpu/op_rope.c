/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rotates q and k and writes k and v into the pages. The unit of work is a group of 32 positions of
 * one sequence: the thread that writes a group's first token also zeroes V of the whole group
 * (rule 1 of the layout), and no other thread writes there.
 */
#include "kernels/cpu/ctx.h"

#include <string.h>

struct rope_job {
	const struct kernels_ctx *ctx;
	const struct kernel_rope_store *r;
};

static kernel_bf16 *rope_page(const struct kernel_rope_store *r, const struct kernel_seq *seq,
			      uint32_t pos, uint64_t offset)
{
	return (kernel_bf16 *)((char *)(uintptr_t)seq->pages[pos / r->layout->page_tokens] +
			       offset);
}

/* V of the group that begins at pos, up to the page's end. */
static void zero_group(const struct kernel_rope_store *r, const struct kernel_seq *seq,
		       uint32_t pos)
{
	const struct kvd_layout *l = r->layout;
	uint32_t in_page = pos % l->page_tokens;
	uint32_t tokens = BITS_MIN(KVD_LAYOUT_V_GROUP, l->page_tokens - in_page);

	for (uint32_t h = 0; h < l->kv_heads; h++) {
		kernel_bf16 *v = rope_page(r, seq, pos, kvd_layout_v(l, r->layer, h));

		memset(v + kvd_layout_v2_index(l, in_page, 0), 0,
		       (size_t)tokens * l->head_dim * sizeof(*v));
	}
}

static void store_k(const struct kvd_layout *l, const kernel_bf16 *head, uint32_t token,
		    kernel_bf16 *k)
{
	k += kvd_layout_k16_index(l, token, 0);
	for (uint32_t d = 0; d < l->head_dim; d += 2)
		memcpy(k + (size_t)d / 2 * 32, head + d, 2 * sizeof(*k));
}

static void store_row(const struct rope_job *j, const struct kernel_seq *seq, uint32_t pos,
		      const float *k, const float *cosines, const float *sines)
{
	const struct kernel_rope_store *r = j->r;
	const struct kvd_layout *l = r->layout;
	uint32_t token = pos % l->page_tokens;
	const float *v = k + (size_t)l->kv_heads * l->head_dim;
	kernel_bf16 head[CTX_HEAD_DIM_MAX];

	for (uint32_t h = 0; h < l->kv_heads; h++) {
		j->ctx->isa->rope_head(k + (size_t)h * l->head_dim, r->k_norm, r->norm_eps, cosines,
				       sines, r->rope_dim / 2, l->head_dim, head);
		store_k(l, head, token, rope_page(r, seq, pos, kvd_layout_k(l, r->layer, h)));
		j->ctx->isa->store_v(v + (size_t)h * l->head_dim, l->head_dim, token % 2,
				     rope_page(r, seq, pos, kvd_layout_v(l, r->layer, h)) +
					     kvd_layout_v2_index(l, token - token % 2, 0));
	}
}

static void rope_row(const struct rope_job *j, const struct kernel_seq *seq, uint32_t pos,
		     float *angles)
{
	const struct kernel_rope_store *r = j->r;
	uint32_t hd = r->layout->head_dim;
	uint32_t pairs = r->rope_dim / 2;
	size_t row = seq->row0 + (pos - seq->pos0);
	const float *qkv = r->qkv + row * (r->heads + 2 * r->layout->kv_heads) * hd;
	kernel_bf16 *q = r->q + row * r->heads * hd;
	float *sines = angles + CTX_HEAD_DIM_MAX;

	j->ctx->isa->rope_angles(pos, r->inv_freq, pairs, angles, sines);
	for (uint32_t h = 0; h < r->heads; h++)
		j->ctx->isa->rope_head(qkv + (size_t)h * hd, r->q_norm, r->norm_eps, angles, sines,
				       pairs, hd, q + (size_t)h * hd);
	if (!seq->query_only)
		store_row(j, seq, pos, qkv + (size_t)r->heads * hd, angles, sines);
}

/* The rows of seq in its unit `unit`, counted from the group of its first row. */
static void rope_unit(const struct rope_job *j, const struct kernel_seq *seq, uint32_t unit,
		      float *angles)
{
	uint32_t begin = (seq->pos0 / KVD_LAYOUT_V_GROUP + unit) * KVD_LAYOUT_V_GROUP;
	uint32_t end = BITS_MIN(begin + KVD_LAYOUT_V_GROUP, seq->pos0 + seq->rows);

	for (uint32_t pos = BITS_MAX(begin, seq->pos0); pos < end; pos++) {
		if (!seq->query_only && pos % j->r->layout->page_tokens % KVD_LAYOUT_V_GROUP == 0)
			zero_group(j->r, seq, pos);
		rope_row(j, seq, pos, angles);
	}
}

static uint32_t seq_units(const struct kernel_seq *seq)
{
	if (!seq->rows)
		return 0;
	return (seq->pos0 + seq->rows - 1) / KVD_LAYOUT_V_GROUP - seq->pos0 / KVD_LAYOUT_V_GROUP +
	       1;
}

static uint32_t job_units(const struct kernel_rope_store *r)
{
	uint32_t units = 0;

	for (uint32_t s = 0; s < r->seq_count; s++)
		units += seq_units(&r->seqs[s]);
	return units;
}

static void rope_thread(void *arg, uint32_t index, uint32_t count)
{
	const struct rope_job *j = arg;
	float *angles = ctx_scratch(j->ctx, index);
	uint32_t begin, end;
	uint32_t unit = 0;

	team_part(job_units(j->r), index, count, &begin, &end);
	for (uint32_t s = 0; s < j->r->seq_count && unit < end; s++) {
		const struct kernel_seq *seq = &j->r->seqs[s];
		uint32_t units = seq_units(seq);

		for (uint32_t u = 0; u < units; u++)
			if (unit + u >= begin && unit + u < end)
				rope_unit(j, seq, u, angles);
		unit += units;
	}
}

void op_rope_store(struct kernels_ctx *ctx, const struct kernel_rope_store *r)
{
	struct rope_job job = {ctx, r};

	if (job_units(r) == 1)
		rope_thread(&job, 0, 1);
	else
		team_run(ctx->team, rope_thread, &job);
}
