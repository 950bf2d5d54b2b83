/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See late.h. A step is a copy of its batch and a list of calls; what it draws lies in the context,
 * where the next step's rows find it, and goes to the caller when he waits.
 */
#include "tests/unit/engine/late.h"
#include "base/assert.h"
#include "base/bits.h"
#include <stdlib.h>
#include <string.h>

#define STEPS 2u
#define CALLS_MAX 64u

enum call_kind { GEMM, EMBED, NORM, ROPE, ATTENTION, GATHER, SAMPLE };

/* Arguments by value; what they point to is the step's, or the caller's memory for activations. */
struct call {
	enum call_kind kind;
	struct kernel_gemm gemm;
	struct kernel_rope_store rope;
	struct kernel_attention attention;
	const struct kernel_weight *w;
	const void *in;
	const float *weight;
	const uint32_t *rows;
	void *out;
	float eps;
	uint32_t m;
	uint32_t d;
};

struct late_step {
	uint32_t *tokens;
	struct kernel_seq *seqs;
	uint64_t *pages;
	uint32_t *sampled;
	struct kernel_sample_params *params;
	struct kernel_batch in;
	struct call calls[CALLS_MAX];
	uint32_t call_count;
};

struct kernels_ctx {
	const struct kernel_ops *ops; /* first, as every context has it */
	const struct kernel_ops *cpu;
	struct kernels_ctx *real;
	struct kernels_limits limits;
	struct late_step steps[STEPS];
	uint32_t next;
	uint32_t under_way;
	uint32_t *drawn; /* [sampled_max] */
	float *logprobs;
	uint32_t drawn_count; /* by the last step that was begun */
};

static struct kernel_ops table;

static int ctx_new(const struct kernel_ops *ops, const struct kernels_limits *l, uint32_t threads,
		   struct kernels_ctx **out)
{
	struct kernels_ctx *c = calloc(1, sizeof(*c));

	c->ops = &table;
	c->cpu = kernels_cpu(NULL);
	c->limits = *l;
	c->drawn = calloc(l->sampled_max, sizeof(*c->drawn));
	c->logprobs = calloc(l->sampled_max, sizeof(*c->logprobs));
	for (uint32_t i = 0; i < STEPS; i++) {
		struct late_step *s = &c->steps[i];

		s->tokens = calloc(l->rows_max, sizeof(*s->tokens));
		s->seqs = calloc(l->sequences_max, sizeof(*s->seqs));
		s->pages = calloc((size_t)l->sequences_max * l->pages_max, sizeof(*s->pages));
		s->sampled = calloc(l->sampled_max, sizeof(*s->sampled));
		s->params = calloc(l->sampled_max, sizeof(*s->params));
	}
	*out = c;
	return c->cpu->ctx_new(c->cpu, l, threads, &c->real);
}

static void ctx_free(struct kernels_ctx *c)
{
	ASSERT(c->under_way == 0);
	kernels_ctx_free(c->real);
	for (uint32_t i = 0; i < STEPS; i++) {
		free(c->steps[i].tokens);
		free(c->steps[i].seqs);
		free(c->steps[i].pages);
		free(c->steps[i].sampled);
		free(c->steps[i].params);
	}
	free(c->drawn);
	free(c->logprobs);
	free(c);
}

static uint32_t ctx_threads(const struct kernels_ctx *c)
{
	return c->cpu->ctx_threads(c->real);
}

static void ctx_counts(const struct kernels_ctx *c, struct kernel_counts *out)
{
	*out = (struct kernel_counts){0};
}

static bool step_prepare(struct kernels_ctx *c, struct kernel_batch *out)
{
	return false;
}

static void copy_seqs(struct kernels_ctx *c, struct late_step *s)
{
	uint64_t *pages = s->pages;

	for (uint32_t i = 0; i < s->in.seq_count; i++) {
		const struct kernel_seq *q = &s->in.seqs[i];
		size_t count = bits_div_ceil(q->pos0 + q->rows, c->limits.page_tokens);

		s->seqs[i] = *q;
		s->seqs[i].pages = memcpy(pages, q->pages, count * sizeof(*pages));
		pages += count;
	}
}

static enum kernel_step step_begin(struct kernels_ctx *c, const struct kernel_batch *in,
				   struct kernel_batch *out)
{
	struct late_step *s = &c->steps[c->next];

	ASSERT(c->under_way < STEPS);
	s->in = *in;
	s->call_count = 0;
	for (uint32_t i = 0; i < in->rows; i++) {
		s->tokens[i] = in->tokens[i];
		if (s->tokens[i] & KERNEL_TOKEN_DRAWN)
			ASSERT((s->tokens[i] & ~KERNEL_TOKEN_DRAWN) < c->drawn_count);
	}
	copy_seqs(c, s);
	memcpy(s->sampled, in->sampled, in->sampled_count * sizeof(*s->sampled));
	memcpy(s->params, in->params, in->sampled_count * sizeof(*s->params));
	memset(in->out_tokens, 0xff, in->sampled_count * sizeof(*in->out_tokens));
	memset(in->out_logprobs, 0xff, in->sampled_count * sizeof(*in->out_logprobs));
	*out = *in;
	out->tokens = s->tokens;
	out->drawn = c->drawn;
	out->seqs = s->seqs;
	out->sampled = s->sampled;
	out->params = s->params;
	out->out_tokens = c->drawn;
	out->out_logprobs = c->logprobs;
	return KERNEL_STEP_RUN;
}

static void step_end(struct kernels_ctx *c)
{
	c->drawn_count = c->steps[c->next].in.sampled_count;
	c->next = (c->next + 1) % STEPS;
	c->under_way++;
}

static void call_run(struct kernels_ctx *c, const struct call *k)
{
	switch (k->kind) {
	case GEMM:
		c->cpu->gemm(c->real, &k->gemm);
		break;
	case EMBED:
		c->cpu->embed(c->real, k->w, k->rows, c->drawn, k->out, k->m);
		break;
	case NORM:
		c->cpu->rmsnorm(c->real, k->in, k->weight, k->eps, k->out, k->m, k->d);
		break;
	case ROPE:
		c->cpu->rope_store(c->real, &k->rope);
		break;
	case ATTENTION:
		c->cpu->attention(c->real, &k->attention);
		break;
	case GATHER:
		c->cpu->gather(c->real, k->in, k->rows, k->m, k->d, k->out);
		break;
	case SAMPLE:
		c->cpu->sample(c->real, k->in, k->m, k->d, k->out, c->drawn, c->logprobs);
		break;
	}
}

static void run_oldest(struct kernels_ctx *c)
{
	struct late_step *s = &c->steps[(c->next + STEPS - c->under_way) % STEPS];

	for (uint32_t i = 0; i < s->call_count; i++)
		call_run(c, &s->calls[i]);
	memcpy(s->in.out_tokens, c->drawn, s->in.sampled_count * sizeof(*c->drawn));
	memcpy(s->in.out_logprobs, c->logprobs, s->in.sampled_count * sizeof(*c->logprobs));
	c->under_way--;
}

static int step_wait(struct kernels_ctx *c, uint32_t left)
{
	while (c->under_way > left)
		run_oldest(c);
	return 0;
}

static const char *failure(const struct kernels_ctx *c)
{
	return "";
}

static const float *view(struct kernels_ctx *c, const float *row, uint32_t count)
{
	ASSERT(c->under_way == 0);
	return row;
}

/* --- operations: each is put off ------------------------------------------------------------ */

static struct call *put_off(struct kernels_ctx *c, enum call_kind kind)
{
	struct late_step *s = &c->steps[c->next];

	ASSERT(s->call_count < CALLS_MAX);
	s->calls[s->call_count] = (struct call){.kind = kind};
	return &s->calls[s->call_count++];
}

static void gemm(struct kernels_ctx *c, const struct kernel_gemm *g)
{
	put_off(c, GEMM)->gemm = *g;
}

static void embed(struct kernels_ctx *c, const struct kernel_weight *w, const uint32_t *tokens,
		  const uint32_t *drawn, float *x, uint32_t m)
{
	struct call *k = put_off(c, EMBED);

	ASSERT(drawn == c->drawn);
	k->w = w;
	k->rows = tokens;
	k->out = x;
	k->m = m;
}

static void rmsnorm(struct kernels_ctx *c, const float *x, const float *weight, float eps,
		    kernel_bf16 *out, uint32_t m, uint32_t d)
{
	struct call *k = put_off(c, NORM);

	k->in = x;
	k->weight = weight;
	k->eps = eps;
	k->out = out;
	k->m = m;
	k->d = d;
}

static void rope_store(struct kernels_ctx *c, const struct kernel_rope_store *r)
{
	put_off(c, ROPE)->rope = *r;
}

static void attention(struct kernels_ctx *c, const struct kernel_attention *a)
{
	put_off(c, ATTENTION)->attention = *a;
}

static void gather(struct kernels_ctx *c, const float *x, const uint32_t *rows, uint32_t count,
		   uint32_t d, float *out)
{
	struct call *k = put_off(c, GATHER);

	k->in = x;
	k->rows = rows;
	k->m = count;
	k->d = d;
	k->out = out;
}

static void sample(struct kernels_ctx *c, const float *logits, uint32_t m, uint32_t v,
		   const struct kernel_sample_params *params, uint32_t *out_tokens,
		   float *out_logprobs)
{
	struct call *k = put_off(c, SAMPLE);

	ASSERT(out_tokens == c->drawn && out_logprobs == c->logprobs);
	k->in = logits;
	k->m = m;
	k->d = v;
	k->out = (void *)params;
}

/* Not put off: it has ended when it returns, whatever is under way. */
static void page_copy(struct kernels_ctx *c, uint64_t dst, uint64_t src, uint64_t bytes)
{
	c->cpu->page_copy(c->real, dst, src, bytes);
}

const struct kernel_ops *late_ops(void)
{
	table = *kernels_cpu(NULL);
	table.asynchronous = true;
	table.ctx_new = ctx_new;
	table.ctx_free = ctx_free;
	table.ctx_threads = ctx_threads;
	table.ctx_counts = ctx_counts;
	table.step_prepare = step_prepare;
	table.step_begin = step_begin;
	table.step_end = step_end;
	table.step_wait = step_wait;
	table.failure = failure;
	table.view = view;
	table.gemm = gemm;
	table.embed = embed;
	table.rmsnorm = rmsnorm;
	table.rope_store = rope_store;
	table.attention = attention;
	table.gather = gather;
	table.sample = sample;
	table.page_copy = page_copy;
	return &table;
}
