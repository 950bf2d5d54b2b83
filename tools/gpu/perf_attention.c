/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flash attention over pages, against what this device can do in the same minutes: a large matrix
 * product by cuBLASLt, a copy on the device, and standard attention of the same input, whose result
 * must agree. Prefill is held against the product's FLOP/s, decode against the copy's bytes.
 */
#include "tools/gpu/perf_flash.h"
#include "tools/gpu/probe.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Weights and results are rounded to bf16 in two ways; values are in (-1, 1). */
#define TOLERANCE 0.02f

struct scale {
	double round_ms;
	uint32_t product; /* m = n = k */
	size_t copy_bytes;
	uint32_t lengths[3];
	uint32_t standard_max; /* tokens */
	uint32_t decode_sequences, decode_tokens;
};

static const struct scale full = {20, 8192, 1ull << 30, {1024, 4096, 16384}, 4096, 64, 4096};
/* For the simulator: it runs, and that is all. */
static const struct scale small = {0, 64, 1u << 20, {64, 130, 0}, 130, 2, 600};

static const struct {
	const char *name;
	uint32_t heads, kv_heads, head_dim;
} shapes[] = {{"9/3 heads of 64", 9, 3, 64},
	      {"32/8 heads of 128", 32, 8, 128},
	      {"8/4 heads of 256", 8, 4, 256}};
#define SHAPES (sizeof(shapes) / sizeof(shapes[0]))

struct peaks {
	double tflops;
	double bytes_per_s; /* read plus written */
};

struct operands {
	struct perf_product p;
	void *a, *b, *c;
	size_t bytes;
};

static void multiply(struct perf *b, void *arg)
{
	struct operands *o = arg;

	perf_product_run(b, &o->p, o->a, o->b, o->c);
}

static void copy(struct perf *b, void *arg)
{
	struct operands *o = arg;

	probe_check(cudaMemcpyAsync(o->c, o->a, o->bytes, cudaMemcpyDeviceToDevice, b->stream),
		    "copy");
}

static double product_tflops(struct perf *b, uint32_t n)
{
	struct operands o = {.p = {.m = n,
				   .n = n,
				   .k = n,
				   .lda = n,
				   .ldb = n,
				   .ldc = n,
				   .b_rows_are_k = 1,
				   .c_type = CUDA_R_16BF}};
	size_t bytes = (size_t)n * n * sizeof(uint16_t);

	o.a = perf_random(bytes);
	o.b = perf_random(bytes);
	o.c = perf_new(bytes);
	perf_product_init(b, &o.p);
	double ms = perf_ms(b, multiply, &o);
	perf_product_fini(&o.p);
	perf_free(o.a);
	perf_free(o.b);
	perf_free(o.c);
	return 2e-9 * n * n * n / ms;
}

static double copy_bytes_per_s(struct perf *b, size_t bytes)
{
	struct operands o = {.bytes = bytes};

	o.a = perf_random(bytes);
	o.c = perf_new(bytes);
	double ms = perf_ms(b, copy, &o);
	perf_free(o.a);
	perf_free(o.c);
	return 2e3 * (double)bytes / ms;
}

static float from_bf16(uint16_t x)
{
	union {
		uint32_t bits;
		float value;
	} u = {.bits = (uint32_t)x << 16};

	return u.value;
}

static uint16_t *to_host(const uint16_t *device, size_t count)
{
	uint16_t *host = malloc(count * sizeof(*host));

	if (!host)
		probe_fail("no memory");
	probe_check(cudaMemcpy(host, device, count * sizeof(*host), cudaMemcpyDeviceToHost),
		    "a copy");
	return host;
}

static size_t outputs(const struct perf_flash *f)
{
	return (size_t)f->tokens * f->heads * f->head_dim;
}

static float largest_difference(const uint16_t *x, const uint16_t *y, size_t count)
{
	float most = 0;

	for (size_t i = 0; i < count; i++) {
		float d = fabsf(from_bf16(x[i]) - from_bf16(y[i]));

		if (isnan(d))
			return INFINITY;
		most = d > most ? d : most;
	}
	return most;
}

static void compare_standard(struct perf *b, struct perf_flash *f, const uint16_t *result,
			     const char *name, double flash_ms)
{
	struct perf_standard s = {.tokens = f->tokens,
				  .heads = f->heads,
				  .kv_heads = f->kv_heads,
				  .head_dim = f->head_dim,
				  .scale = f->a.scale,
				  .q = f->a.q};
	size_t kv = (size_t)f->kv_heads * f->tokens * f->head_dim;
	uint16_t *k = perf_new(kv * sizeof(*k)), *v = perf_new(kv * sizeof(*v));

	perf_flash_unpage(f, k, v);
	s.k = k;
	s.v = v;
	perf_standard_init(b, &s);
	double ms = perf_ms(b, perf_standard_run, &s);
	uint16_t *right = to_host(s.out, outputs(f));
	float d = largest_difference(result, right, outputs(f));
	free(right);
	if (d > TOLERANCE)
		probe_fail("%s, %u tokens: flash and standard attention differ by %g", name,
			   f->tokens, (double)d);
	probe_figure(ms / flash_ms, "times the time of flash", "standard attention, %s, %u tokens",
		     name, f->tokens);
	probe_figure((double)d, "", "largest difference, %s, %u tokens", name, f->tokens);
	perf_standard_fini(&s);
	perf_free(k);
	perf_free(v);
}

static const struct {
	const char *name;
	cudaError_t (*run)(cudaStream_t stream, const struct cuda_attention *a);
} ways[] = {{"mma", cuda_attn_prefill}, {"wgmma", cuda_attn_prefill_sm90}};

/* One way's time, and its result in host memory; NULL if this device has it not. */
static uint16_t *prefill_by(struct perf *b, const struct peaks *peak, struct perf_flash *f,
			    size_t way, const char *shape, double *out_ms)
{
	/* Two products, of the half that is not masked. */
	double flops = 2.0 * f->tokens * f->tokens * f->heads * f->head_dim;
	char unit[80];

	f->run = ways[way].run;
	probe_check(cudaMemset(f->a.out, 0, outputs(f) * sizeof(*f->a.out)), "cudaMemset");
	probe_check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
	if (f->run(b->stream, &f->a) == cudaErrorNotSupported) {
		(void)cudaGetLastError();
		probe_part_impossible("prefill by %s: not on this device", ways[way].name);
		return NULL;
	}
	*out_ms = perf_ms(b, perf_flash_run, f);
	double tflops = 1e-9 * flops / *out_ms;
	snprintf(unit, sizeof(unit), "TFLOP/s, %.1f %% of the product's, %.3f ms",
		 100 * tflops / peak->tflops, *out_ms);
	probe_figure(tflops, unit, "prefill by %s, %s, %u tokens", ways[way].name, shape,
		     f->tokens);
	return to_host(f->a.out, outputs(f));
}

static void prefill(struct perf *b, const struct scale *scale, const struct peaks *peak,
		    size_t shape, uint32_t tokens)
{
	struct perf_flash f = {.heads = shapes[shape].heads,
			       .kv_heads = shapes[shape].kv_heads,
			       .head_dim = shapes[shape].head_dim,
			       .tokens = tokens,
			       .sequences = 1};
	const char *name = shapes[shape].name;
	double ms[2] = {1e30, 1e30};

	perf_flash_init(&f);
	uint16_t *mma = prefill_by(b, peak, &f, 0, name, &ms[0]);
	uint16_t *wgmma = prefill_by(b, peak, &f, 1, name, &ms[1]);
	if (wgmma && memcmp(mma, wgmma, outputs(&f) * sizeof(*mma)) != 0)
		probe_fail("%s, %u tokens: wgmma gives other bits than mma", name, tokens);
	if (tokens <= scale->standard_max)
		compare_standard(b, &f, mma, name, ms[1] < ms[0] ? ms[1] : ms[0]);
	free(mma);
	free(wgmma);
	perf_flash_fini(&f);
}

static void decode(struct perf *b, const struct peaks *peak, size_t shape, uint32_t sequences,
		   uint32_t tokens)
{
	struct perf_flash f = {.heads = shapes[shape].heads,
			       .kv_heads = shapes[shape].kv_heads,
			       .head_dim = shapes[shape].head_dim,
			       .tokens = tokens,
			       .sequences = sequences,
			       .decode = 1,
			       .run = cuda_attn_decode};
	char unit[80];

	perf_flash_init(&f);
	double ms = perf_ms(b, perf_flash_run, &f), rate = 1e3 * (double)f.pool_bytes / ms;
	snprintf(unit, sizeof(unit), "GB/s, %.1f %% of the copy's, %.3f ms",
		 100 * rate / peak->bytes_per_s, ms);
	probe_figure(1e-9 * rate, unit, "decode, %s, %u x %u tokens", shapes[shape].name, sequences,
		     tokens);
	perf_flash_fini(&f);
}

int main(int argc, char **argv)
{
	const struct scale *scale = argc == 2 && strcmp(argv[1], "--small") == 0 ? &small : &full;
	struct peaks peak;
	struct perf b;

	if (argc > 2 || (argc == 2 && scale == &full)) {
		fprintf(stderr, "usage: perf_attention [--small]\n");
		return 2;
	}
	probe_begin();
	perf_init(&b, scale->round_ms);
	peak.tflops = product_tflops(&b, scale->product);
	peak.bytes_per_s = copy_bytes_per_s(&b, scale->copy_bytes);
	probe_figure(peak.tflops, "TFLOP/s", "product of bf16 by cuBLASLt, %u", scale->product);
	probe_figure(1e-9 * peak.bytes_per_s, "GB/s, read and written", "copy on the device");
	for (size_t shape = 0; shape < SHAPES; shape++) {
		for (size_t i = 0; i < 3 && scale->lengths[i]; i++)
			prefill(&b, scale, &peak, shape, scale->lengths[i]);
		decode(&b, &peak, shape, 1, scale->decode_tokens);
		decode(&b, &peak, shape, scale->decode_sequences, scale->decode_tokens);
	}
	probe_finding("flash attention agrees with standard attention of the same input, and every "
		      "way to "
		      "prefill gives the same bits");
	perf_fini(&b);
	return 0;
}
