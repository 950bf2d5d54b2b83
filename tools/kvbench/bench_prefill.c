/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prefill of a whole prompt, alone, in chunks of 512: tokens per second. The limit is the
 * FLOPs of linears, causal attention and one row of the head over the measured bf16 peak.
 */
#include "tools/kvbench/bench_model.h"
#include "tools/kvbench/limits.h"

#include <base/bits.h>
#include <base/units.h>
#include <stdio.h>

#define PREFILL_TOKENS_MAX 4096u

int bench_prefill_run(const struct bench *b)
{
	static const uint32_t lengths[] = {128, 512, 2048, 4096};
	struct bench_model s;
	double seconds[101];

	if (bench_model_open(&s, b, PREFILL_TOKENS_MAX) != 0)
		return 1;
	/* A device's limits are rows of the bench `ops`. */
	double peak = s.model->ops->asynchronous
			      ? 0
			      : limits_bf16_flops(kernels_ctx_threads(forward_ctx(s.forward)));
	for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
		uint32_t n = lengths[i];
		uint32_t repeat = BITS_MIN(b->repeat ? b->repeat : 5, 101u);
		double flop = n * bench_model_linear_flop(&s) + bench_model_head_flop(&s) +
			      bench_model_attention_flop(&s, n) * n / 2;
		char name[32];

		snprintf(name, sizeof(name), "pp%u", n);
		if (!bench_wanted(b, name))
			continue;
		bench_model_prefill(&s, 0, n);
		for (uint32_t r = 0; r < repeat; r++) {
			uint64_t start_ns = units_now_ns();
			bench_model_prefill(&s, 0, n);
			seconds[r] = (double)(units_now_ns() - start_ns) / 1e9;
		}
		double rate = n / bench_median(seconds, repeat);
		bench_emit(b,
			   &(struct bench_row){.bench = "prefill",
					       .name = name,
					       .value = rate,
					       .unit = "tok/s",
					       .limit = n * peak / flop,
					       .fraction = peak > 0 ? rate * flop / n / peak : 0});
	}
	bench_model_close(&s);
	return 0;
}
