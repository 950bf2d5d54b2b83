/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Histograms as Prometheus wants them: cumulative buckets, bounds fixed for all of them so that
 * they can be added up over engines. Written by the step loop alone; engine.c publishes copies.
 */
#include "engine/stats.h"
#include "base/bits.h"
#include "base/units.h"

void stats_observe(struct engine_histogram *h, uint64_t ns)
{
	double s = (double)ns / (double)UNITS_NS_PER_S;

	h->sum_s += s;
	h->count++;
	for (size_t i = ARRAY_LEN(h->bucket); i-- > 0 && s <= engine_histogram_bounds_s[i];)
		h->bucket[i]++;
}

void stats_done(struct engine_stats *s, const struct engine_done *d)
{
	s->requests_done[d->finish]++;
	s->prompt_tokens += d->prompt_tokens;
	s->lookup_tokens += d->lookup_tokens;
	s->cached_tokens += d->cached_tokens;
	s->tail_bytes_copied += d->tail_bytes_copied;
	stats_observe(&s->e2e, d->total_ns);
	stats_observe(&s->queue, d->queue_ns);
	if (!d->ttft_ns)
		return;
	stats_observe(&s->ttft, d->ttft_ns);
	stats_observe(&s->prefill, d->prefill_ns);
}
