/* SPDX-License-Identifier: Apache-2.0 */
/* What a request cost, in OpenAI's `usage` and in our own `kvd` object beside it. */
#ifndef ENGINE_HTTP_USAGE_H
#define ENGINE_HTTP_USAGE_H

#include "engine/engine.h"
#include "engine/http/query.h"
#include <jansson.h>

struct usage {
	uint64_t prompt_tokens; /* each prompt once, however many choices it has */
	uint64_t completion_tokens;
	uint64_t cached_tokens;
	uint64_t tail_bytes_copied;
	uint64_t kv_bytes_copied;
	uint64_t queue_ns; /* these of the slowest choice */
	uint64_t prefill_ns;
	uint64_t ttft_ns;
	uint64_t total_ns;
};

void usage_init(struct usage *u, const struct query *r);
/* Adds what the engine said of choice i. */
void usage_add_done(struct usage *u, const struct query *r, uint32_t i,
		    const struct engine_done *d);
/* with_cached: the figures of usage_add_done() are in. */
json_t *usage_json(const struct usage *u, bool with_cached);
json_t *usage_kvd_json(const struct usage *u);

#endif
