/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A message to the daemon and back: RATE of an unknown format, the smallest request, through the
 * whole path (libkvd, ring, loop, core, ring). Spinning shows the path itself, sleeping what the
 * scheduler adds to it.
 */
#include "tools/kvbench/bench.h"
#include "tools/kvbench/bench_client.h"

#include <base/units.h>
#include <kvd.h>
#include <stdlib.h>

static int bench_ring_case(const struct bench *b, const char *name, uint32_t spin_us)
{
	uint32_t rounds = b->repeat ? b->repeat : (spin_us ? 20000 : 5000);
	double *us = malloc(rounds * sizeof(*us));
	struct bench_client c;
	int err = us ? bench_client_start(&c, b, 64 << 20, spin_us) : -1;

	if (err) {
		free(us);
		return 1;
	}
	for (uint32_t i = 0; i < rounds && !err; i++) {
		struct kvd_space_stat stat;
		uint64_t start_ns = units_now_ns();
		err = kvd_stat(c.kvd, &stat);
		us[i] = (double)(units_now_ns() - start_ns) / 1e3;
	}
	bench_client_stop(&c);
	if (!err)
		bench_emit(b, &(struct bench_row){.bench = "ring",
						  .name = name,
						  .value = bench_median(us, rounds),
						  .unit = "us"});
	free(us);
	return err ? 1 : 0;
}

int bench_ring_run(const struct bench *b)
{
	int status = bench_ring_case(b, "round trip, spinning", 200);

	return status ? status : bench_ring_case(b, "round trip, sleeping", 0);
}
