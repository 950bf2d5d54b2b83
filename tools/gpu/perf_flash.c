/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool of random values stands for the pages of one layer; the sequences' pages lie in it in
 * order of their numbers, backwards, so that no kernel profits from neighbours.
 */
#include "tools/gpu/perf_flash.h"
#include "tools/gpu/probe.h"
#include <kvd_layout.h>
#include <math.h>
#include <stdlib.h>

/* Of scores: random ones at the usual scale give all keys nearly the same weight. */
#define SHARPNESS 12

static void *to_device(const void *host, size_t bytes)
{
	void *p = perf_new(bytes);

	probe_check(cudaMemcpy(p, host, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
	return p;
}

static struct kvd_layout layout(const struct perf_flash *f)
{
	return (struct kvd_layout){1, f->kv_heads, f->head_dim, PERF_FLASH_PAGE_TOKENS, 2};
}

static uint32_t pages_each(const struct perf_flash *f)
{
	return (f->tokens + PERF_FLASH_PAGE_TOKENS - 1) / PERF_FLASH_PAGE_TOKENS;
}

static void make_pages(struct perf_flash *f)
{
	struct kvd_layout l = layout(f);
	uint32_t count = pages_each(f) * f->sequences;
	uint64_t *pages = calloc(count, sizeof(*pages));

	if (!pages)
		probe_fail("no memory");
	f->pool_bytes = count * kvd_layout_page_bytes(&l);
	f->pool = perf_random(f->pool_bytes);
	for (uint32_t i = 0; i < count; i++)
		pages[i] = (uintptr_t)f->pool + (count - 1 - i) * kvd_layout_page_bytes(&l);
	f->a.pages = to_device(pages, count * sizeof(*pages));
	free(pages);
}

static void make_work(struct perf_flash *f)
{
	uint32_t rows = f->decode ? 1 : f->tokens;
	uint32_t step = cuda_attn_tile_rows(f->heads / f->kv_heads),
		 each = (rows + step - 1) / step;
	struct cuda_seq *seqs = calloc(f->sequences, sizeof(*seqs));
	struct cuda_tile *tiles = calloc((size_t)f->sequences * each, sizeof(*tiles));
	uint32_t *decodes = calloc(f->sequences, sizeof(*decodes));

	if (!seqs || !tiles || !decodes)
		probe_fail("no memory");
	for (uint32_t s = 0; s < f->sequences; s++) {
		seqs[s] = (struct cuda_seq){.row0 = s * rows,
					    .rows = rows,
					    .pos0 = f->tokens - rows,
					    .page0 = s * pages_each(f),
					    .page_count = pages_each(f)};
		decodes[s] = s;
		for (uint32_t t = 0; t < each; t++)
			tiles[s * each + t] = (struct cuda_tile){s, t * step};
	}
	f->a.seqs = to_device(seqs, f->sequences * sizeof(*seqs));
	f->a.tiles = to_device(tiles, (size_t)f->sequences * each * sizeof(*tiles));
	f->a.decodes = to_device(decodes, f->sequences * sizeof(*decodes));
	f->a.tile_count = f->decode ? 0 : f->sequences * each;
	f->a.decode_count = f->decode ? f->sequences : 0;
	free(seqs);
	free(tiles);
	free(decodes);
}

void perf_flash_init(struct perf_flash *f)
{
	struct kvd_layout l = layout(f);
	size_t rows = (size_t)f->sequences * (f->decode ? 1 : f->tokens);
	size_t bytes = rows * f->heads * f->head_dim * sizeof(uint16_t);

	f->a = (struct cuda_attention){.heads = f->heads,
				       .kv_heads = f->kv_heads,
				       .head_dim = f->head_dim,
				       .page_tokens = PERF_FLASH_PAGE_TOKENS,
				       .scale = SHARPNESS / sqrtf((float)f->head_dim),
				       .layer_k_offset = kvd_layout_k(&l, 0, 0),
				       .head_bytes = kvd_layout_head_bytes(&l)};
	f->a.splits_max = (f->tokens + CUDA_ATTN_SPLIT - 1) / CUDA_ATTN_SPLIT;
	make_pages(f);
	make_work(f);
	f->a.q = perf_random(bytes);
	f->a.out = perf_new(bytes);
	f->a.workspace = perf_new(cuda_attn_workspace_bytes(f->sequences, f->heads, f->kv_heads,
							    f->head_dim, f->a.splits_max));
}

void perf_flash_fini(struct perf_flash *f)
{
	const void *const all[] = {f->pool,	 f->a.pages, f->a.seqs, f->a.tiles,
				   f->a.decodes, f->a.q,     f->a.out,	f->a.workspace};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		perf_free(all[i]);
}

void perf_flash_run(struct perf *b, void *arg)
{
	struct perf_flash *f = arg;

	probe_check(f->run(b->stream, &f->a), "attention");
}

void perf_flash_unpage(const struct perf_flash *f, uint16_t *k, uint16_t *v)
{
	struct kvd_layout l = layout(f);
	uint64_t page_bytes = kvd_layout_page_bytes(&l), head_bytes = kvd_layout_head_bytes(&l);
	uint32_t count = pages_each(f) * f->sequences;

	for (uint32_t i = 0; i < pages_each(f); i++) {
		char *page = (char *)f->pool + (count - 1 - i) * page_bytes;
		uint32_t first = i * PERF_FLASH_PAGE_TOKENS, left = f->tokens - first;
		size_t bytes = (left < PERF_FLASH_PAGE_TOKENS ? left : PERF_FLASH_PAGE_TOKENS) *
			       (size_t)f->head_dim * sizeof(*k);

		for (uint32_t h = 0; h < f->kv_heads; h++) {
			size_t to = ((size_t)h * f->tokens + first) * f->head_dim;
			char *from = page + kvd_layout_k(&l, 0, h);

			probe_check(cudaMemcpy(k + to, from, bytes, cudaMemcpyDeviceToDevice),
				    "a copy");
			from += f->kv_heads * head_bytes;
			probe_check(cudaMemcpy(v + to, from, bytes, cudaMemcpyDeviceToDevice),
				    "a copy");
		}
	}
}
