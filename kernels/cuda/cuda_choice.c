/* SPDX-License-Identifier: Apache-2.0 */
/*
 * On Hopper two kernels can do the attention of prompts: mma, which every device has, and wgmma.
 * Which is faster depends on the length, so it is measured, once for each kind of device, driver
 * and shape, and kept in the user's cache directory.
 *
 * A choice must change no bit. Both kernels make the same operations in the same order, but whether
 * the two tensor core instructions sum alike is the hardware's affair: so their results are
 * compared first, and one bit of difference rules wgmma out.
 *
 * Runs when a context is made, on its thread, with memory of its own that is given back. The sizes
 * are small: an answer takes milliseconds on a device.
 */
#include "kernels/cuda/cuda_choice.h"
#include "base/bits.h"
#include "base/log.h"
#include "kernels/cuda/attn.h"
#include "kernels/cuda/cuda_ctx.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHOICE_RUNS 3u
#define CHOICE_PATH_MAX 512u

const uint32_t cuda_choice_rows[CUDA_CHOICE_RUNGS] = {128, 512, 2048};

/* One prompt's chunk: as many rows as keys before them. Device memory, but for the counts. */
struct trial {
	struct kvd_layout layout;
	uint32_t rows_max;
	uint32_t keys;
	size_t q_bytes; /* of rows_max rows */
	size_t page_bytes;
	uint32_t page_count;
	uint8_t *memory;
	uint16_t *q, *out[2]; /* out: mma's, wgmma's */
	uint64_t *pages;
	struct cuda_seq *seq;
	struct cuda_tile *tiles;
	cudaEvent_t from, to;
};

static uint32_t gqa(const struct kernels_ctx *ctx)
{
	return ctx->limits.heads_max / ctx->limits.kv_heads;
}

/* --- the kept table ----------------------------------------------------------------------------
 */

static bool make_folder(char *path)
{
	return mkdir(path, 0700) == 0 || errno == EEXIST;
}

/* The folder is made if need be. false: there is no place to keep anything. */
static bool table_path(const struct kernels_ctx *ctx, const struct cudaDeviceProp *prop,
		       char out[CHOICE_PATH_MAX])
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	int driver = 0, length;

	if (cudaDriverGetVersion(&driver) != cudaSuccess)
		return false;
	if (cache && cache[0])
		length = snprintf(out, CHOICE_PATH_MAX, "%s", cache);
	else if (home && home[0])
		length = snprintf(out, CHOICE_PATH_MAX, "%s/.cache", home);
	else
		return false;
	if (length >= (int)CHOICE_PATH_MAX || !make_folder(out))
		return false;
	length += snprintf(out + length, CHOICE_PATH_MAX - (size_t)length, "/kvd");
	if (length >= (int)CHOICE_PATH_MAX || !make_folder(out))
		return false;
	char *name = out + length;
	length +=
		snprintf(name, CHOICE_PATH_MAX - (size_t)length,
			 "/attention %s driver %d revision %d heads %u of %u by %u page %u rows %u",
			 prop->name, driver, NUMERICS_REV, gqa(ctx), ctx->limits.heads_max,
			 ctx->limits.head_dim_max, ctx->limits.page_tokens, ctx->limits.rows_max);
	for (name++; *name; name++)
		if (*name == '/' || *name == ' ')
			*name = '-';
	return length < (int)CHOICE_PATH_MAX;
}

static bool table_read(const char *path, struct cuda_choice *c)
{
	FILE *f = fopen(path, "re");
	struct cuda_choice read = {0};
	bool good = f != NULL;

	for (uint32_t i = 0; good && i < CUDA_CHOICE_RUNGS; i++) {
		unsigned rows;
		char kernel[16];

		good = fscanf(f, "%u %15s", &rows, kernel) == 2 && rows == cuda_choice_rows[i];
		read.hopper[i] = good && strcmp(kernel, "wgmma") == 0;
		good = good && (read.hopper[i] || strcmp(kernel, "mma") == 0);
	}
	if (f)
		fclose(f);
	if (good)
		*c = read;
	return good;
}

/* Whole or not at all: another engine may start at the same time. */
static void table_write(const char *path, const struct cuda_choice *c)
{
	char part[CHOICE_PATH_MAX + 32];

	snprintf(part, sizeof(part), "%s.%d", path, (int)getpid());
	FILE *f = fopen(part, "we");
	if (!f)
		return;
	for (uint32_t i = 0; i < CUDA_CHOICE_RUNGS; i++)
		fprintf(f, "%u %s\n", cuda_choice_rows[i], c->hopper[i] ? "wgmma" : "mma");
	if (fclose(f) != 0 || rename(part, path) < 0)
		(void)unlink(part);
}

/* --- the trial ---------------------------------------------------------------------------------
 */

static void trial_fini(struct trial *t)
{
	if (t->from)
		(void)cudaEventDestroy(t->from);
	if (t->to)
		(void)cudaEventDestroy(t->to);
	if (t->memory)
		(void)cudaFree(t->memory);
	(void)cudaGetLastError();
}

static void trial_plan(struct trial *t, const struct kernels_ctx *ctx)
{
	const struct kernels_limits *l = &ctx->limits;
	uint64_t context = (uint64_t)l->pages_max * l->page_tokens;

	*t = (struct trial){.layout = {.layers = 1,
				       .kv_heads = l->kv_heads,
				       .head_dim = l->head_dim_max,
				       .page_tokens = l->page_tokens,
				       .element_bytes = 2}};
	t->rows_max = BITS_MIN(l->rows_max, cuda_choice_rows[CUDA_CHOICE_RUNGS - 1]);
	t->rows_max = (uint32_t)BITS_MIN(t->rows_max, context / 2);
	t->keys = 2 * t->rows_max;
	t->q_bytes = bits_align_up((size_t)t->rows_max * l->heads_max * l->head_dim_max * 2, 256);
	t->page_bytes = bits_align_up(kvd_layout_page_bytes(&t->layout), 256);
	t->page_count = (uint32_t)bits_div_ceil(t->keys, l->page_tokens);
}

/* There when it returns, also for a stream that does not wait for the default one. */
static bool trial_put(void *dst, const void *src, size_t bytes)
{
	return cudaMemcpy(dst, src, bytes, cudaMemcpyHostToDevice) == cudaSuccess &&
	       cudaStreamSynchronize(cudaStreamLegacy) == cudaSuccess;
}

/* Numbers of the size that a model's have; the same in each run. */
static int trial_fill(struct trial *t)
{
	size_t bytes = t->q_bytes + t->page_count * t->page_bytes;
	uint16_t *numbers = malloc(bytes);
	uint32_t state = 1;

	if (!numbers)
		return -ENOMEM;
	for (size_t i = 0; i < bytes / 2; i++) {
		state = state * 1664525u + 1013904223u;
		numbers[i] = kernel_f32_to_bf16((float)(state >> 8) * 0x1p-23f - 1);
	}
	bool good = trial_put(t->q, numbers, t->q_bytes) &&
		    trial_put(t->memory, numbers + t->q_bytes / 2, bytes - t->q_bytes);
	free(numbers);
	return good ? 0 : -EIO;
}

static int trial_tables(struct trial *t, uint32_t tile_rows)
{
	uint32_t tiles = (uint32_t)bits_div_ceil(t->rows_max, tile_rows);
	uint64_t *pages = calloc(t->page_count, sizeof(*pages));
	struct cuda_tile *tile = calloc(tiles, sizeof(*tile));
	bool good = pages && tile;

	for (uint32_t i = 0; good && i < t->page_count; i++)
		pages[i] = (uint64_t)(uintptr_t)t->memory + i * t->page_bytes;
	for (uint32_t i = 0; good && i < tiles; i++)
		tile[i].first_row = i * tile_rows;
	good = good && trial_put(t->pages, pages, t->page_count * sizeof(*pages)) &&
	       trial_put(t->tiles, tile, tiles * sizeof(*tile));
	free(pages);
	free(tile);
	return good ? 0 : -EIO;
}

static int trial_init(struct trial *t, const struct kernels_ctx *ctx)
{
	trial_plan(t, ctx);
	size_t pages_bytes = t->page_count * t->page_bytes;
	size_t table_bytes = bits_align_up(t->page_count * sizeof(*t->pages), 256);
	size_t tiles_bytes = t->rows_max * sizeof(*t->tiles);

	if (t->rows_max == 0 || cudaEventCreate(&t->from) != cudaSuccess ||
	    cudaEventCreate(&t->to) != cudaSuccess ||
	    cudaMalloc((void **)&t->memory, pages_bytes + 3 * t->q_bytes + table_bytes + 256 +
						    tiles_bytes) != cudaSuccess)
		return -ENOMEM;
	uint8_t *at = t->memory + pages_bytes;
	t->q = (uint16_t *)at;
	t->out[0] = (uint16_t *)(at + t->q_bytes);
	t->out[1] = (uint16_t *)(at + 2 * t->q_bytes);
	at += 3 * t->q_bytes;
	t->pages = (uint64_t *)at;
	t->seq = (struct cuda_seq *)(at + table_bytes);
	t->tiles = (struct cuda_tile *)(at + table_bytes + 256);
	int r = trial_fill(t);
	return r < 0 ? r : trial_tables(t, ctx->tile_rows);
}

static bool trial_launch(struct trial *t, struct kernels_ctx *ctx, uint32_t rows, bool hopper)
{
	const struct cuda_attention a = {
		.q = t->q,
		.out = t->out[hopper],
		.heads = ctx->limits.heads_max,
		.kv_heads = ctx->limits.kv_heads,
		.head_dim = ctx->limits.head_dim_max,
		.page_tokens = ctx->limits.page_tokens,
		.scale = 0.1f,
		.head_bytes = kvd_layout_head_bytes(&t->layout),
		.seqs = t->seq,
		.pages = t->pages,
		.tiles = t->tiles,
		.tile_count = (uint32_t)bits_div_ceil(rows, ctx->tile_rows),
	};

	return (hopper ? cuda_attn_prefill_sm90(ctx->compute, &a)
		       : cuda_attn_prefill(ctx->compute, &a)) == cudaSuccess;
}

/* The fastest of a few runs; INFINITY when it cannot be had. */
static float trial_time(struct trial *t, struct kernels_ctx *ctx, uint32_t rows, bool hopper)
{
	float best = __builtin_inff(), ms;

	for (uint32_t i = 0; i < CHOICE_RUNS; i++) {
		if (cudaEventRecord(t->from, ctx->compute) != cudaSuccess ||
		    !trial_launch(t, ctx, rows, hopper) ||
		    cudaEventRecord(t->to, ctx->compute) != cudaSuccess ||
		    cudaEventSynchronize(t->to) != cudaSuccess ||
		    cudaEventElapsedTime(&ms, t->from, t->to) != cudaSuccess)
			return __builtin_inff();
		best = BITS_MIN(best, ms);
	}
	return best;
}

static bool trial_same_bits(struct trial *t, const struct kernels_ctx *ctx, uint32_t rows)
{
	size_t bytes = (size_t)rows * ctx->limits.heads_max * ctx->limits.head_dim_max * 2;
	uint8_t *out = malloc(2 * bytes);
	bool same =
		out && cudaMemcpy(out, t->out[0], bytes, cudaMemcpyDeviceToHost) == cudaSuccess &&
		cudaMemcpy(out + bytes, t->out[1], bytes, cudaMemcpyDeviceToHost) == cudaSuccess &&
		memcmp(out, out + bytes, bytes) == 0;

	free(out);
	return same;
}

/* All rungs up to the longest step, or none: a difference anywhere rules wgmma out everywhere. */
static bool trial_run(struct trial *t, struct kernels_ctx *ctx, struct cuda_choice *out)
{
	struct cuda_choice c = {0};

	for (uint32_t i = 0; i < CUDA_CHOICE_RUNGS; i++) {
		uint32_t rows = cuda_choice_rows[i];
		struct cuda_seq seq = {.rows = rows, .pos0 = rows, .page_count = t->page_count};

		if (rows > t->rows_max)
			break;
		if (!trial_put(t->seq, &seq, sizeof(seq)))
			return false;
		float mma_ms = trial_time(t, ctx, rows, false);
		float wgmma_ms = trial_time(t, ctx, rows, true);

		if (!trial_same_bits(t, ctx, rows))
			return false;
		c.hopper[i] = wgmma_ms < mma_ms;
		log_info("cuda", "attention of %u rows: mma %.0f us, wgmma %.0f us", rows,
			 1000.0 * (double)mma_ms, 1000.0 * (double)wgmma_ms);
	}
	*out = c;
	return true;
}

void cuda_choice_make(struct kernels_ctx *ctx)
{
	char path[CHOICE_PATH_MAX];
	struct cudaDeviceProp prop;
	struct trial t = {0};

	if (cudaGetDeviceProperties(&prop, ctx->ordinal) != cudaSuccess || prop.major != 9 ||
	    prop.minor != 0 || ctx->limits.head_dim_max > 128 ||
	    ctx->limits.rows_max < cuda_choice_rows[0])
		return;
	bool keeps = table_path(ctx, &prop, path);
	if (keeps && table_read(path, &ctx->choice))
		return;
	if (trial_init(&t, ctx) == 0 && !trial_run(&t, ctx, &ctx->choice))
		log_info("cuda", "attention takes mma alone: wgmma has other bits here, or failed");
	if (keeps && t.memory)
		table_write(path, &ctx->choice);
	trial_fini(&t);
}

bool cuda_choice_hopper(const struct cuda_choice *c, uint32_t rows)
{
	bool hopper = false;

	for (uint32_t i = 0; i < CUDA_CHOICE_RUNGS; i++)
		if (rows >= cuda_choice_rows[i])
			hopper = c->hopper[i];
	return hopper;
}
