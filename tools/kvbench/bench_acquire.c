/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hit through a real daemon: match and pin 4,096 cached tokens, from the call to the event. The
 * cost of a hit must not depend on the bytes of a page: the last rows compare 64 KiB to 8 MiB.
 */
#include "tools/kvbench/bench.h"
#include "tools/kvbench/bench_client.h"

#include <base/bits.h>
#include <base/units.h>
#include <stdio.h>
#include <stdlib.h>

#define ACQUIRE_TOKENS 4096u

struct acquire_case {
	const char *name;
	uint32_t page_tokens;
	uint64_t page_bytes;
	uint32_t spin_us;
};

/* Computes the prefix once, so that it is cached. */
static int bench_acquire_fill(struct bench_client *c, uint32_t format, const uint32_t *tokens,
			      uint32_t page_tokens)
{
	struct kvd_lease *lease = bench_client_acquire(c, format, tokens, ACQUIRE_TOKENS);

	if (!lease)
		return -1;
	int err = bench_client_seal(c, lease, ACQUIRE_TOKENS / page_tokens);
	int released = kvd_release(c->kvd, lease, 0, NULL, 0);
	return err ? err : released;
}

static int bench_acquire_samples(struct bench_client *c, uint32_t format, const uint32_t *tokens,
				 double *us, uint32_t rounds)
{
	for (uint32_t i = 0; i < rounds; i++) {
		struct kvd_lease_info info;
		uint64_t start_ns = units_now_ns();
		struct kvd_lease *lease = bench_client_acquire(c, format, tokens, ACQUIRE_TOKENS);
		us[i] = (double)(units_now_ns() - start_ns) / 1e3;
		if (!lease)
			return -1;
		kvd_lease_info(lease, &info);
		if (info.cached_tokens != ACQUIRE_TOKENS) {
			fprintf(stderr, "kvbench: only %u tokens were cached\n",
				info.cached_tokens);
			return -1;
		}
		if (kvd_release(c->kvd, lease, 0, NULL, 0) != 0)
			return -1;
	}
	return 0;
}

static int bench_acquire_case(const struct bench *b, const struct acquire_case *k)
{
	static uint32_t tokens[ACQUIRE_TOKENS];
	uint32_t rounds = b->repeat ? b->repeat : 2001, format;
	uint64_t pages = ACQUIRE_TOKENS / k->page_tokens;
	double *us = malloc(rounds * sizeof(*us));
	struct bench_client c;

	for (uint32_t i = 0; i < ACQUIRE_TOKENS; i++)
		tokens[i] = i * 2654435761u >> 12;
	if (!us)
		return 1;
	int err = bench_client_start(&c, b, pages * k->page_bytes * 2 + (256 << 20), k->spin_us);
	if (err) {
		free(us);
		return 1;
	}
	err = bench_client_format(&c, k->page_tokens, k->page_bytes, &format);
	if (!err)
		err = bench_acquire_fill(&c, format, tokens, k->page_tokens);
	if (!err)
		err = bench_acquire_samples(&c, format, tokens, us, rounds);
	bench_client_stop(&c);
	if (!err)
		bench_emit(b, &(struct bench_row){.bench = "acquire",
						  .name = k->name,
						  .value = bench_median(us, rounds),
						  .unit = "us"});
	free(us);
	return err ? 1 : 0;
}

int bench_acquire_run(const struct bench *b)
{
	static const struct acquire_case cases[] = {
		{"4096 tokens, 64 a page, spinning", 64, 64 << 10, 200},
		{"4096 tokens, 64 a page, sleeping", 64, 64 << 10, 0},
		{"4096 tokens, 16 a page, spinning", 16, 64 << 10, 200},
		{"4096 tokens, 16 a page, sleeping", 16, 64 << 10, 0},
		{"4096 tokens, pages of 1 MiB", 64, 1 << 20, 200},
		{"4096 tokens, pages of 8 MiB", 64, 8 << 20, 200},
	};
	int status = 0;

	for (size_t i = 0; i < ARRAY_LEN(cases) && !status; i++)
		if (bench_wanted(b, cases[i].name))
			status = bench_acquire_case(b, &cases[i]);
	return status;
}
