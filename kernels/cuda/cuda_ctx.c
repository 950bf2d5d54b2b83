/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The context: everything that a step needs, made once. Device memory is one allocation and pinned
 * host memory is one map, registered (not given by the runtime: that would come without the host's
 * own accounting); both are planned from the limits.
 *
 * Failures: the first one's words are kept, and from then on the context does nothing but say so.
 * CUDA's own errors of this kind are sticky, the process must end to be rid of them. One thread
 * uses a context.
 */
#include "kernels/cuda/cuda_ctx.h"
#include "base/assert.h"
#include "base/bits.h"
#include "base/log.h"
#include "kernels/cuda/attn.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

static bool fail(struct kernels_ctx *ctx, const char *what, const char *why)
{
	if (!ctx->failed)
		snprintf(ctx->words, sizeof(ctx->words), "cuda:%d: %s: %s", ctx->ordinal, what,
			 why);
	ctx->failed = true;
	return false;
}

bool cuda_ctx_check(struct kernels_ctx *ctx, cudaError_t e, const char *what)
{
	char why[200];

	if (e == cudaSuccess)
		return !ctx->failed;
	(void)cudaGetLastError();
	snprintf(why, sizeof(why), "%s (%s)", cudaGetErrorString(e), cudaGetErrorName(e));
	return fail(ctx, what, why);
}

bool cuda_ctx_check_gemm(struct kernels_ctx *ctx, cublasStatus_t s, const struct cuda_product *p)
{
	char what[100], why[200];
	cudaError_t e;

	if (s == CUBLAS_STATUS_SUCCESS)
		return !ctx->failed;
	e = cudaGetLastError();
	snprintf(what, sizeof(what), "product of %u rows, %u to %u", p->m, p->k, p->n);
	snprintf(why, sizeof(why), "%s%s%s", cublasLtGetStatusString(s), e ? ": " : "",
		 e ? cudaGetErrorString(e) : "");
	return fail(ctx, what, why);
}

bool cuda_ctx_enter(struct kernels_ctx *ctx)
{
	return !ctx->failed && cuda_ctx_check(ctx, cudaSetDevice(ctx->ordinal), "cudaSetDevice");
}

/* --- what it needs --------------------------------------------------------------------------- */

static uint32_t gqa(const struct kernels_limits *l)
{
	return l->heads_max / l->kv_heads;
}

static struct cuda_shape shape_max(const struct kernels_limits *l)
{
	uint32_t tile_rows = cuda_attn_tile_rows(gqa(l));
	uint32_t decode_rows = cuda_attn_decode_rows(gqa(l));
	uint64_t context = (uint64_t)l->pages_max * l->page_tokens;

	return (struct cuda_shape){
		.rows = l->rows_max,
		.seqs = l->sequences_max,
		.tiles = l->rows_max / tile_rows +
			 BITS_MIN(l->sequences_max, l->rows_max / (decode_rows + 1)),
		.decodes = l->sequences_max,
		.sampled = l->sampled_max,
		.splits = (uint32_t)bits_div_ceil(BITS_MAX(context, 1), CUDA_ATTN_SPLIT),
	};
}

/* Bytes of the parts, each aligned. */
struct parts {
	size_t block;
	size_t drawn;
	size_t scratch;
	size_t partials;
	size_t workspace;
};

static struct parts parts_of(const struct kernels_limits *l)
{
	struct cuda_shape max = shape_max(l);
	struct cuda_batch unused;
	uint64_t pages = (uint64_t)l->sequences_max * l->pages_max;
	struct parts p = {
		.block = cuda_batch_place(&max, NULL, &unused) + pages * sizeof(uint64_t),
		.drawn = 2 * (size_t)l->sampled_max * sizeof(uint32_t),
		.scratch = (size_t)l->rows_max * l->n_max * sizeof(float),
		.partials = cuda_attn_workspace_bytes(max.decodes, l->heads_max, l->kv_heads,
						      l->head_dim_max, max.splits),
		.workspace = CUDA_GEMM_WORKSPACE_BYTES,
	};

	p.block = bits_align_up(p.block, CUDA_CTX_ALIGN);
	p.drawn = bits_align_up(p.drawn, CUDA_CTX_ALIGN);
	p.scratch = bits_align_up(p.scratch, CUDA_CTX_ALIGN);
	p.partials = bits_align_up(p.partials, CUDA_CTX_ALIGN);
	return p;
}

static size_t device_bytes(const struct parts *p)
{
	return p->block + p->drawn + p->scratch + p->partials + p->workspace;
}

size_t cuda_ctx_bytes(const struct kernels_limits *limits, uint32_t threads)
{
	struct parts p = parts_of(limits);

	return device_bytes(&p);
}

/* --- its making and its end ------------------------------------------------------------------- */

static bool make_streams(struct kernels_ctx *ctx)
{
	cudaStream_t *streams[] = {&ctx->compute, &ctx->in, &ctx->out, &ctx->pages};
	bool ok = true;

	for (size_t i = 0; i < ARRAY_LEN(streams) && ok; i++)
		ok = cuda_ctx_check(ctx,
				    cudaStreamCreateWithFlags(streams[i], cudaStreamNonBlocking),
				    "a stream");
	if (ok)
		ok = cuda_ctx_check(
			ctx, cudaEventCreateWithFlags(&ctx->computed, cudaEventDisableTiming),
			"an event");
	for (uint32_t i = 0; i < CUDA_CTX_SLOTS && ok; i++) {
		struct cuda_slot *s = &ctx->slots[i];

		ok = cuda_ctx_check(ctx,
				    cudaEventCreateWithFlags(&s->copied, cudaEventDisableTiming),
				    "an event") &&
		     cuda_ctx_check(ctx, cudaEventCreateWithFlags(&s->done, cudaEventDisableTiming),
				    "an event");
	}
	return ok;
}

static int make_device(struct kernels_ctx *ctx)
{
	struct parts p = parts_of(&ctx->limits);
	cudaError_t e = cudaMalloc((void **)&ctx->device, device_bytes(&p));
	char why[160];

	if (e == cudaErrorMemoryAllocation) {
		(void)cudaGetLastError();
		cuda_memory_no_room(device_bytes(&p), why, sizeof(why));
		fail(ctx, "memory for a step", why);
		return -ENOMEM;
	}
	if (!cuda_ctx_check(ctx, e, "memory for a step"))
		return -EIO;
	ctx->block = ctx->device;
	ctx->drawn = (uint32_t *)(ctx->block + p.block);
	ctx->scratch = (float *)((uint8_t *)ctx->drawn + p.drawn);
	ctx->partials = (float *)((uint8_t *)ctx->scratch + p.scratch);
	if (!cuda_ctx_check_gemm(ctx,
				 cuda_gemm_init(&ctx->gemm, ctx->compute,
						(uint8_t *)ctx->partials + p.partials,
						ctx->limits.rows_max),
				 &(struct cuda_product){0}))
		return -EIO;
	return 0;
}

static int make_pinned(struct kernels_ctx *ctx)
{
	struct parts p = parts_of(&ctx->limits);
	uint8_t *at;

	ctx->pinned_bytes =
		CUDA_CTX_SLOTS * (p.block + p.drawn) + ctx->limits.vocab * sizeof(float);
	at = mmap(NULL, ctx->pinned_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		  0);
	if (at == MAP_FAILED)
		return -ENOMEM;
	ctx->pinned = at;
	ctx->registered = cuda_ctx_check(
		ctx, cudaHostRegister(at, ctx->pinned_bytes, cudaHostRegisterDefault),
		"pinned host memory");
	if (!ctx->registered)
		return -ENOMEM;
	for (uint32_t i = 0; i < CUDA_CTX_SLOTS; i++) {
		ctx->slots[i].staging = at;
		ctx->slots[i].drawn = (uint32_t *)(at + p.block);
		at += p.block + p.drawn;
	}
	ctx->view = (float *)at;
	return 0;
}

/* What attention has a kernel for, and the tables are made for. */
static bool supported(const struct kernels_limits *l)
{
	return l->kv_heads && l->heads_max % l->kv_heads == 0 && gqa(l) <= CUDA_ATTN_GQA_MAX &&
	       (l->head_dim_max == 64 || l->head_dim_max == 128 || l->head_dim_max == 256) &&
	       l->page_tokens && l->page_tokens % CUDA_ATTN_PAGE_STEP == 0 && l->pages_max &&
	       l->rows_max && l->sequences_max;
}

static int make(struct kernels_ctx *ctx)
{
	int r;

	if (cuda_table_failed(ctx->ordinal)) {
		fail(ctx, "weights", "they could not be written to the device");
		return -EIO;
	}
	if (!cuda_ctx_enter(ctx) || !make_streams(ctx))
		return -EIO;
	r = make_device(ctx);
	if (r == 0)
		r = make_pinned(ctx);
	if (r == 0)
		cuda_choice_make(ctx);
	return r;
}

int cuda_ctx_new(const struct kernel_ops *ops, const struct kernels_limits *limits,
		 uint32_t threads, struct kernels_ctx **out)
{
	struct kernels_ctx *ctx;
	int r;

	if (!supported(limits)) {
		log_error("cuda",
			  "no attention for %u heads of %u over %u: heads of 64, 128 or 256, at "
			  "most %u of them to one of K and V",
			  limits->heads_max, limits->head_dim_max, limits->kv_heads,
			  CUDA_ATTN_GQA_MAX);
		return -ENOTSUP;
	}
	ctx = calloc(1, sizeof(*ctx));
	if (!ctx)
		return -ENOMEM;
	ctx->ops = ops;
	ctx->ordinal = cuda_table_ordinal(ops);
	ctx->limits = *limits;
	ctx->limit = shape_max(limits);
	ctx->tile_rows = cuda_attn_tile_rows(gqa(limits));
	ctx->decode_rows = cuda_attn_decode_rows(gqa(limits));
	cuda_graph_plan(ctx);
	r = make(ctx);
	if (r < 0) {
		/* The words end with the context, so they are said here. */
		log_error("cuda", "%s", ctx->words);
		cuda_ctx_free(ctx);
		return r;
	}
	*out = ctx;
	return 0;
}

/* After a failure each of these may fail again: there is nobody left to tell. */
void cuda_ctx_free(struct kernels_ctx *ctx)
{
	(void)cudaSetDevice(ctx->ordinal);
	cudaStream_t streams[] = {ctx->compute, ctx->in, ctx->out, ctx->pages};
	for (size_t i = 0; i < ARRAY_LEN(streams); i++)
		if (streams[i])
			(void)cudaStreamSynchronize(streams[i]);
	cuda_graph_fini(ctx);
	cuda_gemm_fini(&ctx->gemm);
	for (uint32_t i = 0; i < CUDA_CTX_SLOTS; i++) {
		if (ctx->slots[i].copied)
			(void)cudaEventDestroy(ctx->slots[i].copied);
		if (ctx->slots[i].done)
			(void)cudaEventDestroy(ctx->slots[i].done);
	}
	if (ctx->computed)
		(void)cudaEventDestroy(ctx->computed);
	for (size_t i = 0; i < ARRAY_LEN(streams); i++)
		if (streams[i])
			(void)cudaStreamDestroy(streams[i]);
	if (ctx->registered)
		(void)cudaHostUnregister(ctx->pinned);
	if (ctx->pinned)
		munmap(ctx->pinned, ctx->pinned_bytes);
	if (ctx->device)
		(void)cudaFree(ctx->device);
	(void)cudaGetLastError();
	free(ctx);
}

/* --- the rest ----------------------------------------------------------------------------------
 */

uint32_t cuda_ctx_threads(const struct kernels_ctx *ctx)
{
	return 1;
}

void cuda_ctx_counts(const struct kernels_ctx *ctx, struct kernel_counts *out)
{
	*out = ctx->counts;
}

const char *cuda_ctx_failure(const struct kernels_ctx *ctx)
{
	return ctx->words;
}

const float *cuda_ctx_view(struct kernels_ctx *ctx, const float *row, uint32_t count)
{
	ASSERT(count <= ctx->limits.vocab);
	if (cuda_ctx_enter(ctx) &&
	    cuda_ctx_check(ctx,
			   cudaMemcpyAsync(ctx->view, row, count * sizeof(*row),
					   cudaMemcpyDeviceToHost, ctx->out),
			   "copy of a row to the host"))
		cuda_ctx_check(ctx, cudaStreamSynchronize(ctx->out), "copy of a row to the host");
	return ctx->view;
}

/* On a stream of its own: it waits for no step under way. */
void cuda_ctx_page_copy(struct kernels_ctx *ctx, uint64_t dst, uint64_t src, uint64_t bytes)
{
	if (cuda_ctx_enter(ctx) &&
	    cuda_ctx_check(ctx,
			   cudaMemcpyAsync((void *)(uintptr_t)dst, (const void *)(uintptr_t)src,
					   bytes, cudaMemcpyDeviceToDevice, ctx->pages),
			   "copy of a page"))
		cuda_ctx_check(ctx, cudaStreamSynchronize(ctx->pages), "copy of a page");
}
