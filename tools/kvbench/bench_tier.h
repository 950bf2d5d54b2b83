/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kvd with a file tier, and a client that computes prefixes, lets go of them, and wants them
 * back, for the benches of the tiers. What is in a page follows from which page it is, so that it
 * can be checked wherever it has been.
 */
#ifndef TOOLS_KVBENCH_BENCH_TIER_H
#define TOOLS_KVBENCH_BENCH_TIER_H

#include "tools/kvbench/bench.h"
#include "tools/kvbench/daemon.h"

#include <kvd.h>

#define BENCH_TIER_FORMATS_MAX 4u
#define BENCH_TIER_CHAINS_MAX 1024u

struct bench_tier_args {
	const char *program;
	const char *file; /* made anew */
	uint64_t file_bytes;
	const char *aio; /* of kvd's option */
	uint64_t pool_bytes;
	uint32_t page_tokens;
	uint64_t page_bytes;
	uint32_t formats;    /* with as large pages; 0: one */
	uint64_t blocks_max; /* that the pool and the index must have room for; 0: kvd's defaults */
};

struct bench_tier {
	struct bench_tier_args args;
	struct daemon daemon;
	struct kvd *kvd;
	const struct kvd_status *shared; /* the status file */
	struct kvd_status *status;	 /* a copy */
	uint32_t formats[BENCH_TIER_FORMATS_MAX];
	uint32_t *tokens; /* of one chain */
	char file[512];
};

/* Chains of blocks that come and go together. Chain i is of format i modulo their number. */
struct bench_set {
	uint64_t seed;
	uint32_t chains;
	uint32_t blocks; /* of each */
	struct kvd_lease *leases[BENCH_TIER_CHAINS_MAX];
};

/* What the file's slots of so many blocks take. */
uint64_t bench_tier_bytes(const struct bench_tier *t, uint64_t blocks);

/* All return 0 or -errno after a message; bench_tier_stop() is called in any case. */
int bench_tier_start(struct bench_tier *t, const struct bench_tier_args *args);
/* Ends everything; the file is removed. */
void bench_tier_stop(struct bench_tier *t);
/* Kills or ends the daemon, and starts it again with the same file. *out_s: until it was ready. */
void bench_tier_end(struct bench_tier *t, int sig);
int bench_tier_again(struct bench_tier *t, double *out_s);

/* Computes all of the set, whose pages are then held. */
int bench_tier_fill(struct bench_tier *t, struct bench_set *s);
/* Lets go of the leases. */
int bench_tier_release(struct bench_tier *t, struct bench_set *s);
/*
 * Waits until so many blocks were stored since the daemon's start. *out_s, which may be NULL, is
 * how long that took since start_ns: kvd says ten times a second how far it is, and the end is
 * where the line through what it said reaches `stores`.
 */
int bench_tier_stored(struct bench_tier *t, uint64_t stores, uint64_t start_ns, double *out_s);
/* Asks for all of the set, none of which is in the pool; returns when all is there. */
int bench_tier_load(struct bench_tier *t, struct bench_set *s, double *out_s);
/* Whether each byte of the set, all of which is there, is what it should be. */
int bench_tier_check(struct bench_tier *t, const struct bench_set *s);
/* What nobody holds leaves the pool; `file`: and what is then only in the file leaves that. */
int bench_tier_evict(struct bench_tier *t, bool file);
/* The file's figures, not older than 100 ms. */
const struct kvd_area_stat *bench_tier_area(struct bench_tier *t);
/* Seconds of processor time that the daemon has used. */
double bench_tier_cpu_s(const struct bench_tier *t);

#endif
