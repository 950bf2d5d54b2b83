/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoding of one sequence, token by token, from the start and at depth: tokens per second. The
 * limit is the bytes touched (all weights and the KV so far) over the device's measured bandwidth.
 */
#include "tools/kvbench/bench_device.h"
#include "tools/kvbench/bench_model.h"

#include <base/bits.h>
#include <base/units.h>
#include <stdio.h>

#define DECODE_DEPTH 4096u
#define DECODE_TOKENS_MAX 128u

/* 0, or 1 after a message. */
static int bench_decode_case(const struct bench *b, struct bench_model *s, const char *name,
			     uint32_t depth, uint32_t count, double bytes_per_s)
{
	const struct kvd_layout *layout = forward_layout(s->forward);
	double kv_bytes = (double)kvd_layout_page_bytes(layout) / layout->page_tokens;
	double touched = (double)s->model->weight_bytes + kv_bytes * (depth + count / 2.0);
	uint32_t repeat = BITS_MIN(b->repeat ? b->repeat : 5, 101u);
	double seconds[101];

	if (!bench_wanted(b, name))
		return 0;
	if (bench_model_prefill(s, 0, BITS_MAX(depth, 1u)) < 0)
		return 1;
	for (uint32_t r = 0; r < repeat; r++) {
		uint64_t start_ns = units_now_ns();

		for (uint32_t t = 0; t < count; t++)
			if (bench_model_prefill(s, depth + t, 1) < 0)
				return 1;
		seconds[r] = (double)(units_now_ns() - start_ns) / 1e9;
	}
	double rate = count / bench_median(seconds, repeat);
	bench_emit(b, &(struct bench_row){.bench = "decode",
					  .name = name,
					  .value = rate,
					  .unit = "tok/s",
					  .limit = bytes_per_s / touched,
					  .fraction = rate * touched / bytes_per_s});
	return 0;
}

int bench_decode_run(const struct bench *b)
{
	struct bench_model s;

	if (bench_model_open(&s, b, DECODE_DEPTH + DECODE_TOKENS_MAX) != 0)
		return 1;
	double bytes_per_s = bench_device_limits_bytes_per_s(
		b, s.model->ops, kernels_ctx_threads(forward_ctx(s.forward)));
	int status = bytes_per_s > 0 ? 0 : 1;

	if (status == 0)
		status = bench_decode_case(b, &s, "tg128", 0, 128, bytes_per_s);
	if (status == 0)
		status = bench_decode_case(b, &s, "tg64@4096", DECODE_DEPTH, 64, bytes_per_s);
	bench_model_close(&s);
	return status;
}
