/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace of requests and what becomes of it. A request is a chain of ids, one a block: equal ids
 * at equal places mean equal prefixes.
 */
#ifndef TOOLS_KVBENCH_REPLAY_H
#define TOOLS_KVBENCH_REPLAY_H

#include "kvd/core/core.h"

#include <stdint.h>

#define REPLAY_ID_MAX (1u << 26)

struct replay_trace {
	uint32_t *ids;	 /* of all requests, one behind the other */
	uint64_t *first; /* request_count + 1: where each begins */
	uint64_t id_count;
	uint32_t request_count;
	uint32_t longest; /* blocks of the longest request */
	uint32_t id_end;  /* above every id */
};

/* References, and those of them that were found; `late` are those of the second half. */
struct replay_result {
	uint64_t found;
	uint64_t late_found;
	uint64_t late_count;
	uint64_t stores; /* blocks written to the file tier */
	double seconds;
};

/* What there is to keep blocks in. */
struct replay_pool {
	const char *policy;
	uint32_t blocks;
	uint32_t file_blocks; /* of a file tier below it; 0: none */
	enum core_store store;
};

/* One JSON object a line, with "hash_ids". 0, or -errno; says on stderr what is wrong. */
int replay_trace_read(const char *path, struct replay_trace *out);
void replay_trace_free(struct replay_trace *trace);

/* Runs the daemon's core. What lies in the file counts as found. 0, or -errno. */
int replay_core(const struct replay_trace *trace, const struct replay_pool *pool,
		struct replay_result *out);
/* The best that anybody could do who knows the future (Belady 1966). 0, or -errno. */
int replay_optimum(const struct replay_trace *trace, uint32_t blocks, struct replay_result *out);

struct bench;
/* A table of hits and writes with a file tier of that many blocks. 0, or -errno. */
int replay_file(const struct bench *b, const struct replay_trace *trace, const char *policy);

/* Counts `found` of the `count` references of a request. */
static inline void replay_count(const struct replay_trace *trace, uint32_t request, uint64_t count,
				uint64_t found, struct replay_result *out)
{
	out->found += found;
	if (request < trace->request_count / 2)
		return;
	out->late_found += found;
	out->late_count += count;
}

#endif
