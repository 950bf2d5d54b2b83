/* SPDX-License-Identifier: Apache-2.0 */
/*
 * receive.c: what a reply with pages means for its lease.
 *
 * Not all handles of a long sequence fit into one reply: the rest is fetched by EXTEND from within
 * the reply, before the caller gets its event. A reply that contradicts itself ends the connection.
 *
 * What a request that was granted but could not be used here (no memory, no slab) leaves behind is
 * released when the lease is freed.
 */
#include "ipc/client/receive.h"
#include "ipc/client/hold.h"
#include "ipc/client/slabs.h"
#include <base/bits.h>
#include <errno.h>
#include <string.h>

/* Ends the request with an event. A lease that never came lives until that is delivered. */
static bool receive_end(struct kvd *k, struct request *rq, int result)
{
	struct kvd_lease *l = rq->lease;

	rq->event.result = result < 0 && k->gone ? KVD_GONE : result;
	l->pending = NULL;
	if (rq->event.result == 0)
		l->granted = true;
	hold_mark_seen(l);
	return false;
}

static int receive_lease(struct kvd *k, struct kvd_lease *l, const struct request *rq)
{
	const struct kvd_rep *rep = &rq->rep;
	uint32_t row = KVD_LEASE_ROW(rep->lease);

	if (row == 0 || row >= k->row_count)
		return client_gone(k, "the daemon granted a lease without a row"), -EPROTO;
	l->id = rep->lease;
	l->cached_tokens = rep->at.cached_tokens;
	if (rq->req.op != KVD_OP_CLAIM)
		return 0;
	l->format = client_format(k, KVD_CLAIM_FORMAT(rep->aux));
	if (!l->format)
		return error_set(-ENOENT,
				 "the claimed sequence has a format that is not known here");
	l->token_count = KVD_CLAIM_TOKENS(rep->aux);
	l->want_blocks = (uint32_t)bits_div_ceil(l->token_count, l->format->page_tokens);
	return 0;
}

/* The handles in a reply, checked against what was asked and what the payload holds. */
static int receive_count(struct kvd *k, const struct kvd_lease *l, const struct request *rq,
			 uint32_t *out_blocks)
{
	const struct kvd_rep_lease *at = &rq->rep.at;
	uint32_t parts = l->format->part_count;
	uint64_t handles = at->handle_count;

	if (rq->req.op != KVD_OP_EXTEND && at->tail_tokens && parts > 1)
		handles += parts;
	if (at->handle_count % parts || handles * sizeof(struct kvd_handle) > rq->rep.out_bytes ||
	    (rq->req.op != KVD_OP_EXTEND && at->tail_tokens >= l->format->page_tokens) ||
	    (rq->req.op == KVD_OP_EXTEND && at->handle_count / parts > rq->req.m))
		return client_gone(k, "the daemon sent a reply that contradicts itself"), -EPROTO;
	*out_blocks = at->handle_count / parts;
	return 0;
}

static int receive_take_tail(struct kvd_lease *l, const struct kvd_rep_lease *at,
			     const uint8_t *payload)
{
	l->tail_tokens = at->tail_tokens;
	for (uint32_t part = 0; part < l->format->part_count; part++) {
		struct kvd_handle tail = at->tail;
		if (l->format->part_count > 1)
			memcpy(&tail, payload + (at->handle_count + part) * sizeof(tail),
			       sizeof(tail));
		l->tails[part] = 0;
		int r = tail.page == KVD_PAGE_NONE ? 0
						   : slabs_read(l->k, tail.page, &l->tails[part]);
		if (r < 0)
			return r;
	}
	return 0;
}

/* What the lease computes itself is told when it is granted, and when it asked about a CALL. */
static void receive_learn(struct kvd_lease *l, const struct request *rq)
{
	const struct kvd_rep_lease *at = &rq->rep.at;

	if (rq->req.op == KVD_OP_EXTEND && rq->req.flags == 0)
		return;
	if (at->build_from != l->build_from)
		l->tail_tokens = 0;
	l->build_from = at->build_from;
	l->follows_own = at->follows_own;
	l->loads = at->event == KVD_EVENT_LOAD;
}

/*
 * Puts the pages of a reply behind the blocks from `first` on. A page is own and open if this
 * lease builds its block and nobody had published it when kvd answered: that moment counts, the
 * row may be further by now.
 */
static int receive_take(struct kvd *k, struct kvd_lease *l, const struct request *rq,
			const uint8_t *payload, uint32_t first, uint32_t *out_blocks)
{
	const struct kvd_rep_lease *at = &rq->rep.at;
	uint32_t parts = l->format->part_count, page_tokens = l->format->page_tokens;
	struct kvd_handle handles[KVD_PARTS_MAX];
	int r = receive_count(k, l, rq, out_blocks);

	if (r == 0)
		r = hold_grow(l, first + *out_blocks);
	if (r < 0)
		return r;
	receive_learn(l, rq);
	uint32_t own_from = BITS_MAX(l->build_from, at->cached_tokens) / page_tokens;
	for (uint32_t i = 0; i < *out_blocks && r == 0; i++) {
		uint32_t b = first + i;
		memcpy(handles, payload + (size_t)i * parts * sizeof(*handles),
		       parts * sizeof(*handles));
		r = hold_put(l, b, b >= own_from ? HOLD_OPEN : HOLD_SHARED, handles);
	}
	if (r == 0 && rq->req.op != KVD_OP_EXTEND && at->tail_tokens)
		r = receive_take_tail(l, at, payload);
	return r;
}

bool receive_reply(struct kvd *k, struct request *rq, const uint8_t *payload)
{
	struct kvd_lease *l = rq->lease;
	bool extends = rq->req.op == KVD_OP_EXTEND;
	uint32_t first = extends ? rq->req.first : 0, blocks = 0;

	if (!l)
		return false;
	if (rq->rep.result != 0)
		return receive_end(k, rq, rq->rep.result);
	int r = extends ? 0 : receive_lease(k, l, rq);
	if (r == 0)
		r = receive_take(k, l, rq, payload, first, &blocks);
	first += blocks;
	if (r < 0 || blocks == 0 || first >= l->want_blocks)
		return receive_end(k, rq, r);
	rq->req = (struct kvd_req){.op = KVD_OP_EXTEND,
				   .lease = l->id,
				   .format = l->format->id,
				   .first = first,
				   .m = BITS_MIN(l->want_blocks - first, REQUEST_BLOCKS_MAX)};
	request_again(k, rq);
	return true;
}
