/* SPDX-License-Identifier: Apache-2.0 */
/* A core with a small pool and tiers below it, one session, one format: what the tier tests share.
 */
#ifndef TIER_SCENE_H
#define TIER_SCENE_H

#include "tests/unit/core/harness.h"

#define SCENE_PAGE_TOKENS 16u
#define SCENE_BLOCKS_MAX 40u

struct tier_scene {
	struct harness *h;
	uint32_t session;
	uint32_t format;
};

/* Segments of `file_slots` slots, one block each; 0 segments: no such tier. */
static inline struct core_config tier_scene_config(uint32_t pages, uint32_t file_segments,
						   uint32_t slots)
{
	struct core_config config = harness_config(pages, pages);

	config.policy = "lru";
	config.tiers[CORE_TIER_FILE] = (struct core_tier_config){
		.area_count = file_segments > 0,
		.area_segments = {file_segments},
		.segment_bytes = (uint64_t)slots * 2 * HARNESS_PAGE_BYTES,
		.depth = 4,
	};
	return config;
}

static inline struct tier_scene tier_scene_start(const struct core_config *config)
{
	struct tier_scene s = {.h = harness_with(config)};

	s.session = harness_session(s.h, 0, 0, 0);
	s.format = harness_format(s.h, s.session, 1, SCENE_PAGE_TOKENS, 1, HARNESS_PAGE_BYTES);
	return s;
}

static inline struct harness_reply *tier_scene_acquire(struct tier_scene *s, uint32_t chain,
						       uint32_t blocks)
{
	uint32_t tokens[SCENE_BLOCKS_MAX * SCENE_PAGE_TOKENS];

	harness_tokens(chain, blocks * SCENE_PAGE_TOKENS, tokens);
	return harness_acquire(s->h, s->session, s->format, tokens, blocks * SCENE_PAGE_TOKENS, 0);
}

/* Computes the chain and leaves it cached; nothing of it may be cached before. */
static inline void tier_scene_make(struct tier_scene *s, uint32_t chain, uint32_t blocks)
{
	uint32_t tokens[SCENE_BLOCKS_MAX * SCENE_PAGE_TOKENS];

	harness_tokens(chain, blocks * SCENE_PAGE_TOKENS, tokens);
	harness_cache(s->h, s->session, s->format, tokens, blocks * SCENE_PAGE_TOKENS);
}

/* Makes the chain, stores it, and lets another take its pages. */
static inline void tier_scene_cool(struct tier_scene *s, uint32_t chain, uint32_t blocks,
				   uint32_t pages)
{
	tier_scene_make(s, chain, blocks);
	harness_transfers(s->h, 0);
	struct harness_reply *r = tier_scene_acquire(s, 9999, pages);
	assert_int_equal(r->rep.result, 0);
	assert_int_equal(harness_release(s->h, s->session, r->rep.lease), 0);
}

static inline uint32_t tier_scene_ready(const struct tier_scene *s, uint64_t lease)
{
	return harness_row(s->h, s->session, lease)->ready_tokens / SCENE_PAGE_TOKENS;
}

static inline uint64_t tier_scene_count(const struct tier_scene *s, enum kvd_counter counter)
{
	return s->h->core->counters[counter];
}

#endif
