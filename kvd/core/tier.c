/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments and slots of the tiers, by area.
 *
 * A segment is given one size of slot with its first slot and is free again with its last: so the
 * space of a tier follows the formats that are in use, and nothing has to be moved. Blocks are
 * spread over the areas in turn, since areas are disks. What is free is derived from what is taken
 * and stored nowhere.
 *
 * The rate of an area is what came through while something was on its way, in windows of
 * TIER_WINDOW_NS, averaged over a few. A rate that nobody has measured for a while is worth less
 * than the peak was: what is expected doubles with each TIER_DOUBT_NS until it is the peak again,
 * so that a disk which was slow once is tried again. Each trial in vain doubles that time, so that
 * one which stays slow costs little, however seldom it is asked.
 *
 * Invariants: a segment with used < slot_count slots is in the list of its class and area; a free
 * one in the list of its area. The core's thread only.
 */
#include "kvd/core/tier.h"

#include <base/units.h>

#define TIER_SEGMENTS_MAX (1u << 18)
#define TIER_DEPTH 64u
#define TIER_WINDOW_NS (50 * UNITS_NS_PER_MS)
#define TIER_WINDOW_PARTS 256u /* of a segment: bytes that a window must have */
#define TIER_DOUBT_NS (30 * UNITS_NS_PER_S)
#define TIER_LETDOWNS_MAX 7u /* about an hour for each doubling */

/* --- sizes ---------------------------------------------------------------------------------- */

static uint64_t segment_bytes(const struct core_tier_config *c)
{
	return c->segment_bytes ? c->segment_bytes : 64 * UNITS_MIB;
}

const char *tier_wrong(const struct core_config *config)
{
	for (uint32_t t = 0; t < CORE_TIERS; t++) {
		const struct core_tier_config *c = &config->tiers[t];
		uint64_t segments = 0;
		if (c->area_count == 0)
			continue;
		if (c->area_count > KVD_AREAS_MAX)
			return "tier areas";
		for (uint32_t a = 0; a < c->area_count; a++)
			segments += c->area_segments[a];
		if (segments >= TIER_SEGMENTS_MAX || segments == 0)
			return "tier segments";
		if (segment_bytes(c) % config->page_align_bytes != 0 ||
		    segment_bytes(c) / config->page_align_bytes < 2 ||
		    segment_bytes(c) / config->page_align_bytes > 1u << 14)
			return "tier segment bytes";
		if (c->depth > 1024)
			return "tier depth";
	}
	return NULL;
}

/* Slots of a segment at most: a header and a page, both as small as can be. */
static uint32_t slots_max(const struct core *core, const struct tier *tier)
{
	return (uint32_t)(tier->segment_bytes / (2 * core->cfg.page_align_bytes));
}

void tier_sizes(struct core *core)
{
	for (uint32_t t = 0; t < CORE_TIERS; t++) {
		const struct core_tier_config *c = &core->cfg.tiers[t];
		struct tier *tier = &core->tiers[t];
		*tier = (struct tier){.segment_bytes = segment_bytes(c),
				      .depth = c->depth ? c->depth : TIER_DEPTH,
				      .area_count = c->area_count};
		tier->bitmap_words = (slots_max(core, tier) + 63) / 64;
		for (uint32_t a = 0; a < c->area_count; a++) {
			tier->areas[a].first_segment = tier->segment_count;
			tier->segment_count += c->area_segments[a];
			tier->areas[a].end_segment = tier->segment_count;
		}
		core->has_tiers |= c->area_count > 0;
		/* One each way, and those that are late may keep as many. */
		core->transfers_max += c->area_count > 0 ? 4 * tier->depth : 0;
	}
}

/* --- lists of segments ------------------------------------------------------------------------ */

static uint32_t area_of(const struct tier *tier, uint32_t segment)
{
	uint32_t a = 0;

	while (segment >= tier->areas[a].end_segment)
		a++;
	return a;
}

/* The list in which the segment stands if it has room. */
static uint32_t *list_of(struct tier *tier, uint32_t segment)
{
	uint32_t area = area_of(tier, segment);
	uint32_t class = tier->segments[segment].class;

	return class == CORE_NONE ? &tier->areas[area].free_segments
				  : &tier->classes[class].partial[area];
}

static void link_segment(struct tier *tier, uint32_t segment)
{
	struct segment *s = &tier->segments[segment];
	uint32_t *head = list_of(tier, segment);

	s->prev = CORE_NONE;
	s->next = *head;
	if (s->next != CORE_NONE)
		tier->segments[s->next].prev = segment;
	*head = segment;
}

static void unlink_segment(struct tier *tier, uint32_t segment)
{
	struct segment *s = &tier->segments[segment];

	if (s->prev != CORE_NONE)
		tier->segments[s->prev].next = s->next;
	else
		*list_of(tier, segment) = s->next;
	if (s->next != CORE_NONE)
		tier->segments[s->next].prev = s->prev;
}

void tier_init(struct core *core)
{
	for (uint32_t t = 0; t < CORE_TIERS; t++) {
		struct tier *tier = &core->tiers[t];
		tier->order = tier->queue = (struct rest_list){CORE_NONE, CORE_NONE, 0};
		for (uint32_t a = 0; a < tier->area_count; a++) {
			struct area *area = &tier->areas[a];
			area->free_segments = CORE_NONE;
			area->free_count = area->end_segment - area->first_segment;
			for (uint32_t s = area->end_segment; s-- > area->first_segment;) {
				tier->segments[s].class = CORE_NONE;
				link_segment(tier, s);
			}
		}
	}
}

/* --- slots ------------------------------------------------------------------------------------ */

uint64_t tier_slot_bytes(const struct core *core, const struct format *format)
{
	return core->cfg.page_align_bytes + format->block_bytes;
}

/* The class of that size, made if need be; CORE_NONE: there are too many, or none fits. */
static uint32_t class_of(const struct core *core, struct tier *tier, uint64_t slot_bytes)
{
	if (slot_bytes > tier->segment_bytes || slot_bytes < 2 * core->cfg.page_align_bytes)
		return CORE_NONE;
	for (uint32_t c = 0; c < tier->class_count; c++)
		if (tier->classes[c].slot_bytes == slot_bytes)
			return c;
	if (tier->class_count == CORE_SLOT_CLASSES)
		return CORE_NONE;
	struct slot_class *class = &tier->classes[tier->class_count];
	class->slot_bytes = slot_bytes;
	for (uint32_t a = 0; a < KVD_AREAS_MAX; a++)
		class->partial[a] = CORE_NONE;
	return tier->class_count++;
}

static void begin_segment(struct tier *tier, uint32_t segment, uint32_t class)
{
	struct segment *s = &tier->segments[segment];

	unlink_segment(tier, segment);
	tier->areas[area_of(tier, segment)].free_count--;
	*s = (struct segment){
		.class = class,
		.slot_count = (uint32_t)(tier->segment_bytes / tier->classes[class].slot_bytes)};
	link_segment(tier, segment);
}

static uint64_t *bitmap_of(const struct tier *tier, uint32_t segment)
{
	return tier->bitmaps + (size_t)segment * tier->bitmap_words;
}

/* Marks the slot as taken. */
static uint32_t take_in(struct tier *tier, uint32_t segment, uint32_t i)
{
	struct segment *s = &tier->segments[segment];
	struct area *area = &tier->areas[area_of(tier, segment)];

	bitmap_of(tier, segment)[i / 64] |= 1ull << (i % 64);
	if (++s->used == s->slot_count)
		unlink_segment(tier, segment);
	area->blocks++;
	area->used_bytes += tier->classes[s->class].slot_bytes;
	return segment * tier->bitmap_words * 64 + i;
}

static uint32_t take_any(struct tier *tier, uint32_t segment)
{
	struct segment *s = &tier->segments[segment];
	const uint64_t *words = bitmap_of(tier, segment);

	while (words[s->hint] == UINT64_MAX)
		s->hint = (s->hint + 1) % tier->bitmap_words;
	uint32_t i = s->hint * 64 + (uint32_t)__builtin_ctzll(~words[s->hint]);
	if (i < s->slot_count)
		return take_in(tier, segment, i);
	s->hint = 0;
	return take_any(tier, segment);
}

uint32_t tier_take(struct core *core, uint32_t t, uint64_t slot_bytes)
{
	struct tier *tier = &core->tiers[t];
	uint32_t class = class_of(core, tier, slot_bytes);

	for (uint32_t i = 0; i < tier->area_count && class != CORE_NONE; i++) {
		uint32_t a = (tier->next_area + i) % tier->area_count;
		struct area *area = &tier->areas[a];
		if (area->down)
			continue;
		if (tier->classes[class].partial[a] == CORE_NONE &&
		    area->free_segments != CORE_NONE)
			begin_segment(tier, area->free_segments, class);
		if (tier->classes[class].partial[a] == CORE_NONE)
			continue;
		tier->next_area = (a + 1) % tier->area_count;
		return take_any(tier, tier->classes[class].partial[a]);
	}
	return CORE_NONE;
}

uint32_t tier_take_at(struct core *core, const struct core_slot *slot)
{
	struct tier *tier = &core->tiers[slot->tier];

	if (slot->area >= tier->area_count)
		return CORE_NONE;
	const struct area *area = &tier->areas[slot->area];
	uint64_t in_area = slot->offset_bytes / tier->segment_bytes;
	uint64_t in_segment = slot->offset_bytes % tier->segment_bytes;
	if (in_area >= area->end_segment - area->first_segment || slot->bytes == 0 ||
	    in_segment % slot->bytes != 0 || in_segment + slot->bytes > tier->segment_bytes)
		return CORE_NONE;
	uint32_t segment = area->first_segment + (uint32_t)in_area;
	uint32_t i = (uint32_t)(in_segment / slot->bytes);
	uint32_t class = class_of(core, tier, slot->bytes);
	if (class == CORE_NONE)
		return CORE_NONE;
	if (tier->segments[segment].class == CORE_NONE)
		begin_segment(tier, segment, class);
	if (tier->segments[segment].class != class ||
	    (bitmap_of(tier, segment)[i / 64] >> (i % 64) & 1))
		return CORE_NONE;
	return take_in(tier, segment, i);
}

void tier_free(struct core *core, uint32_t t, uint32_t slot)
{
	struct tier *tier = &core->tiers[t];
	uint32_t segment = slot / (tier->bitmap_words * 64);
	uint32_t i = slot % (tier->bitmap_words * 64);
	struct segment *s = &tier->segments[segment];
	struct area *area = &tier->areas[area_of(tier, segment)];

	ASSERT(bitmap_of(tier, segment)[i / 64] >> (i % 64) & 1);
	bitmap_of(tier, segment)[i / 64] &= ~(1ull << (i % 64));
	area->blocks--;
	area->used_bytes -= tier->classes[s->class].slot_bytes;
	if (s->used-- == s->slot_count)
		link_segment(tier, segment);
	s->hint = i / 64;
	if (s->used > 0)
		return;
	unlink_segment(tier, segment);
	s->class = CORE_NONE;
	link_segment(tier, segment);
	area->free_count++;
}

void tier_slot(const struct core *core, uint32_t t, uint32_t slot, struct core_slot *out)
{
	const struct tier *tier = &core->tiers[t];
	uint32_t segment = slot / (tier->bitmap_words * 64);
	uint64_t bytes = tier->classes[tier->segments[segment].class].slot_bytes;
	uint32_t area = area_of(tier, segment);

	*out = (struct core_slot){
		.tier = t,
		.area = area,
		.offset_bytes = (segment - tier->areas[area].first_segment) * tier->segment_bytes +
				slot % (tier->bitmap_words * 64) * bytes,
		.bytes = bytes,
	};
}

struct area *tier_area(struct core *core, uint32_t t, uint32_t slot)
{
	struct tier *tier = &core->tiers[t];

	return &tier->areas[area_of(tier, slot / (tier->bitmap_words * 64))];
}

bool tier_down(const struct core *core, uint32_t t, uint32_t slot)
{
	const struct tier *tier = &core->tiers[t];

	return tier->areas[area_of(tier, slot / (tier->bitmap_words * 64))].down;
}

/* --- rates ------------------------------------------------------------------------------------ */

static void close_window(struct core *core, struct rate *rate)
{
	uint64_t ns = core->now_ns - rate->since_ns;
	uint64_t now =
		ns > 0 ? (uint64_t)((double)rate->bytes * (double)UNITS_NS_PER_S / (double)ns)
		       : rate->bytes_per_s;

	rate->bytes_per_s = rate->bytes_per_s ? (3 * rate->bytes_per_s + now) / 4 : now;
	rate->peak_bytes_per_s = BITS_MAX(rate->peak_bytes_per_s, now);
	rate->measured_ns = core->now_ns;
	rate->since_ns = core->now_ns;
	rate->bytes = 0;
}

void tier_begins(struct core *core, struct rate *rate)
{
	if (rate->moving++ == 0) {
		uint64_t expected = tier_expect(core, rate);
		rate->hoped_bytes_per_s = expected > rate->bytes_per_s ? expected : 0;
		rate->since_ns = core->now_ns;
		rate->bytes = 0;
	}
}

/* What was hoped for, did it come? */
static void judge(struct rate *rate)
{
	if (rate->hoped_bytes_per_s == 0)
		return;
	if (2 * rate->bytes_per_s >= rate->hoped_bytes_per_s)
		rate->letdowns = 0;
	else if (rate->letdowns < TIER_LETDOWNS_MAX)
		rate->letdowns++;
}

void tier_ended(struct core *core, const struct tier *tier, struct rate *rate, uint64_t bytes)
{
	rate->bytes += bytes;
	rate->moving--;
	if ((core->now_ns - rate->since_ns >= TIER_WINDOW_NS || rate->moving == 0) &&
	    rate->bytes >= tier->segment_bytes / TIER_WINDOW_PARTS) {
		close_window(core, rate);
		if (rate->moving == 0)
			judge(rate);
	}
}

uint64_t tier_expect(const struct core *core, const struct rate *rate)
{
	uint64_t doubts = (core->now_ns - rate->measured_ns) / (TIER_DOUBT_NS << rate->letdowns);
	uint64_t bytes = rate->bytes_per_s << BITS_MIN(doubts, (uint64_t)16);

	return BITS_MIN(bytes, rate->peak_bytes_per_s);
}
