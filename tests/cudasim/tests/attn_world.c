/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds what a step would have in device memory (q, pages, sequences, tiles) from the world's
 * data, runs attention on it and takes the rows out. Between the chunks' rows lie rows that are
 * nobody's: NaN in q, a pattern in out that must survive.
 */
#include "tests/cudasim/tests/attn_world.h"
#include "tests/test.h"

#include <cuda_runtime.h>
#include <kvd_layout.h>
#include <math.h>

#define LAYERS 2u
#define LAYER 1u
#define NOBODY 0xa5a5u /* in out */
#define NAN_BYTE 0xff
#define CHUNKS_MAX 64u

/*
 * Weights are rounded to bf16 before they meet V (2^-8 of each at most), and so is the result; sums
 * in fp32 over at most some thousand terms and exponentials of 2 ulp are far below that.
 */
#define TOLERANCE (0x1p-7 + 0x1p-11)

struct run {
	const struct attn_world *w;
	struct kvd_layout layout;
	struct cuda_attention a;
	struct cuda_seq seqs[CHUNKS_MAX + 1];
	struct cuda_tile *tiles;
	uint32_t decodes[CHUNKS_MAX + 2];
	uint64_t *pages;
	unsigned char *pool; /* the pages' bytes, to be copied */
	uint16_t *q;
	uint32_t rows; /* with the gaps */
	uint32_t page_count;
	uint32_t seq_count;
};

static uint16_t to_bf16(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static double from_bf16(uint16_t x)
{
	uint32_t bits = (uint32_t)x << 16;
	float y;

	memcpy(&y, &bits, sizeof(y));
	return y;
}

static uint16_t *fill(size_t count, uint64_t seed, double range)
{
	uint16_t *x = malloc(count * sizeof(*x));

	assert_non_null(x);
	for (size_t i = 0; i < count; i++)
		x[i] = to_bf16((float)((2 * test_uniform(&seed) - 1) * range));
	return x;
}

void attn_world_init(struct attn_world *w)
{
	size_t tokens = (size_t)ATTN_WORLD_SEQS * w->tokens_max;

	w->q = fill(tokens * w->heads * w->head_dim, 1, 3);
	w->k = fill(tokens * w->kv_heads * w->head_dim, 2, 2);
	w->v = fill(tokens * w->kv_heads * w->head_dim, 3, 4);
}

void attn_world_fini(struct attn_world *w)
{
	free(w->q);
	free(w->k);
	free(w->v);
}

uint32_t attn_world_row(const struct attn_world *w)
{
	return w->heads * w->head_dim;
}

static const uint16_t *key_of(const struct attn_world *w, const uint16_t *x, uint32_t seq,
			      uint32_t kv_head, uint32_t pos)
{
	return x + (((size_t)seq * w->kv_heads + kv_head) * w->tokens_max + pos) * w->head_dim;
}

static uint32_t first_key(const struct attn_world *w, uint32_t pos)
{
	return w->window && pos + 1 > w->window ? pos + 1 - w->window : 0;
}

static void *device_copy(const void *host, size_t bytes)
{
	void *p = NULL;

	assert_int_equal(cudaMalloc(&p, bytes), cudaSuccess);
	assert_int_equal(cudaMemcpy(p, host, bytes, cudaMemcpyHostToDevice), cudaSuccess);
	return p;
}

static void *device_fill(int byte, size_t bytes)
{
	void *p = NULL;

	assert_int_equal(cudaMalloc(&p, bytes), cudaSuccess);
	assert_int_equal(cudaMemset(p, byte, bytes), cudaSuccess);
	return p;
}

/* What the chunk's rows see of a token goes into its page; all else there stays NaN. */
static void write_token(struct run *r, const struct attn_chunk *c, uint32_t page, uint32_t pos)
{
	const struct kvd_layout *l = &r->layout;
	unsigned char *at = r->pool + page * kvd_layout_page_bytes(l);
	size_t bytes = (size_t)l->head_dim * 2;

	for (uint32_t h = 0; h < l->kv_heads; h++) {
		uint64_t token = pos % l->page_tokens * bytes;

		memcpy(at + kvd_layout_k(l, LAYER, h) + token,
		       key_of(r->w, r->w->k, c->seq, h, pos), bytes);
		memcpy(at + kvd_layout_v(l, LAYER, h) + token,
		       key_of(r->w, r->w->v, c->seq, h, pos), bytes);
	}
}

static void add_pages(struct run *r, const struct attn_chunk *c, struct cuda_seq *seq)
{
	uint32_t end = c->pos0 + c->rows, lo = first_key(r->w, c->pos0);

	seq->page0 = r->page_count;
	seq->page_count = (end + r->w->page_tokens - 1) / r->w->page_tokens;
	for (uint32_t pos = lo; pos < end; pos++)
		write_token(r, c, seq->page0 + pos / r->w->page_tokens, pos);
	/* Pages behind the window may be another's by now: no address of ours. */
	for (uint32_t i = 0; i < seq->page_count; i++)
		r->pages[seq->page0 + i] = (i + 1) * r->w->page_tokens > lo;
	r->page_count += seq->page_count;
}

static void add_chunk(struct run *r, const struct attn_chunk *c)
{
	struct cuda_seq *seq = &r->seqs[r->seq_count];
	uint32_t gqa = r->w->heads / r->w->kv_heads;
	uint32_t splits = (c->pos0 + c->rows + CUDA_ATTN_SPLIT - 1) / CUDA_ATTN_SPLIT;
	size_t bytes = attn_world_row(r->w) * sizeof(uint16_t);

	*seq = (struct cuda_seq){.row0 = r->rows, .rows = c->rows, .pos0 = c->pos0};
	add_pages(r, c, seq);
	memcpy((char *)r->q + r->rows * bytes,
	       (char *)r->w->q + ((size_t)c->seq * r->w->tokens_max + c->pos0) * bytes,
	       c->rows * bytes);
	r->rows += c->rows + 1;
	if (c->decode) {
		assert_true(c->rows <= cuda_attn_decode_rows(gqa));
		r->decodes[r->a.decode_count++] = r->seq_count;
		if (splits > r->a.splits_max)
			r->a.splits_max = splits;
	}
	for (uint32_t i = 0; !c->decode && i < c->rows; i += cuda_attn_tile_rows(gqa))
		r->tiles[r->a.tile_count++] =
			(struct cuda_tile){.seq = r->seq_count, .first_row = i};
	r->seq_count++;
}

static void plan(struct run *r, const struct attn_chunk *chunks, uint32_t count)
{
	const struct attn_world *w = r->w;
	uint32_t rows = 0, pages = 0;

	assert_true(count <= CHUNKS_MAX);
	for (uint32_t i = 0; i < count; i++) {
		rows += chunks[i].rows + 1;
		pages += (chunks[i].pos0 + chunks[i].rows) / w->page_tokens + 1;
	}
	r->tiles = calloc(rows + 2, sizeof(*r->tiles));
	r->pages = calloc(pages, sizeof(*r->pages));
	r->pool = malloc(pages * kvd_layout_page_bytes(&r->layout));
	r->q = malloc((size_t)rows * attn_world_row(w) * sizeof(*r->q));
	assert_true(r->tiles && r->pages && r->pool && r->q);
	memset(r->pool, NAN_BYTE, pages * kvd_layout_page_bytes(&r->layout));
	memset(r->q, NAN_BYTE, (size_t)rows * attn_world_row(w) * sizeof(*r->q));
	/* Padding in front and, below, behind. */
	r->tiles[r->a.tile_count++] = (struct cuda_tile){.seq = CUDA_NONE};
	r->decodes[r->a.decode_count++] = CUDA_NONE;
	for (uint32_t i = 0; i < count; i++)
		add_chunk(r, &chunks[i]);
	r->tiles[r->a.tile_count++] = (struct cuda_tile){.seq = r->seq_count};
	r->decodes[r->a.decode_count++] = r->seq_count++; /* a sequence without rows */
}

/* The pages lie in the pool in an order that is not the sequence's. */
static void upload_pages(struct run *r, unsigned char *pool)
{
	uint64_t page_bytes = kvd_layout_page_bytes(&r->layout);

	for (uint32_t i = 0; i < r->page_count; i++) {
		uint64_t address =
			(uint64_t)(uintptr_t)(pool + (r->page_count - 1 - i) * page_bytes);

		r->pages[i] = r->pages[i] ? address : 0;
		assert_int_equal(cudaMemcpy(pool + (r->page_count - 1 - i) * page_bytes,
					    r->pool + i * page_bytes, page_bytes,
					    cudaMemcpyHostToDevice),
				 cudaSuccess);
	}
}

static void take_rows(const struct run *r, const uint16_t *got, const struct attn_chunk *chunks,
		      uint32_t count, uint16_t *out)
{
	uint32_t row = attn_world_row(r->w);

	for (uint32_t i = 0; i < count; i++) {
		memcpy(out, got, (size_t)chunks[i].rows * row * sizeof(*out));
		out += (size_t)chunks[i].rows * row;
		got += (size_t)chunks[i].rows * row;
		for (uint32_t d = 0; d < row; d++)
			assert_int_equal(got[d], NOBODY);
		got += row;
	}
}

static void launch(struct run *r)
{
	const struct attn_world *w = r->w;

	if (r->a.tile_count > 2)
		assert_int_equal(w->prefill(NULL, &r->a), cudaSuccess);
	if (r->a.decode_count > 2)
		assert_int_equal(cuda_attn_decode(NULL, &r->a), cudaSuccess);
	assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
}

void attn_world_run(const struct attn_world *w, const struct attn_chunk *chunks, uint32_t count,
		    uint16_t *out)
{
	struct run r = {.w = w,
			.layout = {LAYERS, w->kv_heads, w->head_dim, w->page_tokens, 2},
			.a = {.heads = w->heads,
			      .kv_heads = w->kv_heads,
			      .head_dim = w->head_dim,
			      .page_tokens = w->page_tokens,
			      .window = w->window,
			      .fp16 = w->fp16,
			      .splits_max = 1}};
	size_t bytes, pool_bytes;
	unsigned char *pool;
	uint16_t *got;

	plan(&r, chunks, count);
	bytes = (size_t)r.rows * attn_world_row(w) * sizeof(*got);
	pool_bytes = r.page_count * kvd_layout_page_bytes(&r.layout);
	pool = device_fill(NAN_BYTE, pool_bytes);
	upload_pages(&r, pool);
	r.a.tma_base = w->tma ? (uint64_t)(uintptr_t)pool : 0;
	r.a.tma_bytes = w->tma ? pool_bytes : 0;
	r.a.scale = 1 / sqrtf((float)w->head_dim);
	r.a.layer_k_offset = kvd_layout_k(&r.layout, LAYER, 0);
	r.a.head_bytes = kvd_layout_head_bytes(&r.layout);
	r.a.q = device_copy(r.q, bytes);
	r.a.out = device_fill(NOBODY & 0xff, bytes);
	r.a.seqs = device_copy(r.seqs, r.seq_count * sizeof(*r.seqs));
	r.a.pages = device_copy(r.pages, r.page_count * sizeof(*r.pages));
	r.a.tiles = device_copy(r.tiles, r.a.tile_count * sizeof(*r.tiles));
	r.a.decodes = device_copy(r.decodes, r.a.decode_count * sizeof(*r.decodes));
	r.a.workspace = device_fill(NAN_BYTE, cuda_attn_workspace_bytes(r.a.decode_count, w->heads,
									w->kv_heads, w->head_dim,
									r.a.splits_max));
	launch(&r);
	got = malloc(bytes);
	assert_non_null(got);
	assert_int_equal(cudaMemcpy(got, r.a.out, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
	take_rows(&r, got, chunks, count, out);
	{
		const void *device[] = {pool,	   r.a.q,     r.a.out,	   r.a.seqs,
					r.a.pages, r.a.tiles, r.a.decodes, r.a.workspace};
		void *host[] = {got, r.tiles, r.pages, r.pool, r.q};

		for (size_t i = 0; i < sizeof(device) / sizeof(*device); i++)
			assert_int_equal(cudaFree((void *)(uintptr_t)device[i]), cudaSuccess);
		for (size_t i = 0; i < sizeof(host) / sizeof(*host); i++)
			free(host[i]);
	}
}

static double dot(const uint16_t *x, const uint16_t *y, uint32_t n)
{
	double sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += from_bf16(x[i]) * from_bf16(y[i]);
	return sum;
}

static void check_head(const struct attn_world *w, uint32_t seq, uint32_t pos, uint32_t head,
		       const uint16_t *out)
{
	const uint16_t *q =
		w->q + (((size_t)seq * w->tokens_max + pos) * w->heads + head) * w->head_dim;
	uint32_t kv_head = head / (w->heads / w->kv_heads), lo = first_key(w, pos);
	double scale = (double)(1 / sqrtf((float)w->head_dim)), max = -INFINITY, sum = 0;
	double *weight = calloc(pos + 1, sizeof(*weight));

	assert_non_null(weight);
	for (uint32_t p = lo; p <= pos; p++) {
		weight[p] = scale * dot(q, key_of(w, w->k, seq, kv_head, p), w->head_dim);
		max = fmax(max, weight[p]);
	}
	for (uint32_t p = lo; p <= pos; p++)
		sum += weight[p] = exp(weight[p] - max);
	for (uint32_t d = 0; d < w->head_dim; d++) {
		double o = 0, size = 0;

		for (uint32_t p = lo; p <= pos; p++) {
			double x = weight[p] / sum * from_bf16(key_of(w, w->v, seq, kv_head, p)[d]);

			o += x;
			size += fabs(x);
		}
		double got = w->fp16 ? kernel_fp16_to_f32(out[d]) : from_bf16(out[d]);

		if (!(fabs(got - o) <= TOLERANCE * size))
			fail_msg("seq %u pos %u head %u dim %u: %g, should be %g +- %g", seq, pos,
				 head, d, got, o, TOLERANCE * size);
	}
	free(weight);
}

void attn_world_check_row(const struct attn_world *w, uint32_t seq, uint32_t pos,
			  const uint16_t *row)
{
	for (uint32_t head = 0; head < w->heads; head++)
		check_head(w, seq, pos, head, row + head * w->head_dim);
}
