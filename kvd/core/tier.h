/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier.h: the space of a tier: areas, segments, slots, and how fast they are. A slot is named by
 * one number: its segment, and its place in the segment's bitmap.
 */
#ifndef KVD_CORE_TIER_H
#define KVD_CORE_TIER_H

#include "kvd/core/machine.h"

/* The limit that makes the tiers impossible, or NULL. */
const char *tier_wrong(const struct core_config *config);
/* Fills in what sizes follow from; the arrays come later. */
void tier_sizes(struct core *core);
/* All segments are free. */
void tier_init(struct core *core);

static inline bool tier_there(const struct core *core, uint32_t tier)
{
	return core->tiers[tier].area_count > 0;
}

/* Bytes of a slot for a block of the format: header and parts. */
uint64_t tier_slot_bytes(const struct core *core, const struct format *format);
/*
 * Takes a free slot, in an area that is not down. CORE_NONE: there is none; something of the tier
 * must go first.
 */
uint32_t tier_take(struct core *core, uint32_t tier, uint64_t slot_bytes);
/* Takes the very slot that lies there. CORE_NONE: it cannot be one, or is taken. */
uint32_t tier_take_at(struct core *core, const struct core_slot *slot);
void tier_free(struct core *core, uint32_t tier, uint32_t slot);
/* Fills all but the generation. */
void tier_slot(const struct core *core, uint32_t tier, uint32_t slot, struct core_slot *out);
struct area *tier_area(struct core *core, uint32_t tier, uint32_t slot);
bool tier_down(const struct core *core, uint32_t tier, uint32_t slot);

/* One more transfer, or one less and what it moved, for the rates. */
void tier_begins(struct core *core, struct rate *rate);
void tier_ended(struct core *core, const struct tier *tier, struct rate *rate, uint64_t bytes);
/* What to expect of it now; 0: it was never measured. */
uint64_t tier_expect(const struct core *core, const struct rate *rate);

#endif
