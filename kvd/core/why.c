/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Explaining a miss, from what the caller's own namespace knows. Other namespaces are never looked
 * at: their existence is not to be told. Token text is not shown, only counts. The core's thread
 * only.
 */
#include "kvd/core/why.h"

#include "kvd/core/call.h"
#include "kvd/core/match.h"
#include "kvd/core/tail.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define WHY_FORMATS_MAX 16u

/* A format of the same namespace in which the first missing block is cached, or CORE_NONE. */
static uint32_t other_format(const struct core *core, uint32_t format,
			     const struct index_prompt *prompt, uint32_t tokens)
{
	uint32_t tried = 0;

	for (uint32_t f = 0; f < core->format_count && tried < WHY_FORMATS_MAX; f++) {
		struct index_prompt p = *prompt;
		if (f == format || core->formats[f].space != core->formats[format].space)
			continue;
		tried++;
		p.page_tokens = core->formats[f].page_tokens;
		p.extra_count = 0;
		uint32_t depth = core->nodes[match_sealed(core, f, &p)].depth;
		if (depth > 0 && depth * p.page_tokens > tokens)
			return f;
	}
	return CORE_NONE;
}

static void say_format(const struct core *core, uint32_t format, uint32_t other, char *text,
		       size_t size)
{
	const struct format *a = &core->formats[format];
	const struct format *b = &core->formats[other];
	const char *field = "identity";

	if (a->page_tokens != b->page_tokens)
		field = "page_tokens";
	else if (a->part_count != b->part_count)
		field = "parts";
	else if (strcmp(a->layout, b->layout) != 0)
		field = "layout";
	else if (memcmp(a->identity, b->identity, sizeof(a->identity)) == 0)
		field = "device";
	snprintf(text, size, "format %u has these tokens; it differs in %s (%s)", other, field,
		 b->description[0] ? b->description : "no description");
}

static void explain(const struct core *core, uint32_t format, const struct index_prompt *prompt,
		    uint32_t last, struct kvd_why *out)
{
	struct index_key key;
	uint32_t node = CORE_NONE;

	match_next(core, last, prompt, &key);
	out->common_run_tokens = tail_run(core, last, &key, &node);
	if (key.token_count < prompt->page_tokens) {
		out->cause = out->hit_tokens > 0 ? KVD_WHY_HIT : KVD_WHY_SHORT;
		return;
	}
	uint32_t next = index_find(core, last, &key);
	if (next != CORE_NONE) {
		bool cold = core->nodes[next].state == NODE_COLD;
		out->cause = cold ? KVD_WHY_IN_TIER : KVD_WHY_BUILDING;
		return;
	}
	uint32_t ghost = index_ghost_find(core, key.hash);
	uint32_t other = ghost ? CORE_NONE : other_format(core, format, prompt, out->hit_tokens);
	out->cause = ghost ? ghost : KVD_WHY_NEVER_SEEN;
	if (other == CORE_NONE)
		return;
	out->cause = KVD_WHY_OTHER_FORMAT;
	say_format(core, format, other, out->text, sizeof(out->text));
}

static const char *const causes[] = {
	[KVD_WHY_HIT] = "all full blocks are cached",
	[KVD_WHY_NEVER_SEEN] = "these tokens were never sealed here",
	[KVD_WHY_EVICTED] = "the block was evicted",
	[KVD_WHY_BUILDING] = "the block is being computed now",
	[KVD_WHY_QUARANTINED] = "its writer broke before the block was sealed",
	[KVD_WHY_SHORT] = "the tokens are fewer than one block",
	[KVD_WHY_IN_TIER] = "the block is in a tier, to be loaded when it is asked for",
};

int why_run(struct core *core, struct call *call)
{
	struct index_prompt prompt;
	struct kvd_why *why = (struct kvd_why *)(void *)core->handles;
	int rc = call_prompt(core, call, 0, &prompt);

	if (rc < 0)
		return rc;
	if (call->req->out_bytes < sizeof(*why))
		return -EINVAL;
	uint32_t last = match_sealed(core, call->req->format, &prompt);
	uint32_t depth = core->nodes[last].depth;
	*why = (struct kvd_why){.hit_tokens = depth * prompt.page_tokens,
				.first_missing_block = depth};
	if (why->hit_tokens < prompt.token_count)
		explain(core, call->req->format, &prompt, last, why);
	if (why->text[0] == '\0' && causes[why->cause])
		snprintf(why->text, sizeof(why->text), "%s", causes[why->cause]);
	call->rep.out_bytes = sizeof(*why);
	call->payload = why;
	return 0;
}
