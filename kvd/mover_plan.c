/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the bytes of a transfer lie on their way, and in which steps they go it. There is one place
 * in host memory for the block:
 *
 *   its slot in the DRAM tier, if that is where it goes to or comes from;
 *   the pages themselves, if they are host memory: files are read and written straight there;
 *   else staging memory, because a GPU's pages, and a block that is only verified, have no other.
 *
 * Then the steps follow from what is stored or loaded. A block is checked before it goes on to
 * pages or to another slot, and again under its new header when that is read. No copy crosses a
 * border between two pieces of pinned memory: a slot lies within its segment, and segments, powers
 * of two, do not cross such borders either.
 *
 * All numbers come from the core, which has checked what others said: here they are asserted.
 */
#include "base/assert.h"
#include "kvd/mover_inside.h"
#include <errno.h>

static bool mover_plan_from_slot(const struct core_transfer *w)
{
	return w->kind == CORE_TRANSFER_STORE && w->from_slot.generation != 0;
}

static bool mover_plan_reads(const struct core_transfer *w)
{
	return w->kind != CORE_TRANSFER_STORE || w->from_slot.generation != 0;
}

const struct core_slot *mover_plan_source(const struct mover_transfer *t)
{
	return mover_plan_from_slot(&t->what) ? &t->what.from_slot : &t->what.slot;
}

void mover_plan_lay(struct mover_transfer *t, uint8_t *memory)
{
	uint8_t *at = memory + FILE_HEADER_BYTES;

	t->header = t->found = memory;
	for (uint32_t i = 0; i < t->what.part_count; i++) {
		t->parts[i] = at;
		at += t->what.part_bytes[i];
	}
}

static void mover_plan_check_slot(const struct mover_transfer *t, const struct core_slot *slot)
{
	const struct mover_config *c = &t->mover->config;
	uint64_t bytes = FILE_HEADER_BYTES;

	for (uint32_t i = 0; i < t->what.part_count; i++)
		bytes += t->what.part_bytes[i];
	ASSERT((uint32_t)slot->tier < CORE_TIERS);
	ASSERT(bytes <= slot->bytes && slot->offset_bytes % FILE_HEADER_BYTES == 0);
	if (slot->tier == CORE_TIER_FILE)
		ASSERT(slot->area < c->file_count);
	else
		ASSERT(slot->area == 0 && slot->offset_bytes <= c->dram_bytes &&
		       slot->bytes <= c->dram_bytes - slot->offset_bytes);
}

/* Where the pages are; their slabs are held from here on. */
static void mover_plan_pages(struct mover_transfer *t)
{
	t->has_pages = true;
	for (uint32_t i = 0; i < t->what.part_count; i++)
		devmem_page(t->mover->config.devmem, t->what.pages[i], &t->devices[i],
			    &t->addresses[i]);
	t->copies_left = (1u << t->what.part_count) - 1;
}

static void mover_plan_in_pages(struct mover_transfer *t)
{
	t->header = t->found = t->own_header;
	for (uint32_t i = 0; i < t->what.part_count; i++)
		t->parts[i] = (void *)(uintptr_t)t->addresses[i];
}

/* From the DRAM tier to a file: the header there is checked and stays, the file gets its own. */
static void mover_plan_in_dram(struct mover_transfer *t, const struct core_slot *slot)
{
	mover_plan_lay(t, (uint8_t *)t->mover->config.dram + slot->offset_bytes);
	if (slot == &t->what.from_slot)
		t->header = t->own_header;
}

static void mover_plan_step(struct mover_transfer *t, bool wanted, enum mover_step step)
{
	if (!wanted)
		return;
	ASSERT(t->at + 1 < MOVER_STEPS_MAX);
	t->steps[t->at++] = (uint8_t)step;
}

int mover_plan(struct mover_transfer *t)
{
	const struct core_transfer *w = &t->what;
	const struct core_slot *source = mover_plan_source(t);
	bool store = w->kind == CORE_TRANSFER_STORE, reads = mover_plan_reads(w);
	bool pages = w->kind == CORE_TRANSFER_LOAD || (store && !reads);
	bool gpu = t->mover->gpu;
	bool dram = w->slot.tier == CORE_TIER_DRAM || source->tier == CORE_TIER_DRAM;
	bool stage = !dram && (gpu || !pages);
	enum mover_step copy = gpu ? MOVER_LANE : MOVER_COPY;

	ASSERT(w->part_count > 0 && w->part_count <= KVD_PARTS_MAX);
	mover_plan_check_slot(t, &w->slot);
	mover_plan_check_slot(t, source);
	if (pages)
		mover_plan_pages(t);
	if (dram)
		mover_plan_in_dram(t, w->slot.tier == CORE_TIER_DRAM ? &w->slot : source);
	else if (!stage)
		mover_plan_in_pages(t);
	else if (w->slot.bytes > t->mover->stage_bytes)
		return -EFBIG;
	mover_plan_step(t, stage, MOVER_STAGE);
	mover_plan_step(t, reads && source->tier == CORE_TIER_FILE, MOVER_READ);
	mover_plan_step(t, pages && store && (dram || gpu), copy);
	mover_plan_step(t, reads, MOVER_CHECK);
	mover_plan_step(t, store, MOVER_FILL);
	mover_plan_step(t, store && w->slot.tier == CORE_TIER_FILE, MOVER_WRITE);
	mover_plan_step(t, pages && !store && (dram || gpu), copy);
	t->at = 0;
	return 0;
}
