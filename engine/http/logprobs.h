/* SPDX-License-Identifier: Apache-2.0 */
/* Log-probabilities in the two shapes of the two APIs. */
#ifndef ENGINE_HTTP_LOGPROBS_H
#define ENGINE_HTTP_LOGPROBS_H

#include "engine/engine.h"
#include "engine/http/query.h"
#include "engine/text/tokenizer.h"
#include <jansson.h>

struct logprobs_entry {
	uint32_t token;
	bool known; /* false: the first token of a prompt has none */
	float logprob;
	const struct engine_logprob *top;
	uint32_t top_count;
	uint32_t chars_before;
};

/* An empty object of the API's shape; NULL: no memory. */
json_t *logprobs_new(enum query_kind kind);
/* Adds one token. */
void logprobs_add(enum query_kind kind, json_t *lp, const struct tokenizer *t,
		  const struct logprobs_entry *entry);

#endif
