/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Never slower than recomputing.
 *
 * Loading n blocks from an area takes what waits there before them, and them, at the rate that was
 * measured there of late; areas work side by side. Computing them takes their tokens at the rate
 * that engines have measured for the format. Both grow with n alike, so the better cut is at one
 * end of what can be loaded: all, or nothing. What was never measured is tried: a load, which also
 * measures it.
 *
 * What cannot be loaded at all ends the chain: a block whose areas are down, or whose slot is being
 * used by something that may take long. The core's thread only.
 */
#include "kvd/core/move.h"

#include "kvd/core/node.h"
#include "kvd/core/rest.h"
#include "kvd/core/tier.h"

#include <base/units.h>
#include <stdio.h>

/* What an area would have to load. */
struct move_load {
	uint64_t bytes[CORE_TIERS][KVD_AREAS_MAX];
};

/* What the nodes from block `first` to `last` would load. Returns where what can be loaded ends. */
static uint32_t sum(const struct core *core, uint32_t last, uint32_t first, struct move_load *out)
{
	const struct format *f = &core->formats[core->nodes[last].format];
	uint32_t end = core->nodes[last].depth;
	struct core_slot slot;

	*out = (struct move_load){0};
	for (uint32_t n = last; core->nodes[n].depth > first; n = core->nodes[n].parent) {
		uint32_t tier = rest_readable(core, n);
		if (tier == CORE_NONE) {
			*out = (struct move_load){0};
			end = core->nodes[n].depth - 1;
			continue;
		}
		tier_slot(core, tier, core->rests[n].slot[tier], &slot);
		out->bytes[tier][slot.area] += tier_slot_bytes(core, f);
	}
	return end;
}

/* What hauls still have to load, as if it were spread evenly over the areas of a tier. */
static double waiting_bytes(const struct core *core, const struct tier *tier)
{
	double bytes = 0;

	for (uint32_t i = 0; i < CORE_HAULS && core->haul_count > 0; i++) {
		const struct haul *h = &core->hauls[i];
		const struct lease *l = &core->leases[core->cfg.leases_max + i];
		if (h->kind == HAUL_LOAD)
			bytes += (double)(h->end - h->next + h->moving) *
				 (double)tier_slot_bytes(core, &core->formats[l->format]);
	}
	return bytes / tier->area_count;
}

/* The slowest of the areas; 0: one of them was never measured. */
static uint64_t load_ns(const struct core *core, const struct move_load *load)
{
	uint64_t longest = 0;

	for (uint32_t t = 0; t < CORE_TIERS; t++) {
		const struct tier *tier = &core->tiers[t];
		double waiting = waiting_bytes(core, tier);
		for (uint32_t a = 0; a < tier->area_count; a++) {
			if (load->bytes[t][a] == 0)
				continue;
			uint64_t rate = tier_expect(core, &tier->areas[a].load);
			if (rate == 0)
				return 0;
			double bytes = (double)load->bytes[t][a] + waiting;
			uint64_t ns = (uint64_t)(bytes * (double)UNITS_NS_PER_S / (double)rate);
			longest = BITS_MAX(longest, ns);
		}
	}
	return longest;
}

uint32_t move_plan(const struct core *core, uint32_t last, uint32_t first,
		   uint64_t *out_estimate_ns)
{
	const struct format *f = &core->formats[core->nodes[last].format];
	struct move_load load;
	uint32_t end = sum(core, last, first, &load);

	*out_estimate_ns = 0;
	if (end == first)
		return first;
	*out_estimate_ns = load_ns(core, &load);
	if (f->rate_tokens_per_s == 0 || *out_estimate_ns == 0)
		return end;
	double tokens = (double)(end - first) * f->page_tokens;
	double compute_ns = tokens * (double)UNITS_NS_PER_S / (double)f->rate_tokens_per_s;
	return (double)*out_estimate_ns <= compute_ns ? end : first;
}

static double ms(uint64_t ns)
{
	return (double)ns / (double)UNITS_NS_PER_MS;
}

void move_count(struct core *core, uint32_t last, uint32_t first, uint32_t end,
		uint64_t estimate_ns)
{
	const struct node *n = &core->nodes[last];
	const struct format *f = &core->formats[n->format];
	uint32_t cold = n->depth - first;
	char text[160];

	if (cold == 0)
		return;
	uint64_t tokens = (uint64_t)cold * f->page_tokens;
	uint64_t rate = f->rate_tokens_per_s;
	snprintf(text, sizeof(text),
		 "%u cold blocks: %s; loading is expected to take %.1f ms, computing %.1f ms", cold,
		 end > first ? "loading" : "computing", ms(estimate_ns),
		 rate ? ms(tokens * UNITS_NS_PER_S / rate) : 0.0);
	core->ops.note(core->ctx, CORE_NOTE_DEBUG, text);
	core->counters[end > first ? KVD_C_LOADS_CHOSEN : KVD_C_COMPUTES_CHOSEN]++;
	core->counters[KVD_C_RECOMPUTED_TOKENS] += (uint64_t)(n->depth - end) * f->page_tokens;
}

void move_outcome(struct core *core, uint32_t last, uint64_t estimate_ns, uint64_t took_ns)
{
	char text[128];

	snprintf(text, sizeof(text),
		 "loaded a chain of %u blocks: took %.1f ms, %.1f were expected",
		 core->nodes[last].depth, ms(took_ns), ms(estimate_ns));
	core->ops.note(core->ctx, CORE_NOTE_DEBUG, text);
	core->counters[KVD_C_LOAD_ESTIMATE_NS] += estimate_ns;
	core->counters[KVD_C_LOAD_ACTUAL_NS] += took_ns;
}
