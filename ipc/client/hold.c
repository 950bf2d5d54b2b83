/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hold.c: the table of blocks behind one lease.
 *
 * A block's kind decides which of the two views its addresses come from: own and open means the
 * writable one, everything else the read-only one. Kinds only go forward:
 *
 *   UNKNOWN -> SHARED | OPEN      handles came
 *   OPEN, BOUND -> SEALED         the caller said that it is complete
 *
 * The address table is part-major, so that a kernel gets one plain array a part.
 */
#include "ipc/client/hold.h"
#include "ipc/client/request.h"
#include "ipc/client/slabs.h"
#include <base/assert.h>
#include <base/atomic.h>
#include <base/bits.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct kvd_lease *hold_new(struct kvd *k, struct format *format, void *user)
{
	struct kvd_lease *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->k = k;
	l->format = format;
	l->user = user;
	list_push_back(&k->leases, &l->link);
	return l;
}

static bool hold_writes(const struct kvd_lease *l, uint32_t b)
{
	return l->blocks[b] == HOLD_OPEN || l->blocks[b] == HOLD_BOUND;
}

static void hold_shut(struct kvd_lease *l, uint32_t b)
{
	for (uint32_t part = 0; part < l->format->part_count; part++)
		slabs_shut(l->k, hold_handles(l, b)[part].page);
}

void hold_free(struct kvd_lease *l)
{
	for (uint32_t b = 0; b < l->block_count; b++)
		if (hold_writes(l, b))
			hold_shut(l, b);
	list_remove(&l->link);
	free(l->blocks);
	free(l->handles);
	free(l->pages);
	free(l);
}

void hold_bury(struct kvd_lease *l)
{
	list_remove(&l->link);
	list_push_back(&l->k->leases_dead, &l->link);
}

void hold_reap(struct kvd *k)
{
	LIST_FOR_EACH_SAFE (link, next, &k->leases_dead) {
		struct kvd_lease *l = CONTAINER_OF(link, struct kvd_lease, link);
		if (l->id && !k->gone) {
			struct request *rq =
				request_new(k, KVD_OP_RELEASE, REQUEST_KEPT, REQUEST_QUIET);
			if (!rq)
				return;
			rq->req.lease = l->id;
			request_send(k, rq);
		}
		hold_free(l);
	}
}

const struct kvd_handle *hold_handles(const struct kvd_lease *l, uint32_t b)
{
	return &l->handles[(size_t)b * l->format->part_count];
}

/* Part-major rows get longer: each moves to its new place. */
static void hold_move_pages(const struct kvd_lease *l, uint64_t *to, uint32_t max)
{
	for (uint32_t part = 0; l->block_count && part < l->format->part_count; part++)
		memcpy(&to[(size_t)part * max], &l->pages[(size_t)part * l->block_max],
		       l->block_count * sizeof(*to));
}

int hold_grow(struct kvd_lease *l, uint32_t count)
{
	uint32_t parts = l->format->part_count;

	if (count <= l->block_max)
		return 0;
	if (count > HOLD_BLOCKS_MAX)
		return error_set(-ENOMEM, "a lease has at most %u blocks", HOLD_BLOCKS_MAX);
	uint32_t max = (uint32_t)bits_pow2_up(BITS_MAX(count, 16u));
	uint64_t *pages = calloc((size_t)max * parts, sizeof(*pages));
	uint8_t *blocks = pages ? reallocarray(l->blocks, max, sizeof(*blocks)) : NULL;
	if (blocks)
		l->blocks = blocks;
	struct kvd_handle *handles =
		blocks ? reallocarray(l->handles, (size_t)max * parts, sizeof(*handles)) : NULL;
	if (!handles) {
		free(pages);
		return -ENOMEM;
	}
	l->handles = handles;
	memset(blocks + l->block_max, HOLD_UNKNOWN, max - l->block_max);
	hold_move_pages(l, pages, max);
	free(l->pages);
	l->pages = pages;
	l->block_max = max;
	return 0;
}

static bool hold_nothing(const struct kvd_handle *handles, uint32_t parts)
{
	for (uint32_t part = 0; part < parts; part++)
		if (handles[part].page != KVD_PAGE_NONE)
			return false;
	return true;
}

int hold_put(struct kvd_lease *l, uint32_t b, enum hold_block kind,
	     const struct kvd_handle *handles)
{
	uint32_t parts = l->format->part_count;
	uint64_t address[KVD_PARTS_MAX] = {0};
	bool own = kind == HOLD_OPEN || kind == HOLD_BOUND;

	ASSERT(b < l->block_max && b <= l->block_count);
	if (b == l->block_count) {
		l->blocks[b] = HOLD_UNKNOWN;
		for (uint32_t part = 0; part < parts; part++)
			l->pages[(size_t)part * l->block_max + b] = 0;
		l->block_count++;
	}
	if (l->blocks[b] > HOLD_SHARED || hold_nothing(handles, parts))
		return 0;
	for (uint32_t part = 0; part < parts; part++) {
		uint32_t page = handles[part].page;
		int r = page == KVD_PAGE_NONE ? 0
			: own		      ? slabs_open(l->k, page, &address[part])
					      : slabs_read(l->k, page, &address[part]);
		if (r < 0)
			return r;
	}
	memcpy(&l->handles[(size_t)b * parts], handles, parts * sizeof(*handles));
	for (uint32_t part = 0; part < parts; part++)
		l->pages[(size_t)part * l->block_max + b] = address[part];
	l->blocks[b] = (uint8_t)kind;
	return 0;
}

void hold_seal(struct kvd_lease *l, uint32_t b)
{
	for (uint32_t part = 0; part < l->format->part_count; part++) {
		uint32_t page = hold_handles(l, b)[part].page;
		uint64_t address = 0;
		/* Its slab is mapped: the page was written there. */
		if (page != KVD_PAGE_NONE)
			(void)slabs_read(l->k, page, &address);
		l->pages[(size_t)part * l->block_max + b] = address;
		slabs_shut(l->k, page);
	}
	l->blocks[b] = HOLD_SEALED;
}

static bool hold_within(uint64_t address, uint64_t from, uint64_t bytes)
{
	return address && address - from < bytes;
}

bool hold_touches(const struct kvd_lease *l, uint64_t from, uint64_t bytes)
{
	uint32_t parts = l->block_count ? l->format->part_count : 0;

	for (uint32_t part = 0; part < parts; part++)
		for (uint32_t b = 0; b < l->block_count; b++)
			if (hold_within(l->pages[(size_t)part * l->block_max + b], from, bytes))
				return true;
	for (uint32_t part = 0; part < KVD_PARTS_MAX; part++)
		if (hold_within(l->tails[part], from, bytes))
			return true;
	return false;
}

uint32_t hold_live(const struct kvd_lease *l)
{
	uint32_t b = 0;

	while (b < l->block_count && !hold_writes(l, b))
		b++;
	return b;
}

struct kvd_lease_row hold_row(const struct kvd_lease *l)
{
	uint32_t row = KVD_LEASE_ROW(l->id);
	struct kvd_lease_row out = {0};

	if (l->id == 0 || row >= l->k->row_count)
		return out;
	const struct kvd_lease_row *from = &l->k->rows[row];
	/* Partner: kvd's release store of ready_tokens; what it covers is read after this. */
	out.ready_tokens = atomic_load_acquire(&from->ready_tokens);
	out.state = atomic_load_acquire(&from->state);
	out.event_seq = atomic_load_acquire(&from->event_seq);
	out.generation = atomic_load_acquire(&from->generation);
	if (out.generation != KVD_LEASE_GENERATION(l->id))
		return (struct kvd_lease_row){0};
	return out;
}

bool hold_changed(const struct kvd_lease *l)
{
	struct kvd_lease_row row = hold_row(l);

	/* Growth by the lease's own seals is no news: those have events. */
	return l->granted && (row.state != l->seen_state ||
			      (row.ready_tokens > l->seen_ready && l->seen_ready < l->build_from));
}

void hold_mark_seen(struct kvd_lease *l)
{
	struct kvd_lease_row row = hold_row(l);

	l->seen_ready = row.ready_tokens;
	l->seen_state = row.state;
}

void kvd_lease_info(struct kvd_lease *lease, struct kvd_lease_info *out)
{
	*out = (struct kvd_lease_info){0};
	if (!lease || client_enter(lease->k) == -ECHILD)
		return;
	struct kvd_lease_row row = hold_row(lease);
	lease->seen_ready = row.ready_tokens;
	lease->seen_state = row.state;
	*out = (struct kvd_lease_info){
		.user = lease->user,
		.id = lease->id,
		.format = lease->format ? lease->format->id : 0,
		.token_count = lease->token_count,
		.cached_tokens = lease->cached_tokens,
		.build_from = lease->build_from,
		.ready_tokens = BITS_MAX(row.ready_tokens, lease->cached_tokens),
		.state = row.state,
		.follows_own = lease->follows_own,
		.loads = lease->loads,
		.block_count = lease->block_count,
		.tail_tokens = lease->tail_tokens,
	};
}

const uint64_t *kvd_lease_pages(struct kvd_lease *lease, uint32_t part, uint32_t *out_count)
{
	bool known = lease && lease->block_count && part < lease->format->part_count;

	if (out_count)
		*out_count = known ? lease->block_count : 0;
	return known ? lease->pages + (size_t)part * lease->block_max : NULL;
}

uint64_t kvd_lease_tail(struct kvd_lease *lease, uint32_t part)
{
	if (!lease || part >= KVD_PARTS_MAX || lease->tail_tokens == 0)
		return 0;
	return lease->tails[part];
}
