/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of legal transitions of a page record, and the one function that changes a state.
 *
 * Invariants: a page's state changes here and nowhere else; pages_by_state and bytes_by_state are
 * the sums over all pages that a live slab covers. The core's thread only.
 */
#include "kvd/core/state.h"

#include "kvd/core/machine.h"

static const struct state_row rows[] = {
	{KVD_PAGE_FREE, STATE_TAKE, KVD_PAGE_OPEN, "free-take-open"},
	{KVD_PAGE_FREE, STATE_TOPUP, KVD_PAGE_OPEN, "free-topup-open"},
	{KVD_PAGE_OPEN, STATE_BIND, KVD_PAGE_OPEN, "open-bind-open"},
	{KVD_PAGE_OPEN, STATE_PUBLISH, KVD_PAGE_SEALED, "open-publish-sealed"},
	{KVD_PAGE_OPEN, STATE_KEEP, KVD_PAGE_SEALED, "open-keep-sealed"},
	{KVD_PAGE_OPEN, STATE_KEEP_TAIL, KVD_PAGE_SEALED, "open-keep_tail-sealed"},
	{KVD_PAGE_OPEN, STATE_RELEASE, KVD_PAGE_FREE, "open-release-free"},
	{KVD_PAGE_OPEN, STATE_RETURN, KVD_PAGE_FREE, "open-return-free"},
	{KVD_PAGE_OPEN, STATE_BREAK, KVD_PAGE_QUARANTINE, "open-break-quarantine"},
	{KVD_PAGE_SEALED, STATE_EVICT, KVD_PAGE_FREE, "sealed-evict-free"},
	{KVD_PAGE_SEALED, STATE_DROP, KVD_PAGE_FREE, "sealed-drop-free"},
	{KVD_PAGE_QUARANTINE, STATE_PROVEN, KVD_PAGE_FREE, "quarantine-proven-free"},
	{KVD_PAGE_QUARANTINE, STATE_QUIESCED, KVD_PAGE_FREE, "quarantine-quiesced-free"},
	{KVD_PAGE_SEALED, STATE_DEMOTE, KVD_PAGE_FREE, "sealed-demote-free"},
	{KVD_PAGE_FREE, STATE_LOAD, KVD_PAGE_FILLING, "free-load-filling"},
	{KVD_PAGE_FILLING, STATE_LOADED, KVD_PAGE_SEALED, "filling-loaded-sealed"},
	{KVD_PAGE_FILLING, STATE_LOAD_FAILED, KVD_PAGE_FREE, "filling-load_failed-free"},
	{KVD_PAGE_FILLING, STATE_LOAD_USELESS, KVD_PAGE_FREE, "filling-load_useless-free"},
};
static_assert(ARRAY_LEN(rows) <= CORE_STATE_ROWS_MAX, "state rows");

uint32_t state_row_count(void)
{
	return ARRAY_LEN(rows);
}

const char *state_row_name(uint32_t row)
{
	return row < ARRAY_LEN(rows) ? rows[row].name : "?";
}

uint64_t state_row_hits(const struct core *core, uint32_t row)
{
	return row < ARRAY_LEN(rows) ? core->state_hits[row] : 0;
}

static uint32_t find_row(uint8_t from, enum state_event event)
{
	uint32_t row = 0;

	while (row < ARRAY_LEN(rows) && (rows[row].from != from || rows[row].event != event))
		row++;
	ASSERT(row < ARRAY_LEN(rows));
	return row;
}

void state_change(struct core *core, uint32_t page, enum state_event event)
{
	struct page *p = &core->pages[page];
	uint32_t row = find_row(p->state, event);
	uint64_t bytes = machine_stride(core, page);

	core->state_hits[row]++;
	core->pages_by_state[p->state]--;
	core->bytes_by_state[p->state] -= bytes;
	p->state = (uint8_t)rows[row].to;
	core->pages_by_state[p->state]++;
	core->bytes_by_state[p->state] += bytes;
}
