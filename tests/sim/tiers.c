/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tiers.c: transfers, as a slow and sometimes failing shell carries them out, and slots in the
 * small.
 *
 * An area is a row of cells. A slot is a header, with the sum of what follows, and the parts, as
 * the real one has it: whoever reads a slot compares key, identity, generation and sum, and what he
 * brings are the bytes that are there. So a slot that was given away too early, or a record that
 * means another block, shows as a block that is refused, and if the core takes it all the same, as
 * wrong bytes in a client's page.
 *
 * Nothing may be written that somebody else reads or writes: a slot or a page belongs to the
 * transfers that are under way, late ones too, until they are done.
 */
#include "tests/sim/tiers.h"

#include "tests/sim/coverage.h"
#include "tests/sim/memory.h"
#include "tests/sim/orders.h"
#include "tests/sim/report.h"

#include <base/bits.h>
#include <errno.h>
#include <string.h>

#define TIERS_SLOT_CELLS 8u
#define TIERS_TORN 0x746f726eu

/* A slot's bytes, or what shall be there. */
struct tiers_image {
	uint32_t count;
	struct sim_cell cell[TIERS_SLOT_CELLS];
};

static_assert(sizeof(struct sim_header) <= sizeof(struct sim_cell), "a header is a cell at most");

static struct sim_area *tiers_area(struct sim *sim, const struct core_slot *slot)
{
	return &sim->area[slot->tier][slot->area];
}

static uint32_t tiers_first(const struct core_slot *slot)
{
	return (uint32_t)(slot->offset_bytes / TIERS_CELL_BYTES);
}

static uint32_t tiers_count(const struct core_slot *slot)
{
	return (uint32_t)(slot->bytes / TIERS_CELL_BYTES);
}

void tiers_init(struct sim *sim)
{
	static const uint8_t slowness[] = {1, 1, 3, 10};

	for (uint32_t t = 0; t < CORE_TIERS; t++)
		for (uint32_t a = 0; a < sim->config.tiers[t].area_count; a++) {
			const struct core_tier_config *c = &sim->config.tiers[t];
			sim->area[t][a].there = true;
			sim->area[t][a].cells = (uint32_t)(c->area_segments[a] * c->segment_bytes /
							   TIERS_CELL_BYTES);
			sim->area[t][a].slowness = slowness[random_below(&sim->depths, 4)];
		}
}

/* --- bytes ---------------------------------------------------------------------------------- */

static uint64_t tiers_sum(const struct sim_cell *cells, uint32_t count)
{
	uint64_t sum = count;

	for (uint32_t i = 0; i < count; i++)
		for (uint32_t w = 0; w < SIM_CELL_WORDS; w++)
			sum = (sum ^ cells[i].word[w]) * 0x100000001b3ull;
	return random_mix(sum);
}

/* A part fills its first cell; what is left of a longer one follows from that. */
static void tiers_image_pages(const struct sim *sim, const struct core_transfer *order,
			      struct tiers_image *out)
{
	*out = (struct tiers_image){.count = 1};
	for (uint32_t part = 0; part < order->part_count; part++) {
		struct sim_cell *cell = &out->cell[out->count];
		uint32_t cells = (uint32_t)(order->part_bytes[part] / TIERS_CELL_BYTES);
		memcpy(cell->word, sim->page[order->pages[part]].token, sizeof(cell->word));
		for (uint32_t i = 1; i < cells; i++)
			cell[i].word[0] = (uint32_t)tiers_sum(cell, 1) + i;
		out->count += cells;
	}
}

static void tiers_image_head(const struct sim *sim, const struct core_transfer *order,
			     struct tiers_image *image)
{
	struct sim_header header = {
		.generation = order->slot.generation,
		.sum = tiers_sum(image->cell + 1, image->count - 1),
		.life = sim->life,
	};

	memcpy(header.key, order->key, sizeof(header.key));
	memcpy(header.identity, order->identity, sizeof(header.identity));
	memset(&image->cell[0], 0, sizeof(image->cell[0]));
	memcpy(image->cell[0].word, &header, sizeof(header));
}

static void tiers_read(struct sim *sim, const struct core_slot *slot, struct tiers_image *out,
		       struct sim_header *out_header)
{
	out->count = tiers_count(slot);
	memcpy(out->cell, &tiers_area(sim, slot)->cell[tiers_first(slot)],
	       out->count * sizeof(out->cell[0]));
	memcpy(out_header, out->cell[0].word, sizeof(*out_header));
}

/* What every read of a slot compares. */
static bool tiers_right(const struct core_transfer *order, const struct core_slot *slot,
			const struct tiers_image *image, const struct sim_header *header)
{
	return header->generation == slot->generation &&
	       memcmp(header->key, order->key, sizeof(header->key)) == 0 &&
	       memcmp(header->identity, order->identity, sizeof(header->identity)) == 0 &&
	       header->sum == tiers_sum(image->cell + 1, image->count - 1);
}

/* Writes the cells [from, end) of the slot. */
static void tiers_write(struct sim *sim, const struct core_slot *slot,
			const struct tiers_image *image, uint32_t from, uint32_t end)
{
	struct sim_area *area = tiers_area(sim, slot);

	for (uint32_t i = from; i < end; i++)
		area->cell[tiers_first(slot) + i] = image->cell[i];
}

/* All, the first or the last part, or nothing: whatever was on its way. */
static void tiers_write_some(struct sim *sim, const struct core_slot *slot,
			     const struct tiers_image *image)
{
	uint32_t cut = random_range(&sim->depths, 1, image->count - 1);

	switch (random_below(&sim->depths, 4)) {
	case 0:
		tiers_write(sim, slot, image, 0, image->count);
		break;
	case 1:
		tiers_write(sim, slot, image, 0, cut);
		break;
	case 2:
		tiers_write(sim, slot, image, cut, image->count);
		break;
	default:
		break;
	}
}

/* --- what an order may ask ------------------------------------------------------------------ */

static bool tiers_pages(const struct core_transfer *order)
{
	return order->kind == CORE_TRANSFER_LOAD ||
	       (order->kind == CORE_TRANSFER_STORE && !order->from_slot.generation);
}

static bool tiers_has_page(const struct core_transfer *order, uint32_t page)
{
	for (uint32_t part = 0; part < order->part_count && tiers_pages(order); part++)
		if (order->pages[part] == page)
			return true;
	return false;
}

void tiers_require_apart(struct sim *sim, uint32_t page, bool written)
{
	for (uint32_t i = 0; i < SIM_TRANSFERS_MAX && sim->has_tiers; i++) {
		const struct sim_transfer *t = &sim->transfer[i];
		if (!t->used || (written && t->order.kind != CORE_TRANSFER_LOAD))
			continue;
		REPORT_REQUIRE(sim, !tiers_has_page(&t->order, page),
			       "page %u is given away while transfer %u uses it", page, i);
	}
}

static bool tiers_overlap(const struct core_slot *a, const struct core_slot *b)
{
	return a->generation && b->generation && a->tier == b->tier && a->area == b->area &&
	       a->offset_bytes < b->offset_bytes + b->bytes &&
	       b->offset_bytes < a->offset_bytes + a->bytes;
}

static void tiers_require_alone(struct sim *sim, const struct core_transfer *order)
{
	bool writes = order->kind == CORE_TRANSFER_STORE;

	for (uint32_t i = 0; i < SIM_TRANSFERS_MAX; i++) {
		const struct core_transfer *other = &sim->transfer[i].order;
		if (!sim->transfer[i].used)
			continue;
		bool too = other->kind == CORE_TRANSFER_STORE;
		bool clash = (writes || too) && tiers_overlap(&order->slot, &other->slot);
		clash |= too && tiers_overlap(&order->from_slot, &other->slot);
		clash |= writes && tiers_overlap(&order->slot, &other->from_slot);
		REPORT_REQUIRE(sim, !clash, "transfers %u and %u use the same slot", order->id, i);
	}
}

static void tiers_require_slot(struct sim *sim, const struct core_transfer *order,
			       const struct core_slot *slot)
{
	REPORT_REQUIRE(sim,
		       slot->tier < CORE_TIERS &&
			       slot->area < sim->config.tiers[slot->tier].area_count,
		       "a slot in area %u of tier %u", slot->area, slot->tier);
	const struct sim_area *area = tiers_area(sim, slot);
	uint64_t segment = sim->config.tiers[slot->tier].segment_bytes;
	uint64_t bytes = TIERS_CELL_BYTES;
	for (uint32_t part = 0; part < order->part_count; part++)
		bytes += order->part_bytes[part];
	REPORT_REQUIRE(sim,
		       slot->offset_bytes % TIERS_CELL_BYTES == 0 && slot->bytes == bytes &&
			       tiers_first(slot) + tiers_count(slot) <= area->cells &&
			       slot->offset_bytes % segment + slot->bytes <= segment,
		       "a slot of %u bytes at %u of area %u", (uint32_t)slot->bytes,
		       (uint32_t)slot->offset_bytes, slot->area);
	REPORT_REQUIRE(sim, slot->generation != 0, "a slot of generation 0");
	REPORT_REQUIRE(sim, !area->down, "a transfer in area %u of tier %u, which is down",
		       slot->area, slot->tier);
}

/* As many as the configuration allows, those that are late not counted. */
static void tiers_require_depth(struct sim *sim, const struct core_transfer *order)
{
	bool stores = order->kind == CORE_TRANSFER_STORE;
	uint32_t count = 1;

	for (uint32_t i = 0; i < SIM_TRANSFERS_MAX; i++) {
		const struct sim_transfer *t = &sim->transfer[i];
		count += t->used && !t->late && t->order.slot.tier == order->slot.tier &&
			 (t->order.kind == CORE_TRANSFER_STORE) == stores;
	}
	REPORT_REQUIRE(sim, count <= sim->config.tiers[order->slot.tier].depth,
		       "%u transfers in tier %u", count, order->slot.tier);
}

static void tiers_require_kept(struct sim *sim, const struct core_slot *slot)
{
	REPORT_REQUIRE(sim, tiers_area(sim, slot)->lost[tiers_first(slot)] != slot->generation,
		       "a slot is read again of which it is known that it is lost");
}

static void tiers_require_load(struct sim *sim, const struct core_transfer *order)
{
	tiers_require_kept(sim, &order->slot);
	for (uint32_t part = 0; part < order->part_count && order->kind == CORE_TRANSFER_LOAD;
	     part++) {
		uint32_t page = order->pages[part];
		REPORT_REQUIRE(sim, page < SIM_PAGES_MAX, "page %u is loaded", page);
		const struct sim_slab *slab = orders_of(sim, page);
		REPORT_REQUIRE(sim,
			       slab && slab->live && !slab->retiring &&
				       slab->make.stride_bytes == order->part_bytes[part],
			       "page %u is loaded, its slab is not live", page);
		memory_require_idle(sim, page);
	}
}

static void tiers_require_store(struct sim *sim, const struct core_transfer *order)
{
	REPORT_REQUIRE(sim, order->slot.generation > sim->generation,
		       "a slot is stored with generation %u after %u",
		       (uint32_t)order->slot.generation, (uint32_t)sim->generation);
	sim->generation = order->slot.generation;
	if (order->from_slot.generation) {
		tiers_require_slot(sim, order, &order->from_slot);
		tiers_require_kept(sim, &order->from_slot);
		coverage_count("store, of another tier");
		return;
	}
	for (uint32_t part = 0; part < order->part_count; part++) {
		uint32_t page = order->pages[part];
		REPORT_REQUIRE(sim, page < SIM_PAGES_MAX && orders_of(sim, page),
			       "page %u is stored", page);
		memory_require_unwritten(sim, page);
	}
}

/* --- orders --------------------------------------------------------------------------------- */

static uint64_t tiers_pages_sum(const struct sim *sim, const struct core_transfer *order)
{
	struct tiers_image image;

	if (!tiers_pages(order))
		return 0;
	tiers_image_pages(sim, order, &image);
	return tiers_sum(image.cell + 1, image.count - 1);
}

/* Whoever looks at a page before it is loaded finds something else than what he wants. */
static void tiers_spoil(struct sim *sim, const struct core_transfer *order)
{
	for (uint32_t part = 0; part < order->part_count; part++)
		for (uint32_t i = 0; i < SIM_CELL_WORDS; i++)
			sim->page[order->pages[part]].token[i] = TIERS_TORN;
}

void tiers_transfer(struct sim *sim, const struct core_transfer *order)
{
	static const uint16_t delays_us[] = {0, 100, 500, 1000, 1000, 3000, 10000, 30000};
	static const char *const names[] = {"store", "load", "verify"};

	report_trace(
		sim, "  transfer %u: %s tier %u area %u at %u, generation %u, page %u, from %u",
		order->id, names[order->kind], order->slot.tier, order->slot.area,
		(uint32_t)order->slot.offset_bytes, (uint32_t)order->slot.generation,
		order->part_count ? order->pages[0] : 0, (uint32_t)order->from_slot.generation);
	REPORT_REQUIRE(sim, order->id < SIM_TRANSFERS_MAX && !sim->transfer[order->id].used,
		       "transfer %u is under way already", order->id);
	tiers_require_slot(sim, order, &order->slot);
	tiers_require_depth(sim, order);
	tiers_require_alone(sim, order);
	if (order->kind == CORE_TRANSFER_STORE)
		tiers_require_store(sim, order);
	else
		tiers_require_load(sim, order);
	struct sim_transfer *t = &sim->transfer[order->id];
	*t = (struct sim_transfer){.used = true, .order = *order, .begun_ns = sim->now_ns};
	uint64_t slowness = tiers_area(sim, &order->slot)->slowness;
	t->due_ns = sim->now_ns + delays_us[random_below(&sim->depths, 8)] * 1000ull * slowness;
	if (random_percent(&sim->depths, sim->hangs_percent))
		t->due_ns += random_range(&sim->depths, 100, 5000) * 1000000ull;
	t->sum = tiers_pages_sum(sim, order);
	if (order->kind == CORE_TRANSFER_LOAD)
		tiers_spoil(sim, order);
}

/* --- the end of a transfer ------------------------------------------------------------------- */

static int tiers_luck(struct sim *sim, const struct core_transfer *order, bool late)
{
	static const int errors[] = {-EIO, -ETIMEDOUT, -EIO, -ENOSPC};
	bool stores = order->kind == CORE_TRANSFER_STORE;
	bool down = tiers_area(sim, &order->slot)->down;
	uint32_t percent = down ? 70 : late ? 10 + sim->fails_percent : sim->fails_percent;

	if (!random_percent(&sim->depths, percent))
		return 0;
	return errors[random_below(&sim->depths, stores ? 4 : 2)];
}

/* What the store would write. False: the slot that it reads is not what it should be. */
static bool tiers_image(struct sim *sim, const struct sim_transfer *t, struct tiers_image *out)
{
	const struct core_transfer *order = &t->order;
	struct sim_header header;
	bool right = true;

	if (order->from_slot.generation) {
		tiers_read(sim, &order->from_slot, out, &header);
		right = tiers_right(order, &order->from_slot, out, &header);
	} else {
		REPORT_REQUIRE(sim, tiers_pages_sum(sim, order) == t->sum,
			       "transfer %u stores a page that changes meanwhile", order->id);
		tiers_image_pages(sim, order, out);
	}
	tiers_image_head(sim, order, out);
	return right;
}

/* The core is told that what it holds is lost. */
static void tiers_lose(struct sim *sim, const struct core_slot *slot)
{
	tiers_area(sim, slot)->lost[tiers_first(slot)] = slot->generation;
}

static int tiers_store(struct sim *sim, const struct sim_transfer *t)
{
	int result = tiers_luck(sim, &t->order, t->late);
	struct tiers_image image;

	if (!tiers_image(sim, t, &image)) {
		tiers_lose(sim, &t->order.from_slot);
		return -EBADMSG;
	}
	if (result == 0 && random_below(&sim->depths, 1000) >= sim->rots_permille)
		tiers_write(sim, &t->order.slot, &image, 0, image.count);
	else
		tiers_write_some(sim, &t->order.slot, &image);
	return result;
}

/* The pages of the load get what is in the slot, right or wrong. */
static void tiers_fill(struct sim *sim, const struct core_transfer *order,
		       const struct tiers_image *image)
{
	uint32_t at = 1;

	for (uint32_t part = 0; part < order->part_count; part++) {
		memcpy(sim->page[order->pages[part]].token, image->cell[at].word,
		       sizeof(image->cell[at].word));
		at += (uint32_t)(order->part_bytes[part] / TIERS_CELL_BYTES);
	}
}

static int tiers_load(struct sim *sim, const struct sim_transfer *t)
{
	const struct core_transfer *order = &t->order;
	int result = tiers_luck(sim, order, t->late);
	struct tiers_image image;
	struct sim_header header;

	tiers_read(sim, &order->slot, &image, &header);
	if (result == 0 && order->kind == CORE_TRANSFER_LOAD)
		tiers_fill(sim, order, &image);
	if (result == 0 && !tiers_right(order, &order->slot, &image, &header))
		result = -EBADMSG;
	if (result < 0 && result != -ETIMEDOUT)
		tiers_lose(sim, &order->slot);
	if (result == 0 && order->kind == CORE_TRANSFER_LOAD && header.life < sim->life)
		coverage_count("load, of an earlier life");
	return result;
}

static void tiers_count_verify(struct sim *sim, const struct sim_transfer *t, int result)
{
	if (t->order.kind != CORE_TRANSFER_VERIFY || t->late)
		return;
	sim->verify.blocks++;
	sim->verify.bytes += t->order.slot.bytes;
	sim->verify.bad += result == -EBADMSG;
	sim->verify.failed += result < 0 && result != -EBADMSG;
}

static void tiers_cover(const struct sim_transfer *t, int result)
{
	static const char *const words[3][4] = {
		{"store", "store, failed", "store, late", "store, late and failed"},
		{"load", "load, failed", "load, late", "load, late and failed"},
		{"verify", "verify, failed", "verify, late", "verify, late and failed"},
	};

	coverage_count(words[t->order.kind][2 * t->late + (result < 0)]);
	if (result == -EBADMSG)
		coverage_count(t->order.kind == CORE_TRANSFER_STORE  ? "store, of a bad slot"
			       : t->order.kind == CORE_TRANSFER_LOAD ? "load, of a bad slot"
								     : "verify, of a bad slot");
}

static void tiers_finish(struct sim *sim, uint32_t id)
{
	struct sim_transfer *t = &sim->transfer[id];
	int result =
		t->order.kind == CORE_TRANSFER_STORE ? tiers_store(sim, t) : tiers_load(sim, t);

	report_trace(sim, "transfer %u done: %d%s", id, result, t->late ? ", late" : "");
	tiers_count_verify(sim, t, result);
	tiers_cover(t, result);
	sim->failed |= result < 0;
	t->used = false;
	sim->moving = true;
	core_transfer_done(sim->core, id, result, sim->now_ns);
	sim->moving = false;
}

static void tiers_late(struct sim *sim, uint32_t id)
{
	struct sim_transfer *t = &sim->transfer[id];

	report_trace(sim, "transfer %u is late", id);
	tiers_count_verify(sim, t, -ETIMEDOUT);
	t->late = true;
	sim->moving = true;
	core_transfer_late(sim->core, id, sim->now_ns);
	sim->moving = false;
}

void tiers_progress(struct sim *sim, bool all)
{
	uint32_t first = sim->has_tiers ? random_below(&sim->depths, SIM_TRANSFERS_MAX) : 0;

	for (uint32_t i = 0; i < SIM_TRANSFERS_MAX && sim->has_tiers; i++) {
		uint32_t id = (first + i) % SIM_TRANSFERS_MAX;
		const struct sim_transfer *t = &sim->transfer[id];
		if (!t->used)
			continue;
		if (!t->late && sim->now_ns - t->begun_ns >= sim->patience_ns &&
		    t->due_ns > sim->now_ns)
			tiers_late(sim, id);
		if (all || t->due_ns <= sim->now_ns)
			tiers_finish(sim, id);
	}
}

void tiers_settle(struct sim *sim)
{
	uint32_t hangs = sim->storm ? 100 : random_percent(&sim->depths, 50) ? 60 : 0;

	for (uint32_t id = 0; id < SIM_TRANSFERS_MAX; id++) {
		const struct sim_transfer *t = &sim->transfer[id];
		if (!t->used || t->late)
			continue;
		if (random_percent(&sim->depths, hangs))
			tiers_late(sim, id);
		else
			tiers_finish(sim, id);
	}
}

bool tiers_pending(const struct sim *sim, bool late)
{
	for (uint32_t i = 0; i < SIM_TRANSFERS_MAX && sim->has_tiers; i++)
		if (sim->transfer[i].used && (late || !sim->transfer[i].late))
			return true;
	return false;
}

/* --- weather -------------------------------------------------------------------------------- */

static struct sim_area *tiers_some_area(struct sim *sim, uint32_t *out_tier, uint32_t *out_area)
{
	const struct core_tier_config *tiers = sim->config.tiers;
	bool dram = tiers[CORE_TIER_DRAM].area_count > 0;

	if (dram && tiers[CORE_TIER_FILE].area_count > 0)
		dram = random_percent(&sim->depths, 50);
	*out_tier = dram ? CORE_TIER_DRAM : CORE_TIER_FILE;
	*out_area = random_below(&sim->depths, tiers[*out_tier].area_count);
	return &sim->area[*out_tier][*out_area];
}

static void tiers_rot(struct sim *sim)
{
	uint32_t tier;
	uint32_t number;
	struct sim_area *area = tiers_some_area(sim, &tier, &number);
	uint32_t cell = random_below(&sim->depths, area->cells);
	area->cell[cell].word[random_below(&sim->depths, SIM_CELL_WORDS)] ^=
		1u << random_below(&sim->depths, 32);
	report_trace(sim, "tier %u area %u: cell %u rots", tier, number, cell);
}

static void tiers_area_down(struct sim *sim, uint32_t tier, uint32_t area, bool down)
{
	report_trace(sim, "tier %u area %u goes %s", tier, area, down ? "down" : "up");
	coverage_count(down ? "area, down" : "area, up");
	sim->area[tier][area].down = down;
	core_area_down(sim->core, (enum core_tier_kind)tier, area, down);
}

void tiers_weather(struct sim *sim)
{
	uint32_t tier;
	uint32_t number;

	if (!sim->has_tiers)
		return;
	if (random_below(&sim->depths, 1000) < sim->rots_permille)
		tiers_rot(sim);
	if (!random_percent(&sim->depths, 3))
		return;
	const struct sim_area *area = tiers_some_area(sim, &tier, &number);
	if (area->down || random_percent(&sim->depths, 20))
		tiers_area_down(sim, tier, number, !area->down);
}

void tiers_mend(struct sim *sim)
{
	for (uint32_t t = 0; t < CORE_TIERS; t++)
		for (uint32_t a = 0; a < SIM_AREAS_MAX; a++)
			if (sim->area[t][a].there && sim->area[t][a].down)
				tiers_area_down(sim, t, a, false);
}

/* --- death ---------------------------------------------------------------------------------- */

void tiers_die(struct sim *sim, bool power)
{
	struct tiers_image image;

	for (uint32_t i = 0; i < SIM_TRANSFERS_MAX; i++) {
		struct sim_transfer *t = &sim->transfer[i];
		if (t->used && t->order.kind == CORE_TRANSFER_STORE && tiers_image(sim, t, &image))
			tiers_write_some(sim, &t->order.slot, &image);
		t->used = false;
	}
	for (uint32_t i = 0; i < 8 && power; i++)
		tiers_rot(sim);
	for (uint32_t a = 0; a < SIM_AREAS_MAX; a++) {
		struct sim_area *dram = &sim->area[CORE_TIER_DRAM][a];
		memset(dram->cell, 0, sizeof(dram->cell));
		memset(dram->lost, 0, sizeof(dram->lost));
		memset(sim->area[CORE_TIER_FILE][a].lost, 0, sizeof(dram->lost));
		dram->down = sim->area[CORE_TIER_FILE][a].down = false;
	}
	sim->generation = 0;
	sim->failed = false;
}

void tiers_lose_disk(struct sim *sim, uint32_t area)
{
	struct sim_area *file = &sim->area[CORE_TIER_FILE][area];

	memset(file->cell, 0, sizeof(file->cell));
}
