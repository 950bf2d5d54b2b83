/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion tokens are counted where they are read, so that a stop string cuts the count where
 * it cuts the text, whatever the engine had computed by then; the rest is the engine's word.
 */
#include "engine/http/usage.h"
#include <base/bits.h>
#include <base/units.h>

void usage_init(struct usage *u, const struct query *r)
{
	*u = (struct usage){0};
	for (uint32_t i = 0; i < r->prompt_count; i++)
		u->prompt_tokens += r->prompt[i].count;
}

void usage_add_done(struct usage *u, const struct query *r, uint32_t i, const struct engine_done *d)
{
	if (i % r->n == 0)
		u->cached_tokens += d->cached_tokens;
	u->tail_bytes_copied += d->tail_bytes_copied;
	u->kv_bytes_copied += d->kv_bytes_copied;
	u->queue_ns = BITS_MAX(u->queue_ns, d->queue_ns);
	u->prefill_ns = BITS_MAX(u->prefill_ns, d->prefill_ns);
	u->ttft_ns = BITS_MAX(u->ttft_ns, d->ttft_ns);
	u->total_ns = BITS_MAX(u->total_ns, d->total_ns);
}

json_t *usage_json(const struct usage *u, bool with_cached)
{
	json_t *out =
		json_pack("{s:I, s:I, s:I}", "prompt_tokens", (json_int_t)u->prompt_tokens,
			  "completion_tokens", (json_int_t)u->completion_tokens, "total_tokens",
			  (json_int_t)(u->prompt_tokens + u->completion_tokens));

	if (with_cached)
		(void)json_object_set_new(
			out, "prompt_tokens_details",
			json_pack("{s:I}", "cached_tokens", (json_int_t)u->cached_tokens));
	return out;
}

static double ms(uint64_t ns)
{
	return (double)ns / (double)UNITS_NS_PER_MS;
}

json_t *usage_kvd_json(const struct usage *u)
{
	return json_pack("{s:f, s:f, s:f, s:f, s:I, s:I}", "ttft_ms", ms(u->ttft_ns), "queue_ms",
			 ms(u->queue_ns), "prefill_ms", ms(u->prefill_ns), "total_ms",
			 ms(u->total_ns), "kv_bytes_copied", (json_int_t)u->kv_bytes_copied,
			 "tail_bytes_copied", (json_int_t)u->tail_bytes_copied);
}
