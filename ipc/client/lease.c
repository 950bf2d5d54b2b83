/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lease.c: the table of blocks behind one lease.
 *
 * A block's kind decides which of the two views its addresses come from: own and open means the
 * writable one, everything else the read-only one. Kinds only go forward:
 *
 *   UNKNOWN -> SHARED | OPEN      handles came
 *   OPEN, BOUND -> SEALED         the caller said that it is complete
 *
 * The address table is part-major, so that a kernel gets one plain array a part.
 */
#include "ipc/client/lease.h"
#include "ipc/client/request.h"
#include "ipc/client/slabs.h"
#include <base/assert.h>
#include <base/atomic.h>
#include <base/bits.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct kvd_lease *lease_new(struct kvd *k, struct format *format, void *user)
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

static bool lease_writes(const struct kvd_lease *l, uint32_t b)
{
	return l->blocks[b] == LEASE_OPEN || l->blocks[b] == LEASE_BOUND;
}

static void lease_shut(struct kvd_lease *l, uint32_t b)
{
	for (uint32_t part = 0; part < l->format->part_count; part++)
		slabs_shut(l->k, lease_handles(l, b)[part].page);
}

void lease_free(struct kvd_lease *l)
{
	for (uint32_t b = 0; b < l->block_count; b++)
		if (lease_writes(l, b))
			lease_shut(l, b);
	list_remove(&l->link);
	free(l->blocks);
	free(l->handles);
	free(l->pages);
	free(l);
}

void lease_bury(struct kvd_lease *l)
{
	list_remove(&l->link);
	list_push_back(&l->k->leases_dead, &l->link);
}

void lease_reap(struct kvd *k)
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
		lease_free(l);
	}
}

const struct kvd_handle *lease_handles(const struct kvd_lease *l, uint32_t b)
{
	return &l->handles[(size_t)b * l->format->part_count];
}

/* Part-major rows get longer: each moves to its new place. */
static void lease_move_pages(const struct kvd_lease *l, uint64_t *to, uint32_t max)
{
	for (uint32_t part = 0; l->block_count && part < l->format->part_count; part++)
		memcpy(&to[(size_t)part * max], &l->pages[(size_t)part * l->block_max],
		       l->block_count * sizeof(*to));
}

int lease_grow(struct kvd_lease *l, uint32_t count)
{
	uint32_t parts = l->format->part_count;

	if (count <= l->block_max)
		return 0;
	if (count > LEASE_BLOCKS_MAX)
		return error_set(-ENOMEM, "a lease has at most %u blocks", LEASE_BLOCKS_MAX);
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
	memset(blocks + l->block_max, LEASE_UNKNOWN, max - l->block_max);
	lease_move_pages(l, pages, max);
	free(l->pages);
	l->pages = pages;
	l->block_max = max;
	return 0;
}

static bool lease_nothing(const struct kvd_handle *handles, uint32_t parts)
{
	for (uint32_t part = 0; part < parts; part++)
		if (handles[part].page != KVD_PAGE_NONE)
			return false;
	return true;
}

int lease_put(struct kvd_lease *l, uint32_t b, enum lease_block kind,
	      const struct kvd_handle *handles)
{
	uint32_t parts = l->format->part_count;
	uint64_t address[KVD_PARTS_MAX] = {0};
	bool own = kind == LEASE_OPEN || kind == LEASE_BOUND;

	ASSERT(b < l->block_max && b <= l->block_count);
	if (b == l->block_count) {
		l->blocks[b] = LEASE_UNKNOWN;
		for (uint32_t part = 0; part < parts; part++)
			l->pages[(size_t)part * l->block_max + b] = 0;
		l->block_count++;
	}
	if (l->blocks[b] > LEASE_SHARED || lease_nothing(handles, parts))
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

void lease_seal(struct kvd_lease *l, uint32_t b)
{
	for (uint32_t part = 0; part < l->format->part_count; part++) {
		uint32_t page = lease_handles(l, b)[part].page;
		uint64_t address = 0;
		/* Its slab is mapped: the page was written there. */
		if (page != KVD_PAGE_NONE)
			(void)slabs_read(l->k, page, &address);
		l->pages[(size_t)part * l->block_max + b] = address;
		slabs_shut(l->k, page);
	}
	l->blocks[b] = LEASE_SEALED;
}

uint32_t lease_live(const struct kvd_lease *l)
{
	uint32_t b = 0;

	while (b < l->block_count && !lease_writes(l, b))
		b++;
	return b;
}

struct kvd_lease_row lease_row(const struct kvd_lease *l)
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

bool lease_changed(const struct kvd_lease *l)
{
	struct kvd_lease_row row = lease_row(l);

	/* Growth by the lease's own seals is no news: those have events. */
	return l->granted && (row.state != l->seen_state ||
			      (row.ready_tokens > l->seen_ready && l->seen_ready < l->build_from));
}

void lease_mark_seen(struct kvd_lease *l)
{
	struct kvd_lease_row row = lease_row(l);

	l->seen_ready = row.ready_tokens;
	l->seen_state = row.state;
}

void kvd_lease_info(struct kvd_lease *lease, struct kvd_lease_info *out)
{
	*out = (struct kvd_lease_info){0};
	if (!lease || client_enter(lease->k) == -ECHILD)
		return;
	struct kvd_lease_row row = lease_row(lease);
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
		.block_count = lease->block_count,
		.tail_tokens = lease->tail_tokens,
	};
}

const uint64_t *kvd_lease_pages(struct kvd_lease *lease, uint32_t part, uint32_t *out_count)
{
	bool known = lease && lease->format && part < lease->format->part_count;

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
