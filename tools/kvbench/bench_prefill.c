/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prefill of a whole prompt, alone, in chunks (--rows): tokens per second. The limit is the
 * FLOPs of linears, causal attention and one row of the head over the device's measured bf16 peak.
 */
#include "tools/kvbench/bench_device.h"
#include "tools/kvbench/bench_model.h"

#include <base/bits.h>
#include <base/units.h>
#include <stdio.h>

#define PREFILL_TOKENS_MAX 4096u

/* 0, or 1 after a message. */
static int prefill_case(const struct bench *b, struct bench_model *s, uint32_t n, double peak)
{
	uint32_t repeat = BITS_MIN(b->repeat ? b->repeat : 5, 101u);
	double flop = n * bench_model_linear_flop(s) + bench_model_head_flop(s) +
		      bench_model_attention_flop(s, n) * n / 2;
	double seconds[101];
	char name[32];

	snprintf(name, sizeof(name), "pp%u", n);
	if (!bench_wanted(b, name))
		return 0;
	if (bench_model_prefill(s, 0, n) < 0)
		return 1;
	for (uint32_t r = 0; r < repeat; r++) {
		uint64_t start_ns = units_now_ns();

		if (bench_model_prefill(s, 0, n) < 0)
			return 1;
		seconds[r] = (double)(units_now_ns() - start_ns) / 1e9;
	}
	double rate = n / bench_median(seconds, repeat);
	bench_emit(b, &(struct bench_row){.bench = "prefill",
					  .name = name,
					  .value = rate,
					  .unit = "tok/s",
					  .limit = n * peak / flop,
					  .fraction = rate * flop / n / peak});
	return 0;
}

int bench_prefill_run(const struct bench *b)
{
	static const uint32_t lengths[] = {128, 512, 2048, 4096};
	struct bench_model s;

	if (bench_model_open(&s, b, PREFILL_TOKENS_MAX) != 0)
		return 1;
	double peak = bench_device_limits_flops(b, s.model->ops,
						kernels_ctx_threads(forward_ctx(s.forward)));
	int status = peak > 0 ? 0 : 1;

	for (size_t i = 0; i < ARRAY_LEN(lengths) && status == 0; i++)
		status = prefill_case(b, &s, lengths[i], peak);
	bench_model_close(&s);
	return status;
}
