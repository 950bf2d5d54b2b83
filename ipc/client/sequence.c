/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sequence.c: what a caller does with a lease: acquire, extend, bind, seal, fork, release; and the
 * word that one will be wanted.
 *
 * A lease has at most one request in flight that brings pages (`pending`); seals may be on their
 * way beside it. A call either sends its request and changes the lease, or returns an error and
 * changes nothing: credit and payload are reserved first.
 */
#include "ipc/client/hold.h"
#include "ipc/client/magazine.h"
#include "ipc/client/request.h"
#include <base/bits.h>
#include <errno.h>
#include <string.h>

/* --- requests that bring pages -----------------------------------------------------------------
 */

/* Room for the pages of so many blocks, or for what a quarter of the area holds of them. */
static bool sequence_out(struct kvd *k, struct request *rq, uint32_t blocks, uint32_t parts)
{
	uint64_t block_bytes = parts * sizeof(struct kvd_handle);
	uint64_t bytes = (blocks + (parts > 1)) * block_bytes;
	uint32_t wanted = (uint32_t)BITS_MIN(bytes, (uint64_t)k->out.bytes / 4);

	return request_out(k, rq, wanted, (uint32_t)BITS_MIN(2 * block_bytes, (uint64_t)wanted));
}

/* A record for a lease's next request. */
static struct request *sequence_new(struct kvd *k, uint16_t op, struct kvd_lease *l)
{
	struct request *rq = request_new(k, op, REQUEST_PLAIN, REQUEST_EVENT);

	if (!rq)
		return NULL;
	rq->lease = l;
	rq->event = (struct kvd_event){.kind = KVD_EV_LEASE, .lease = l};
	rq->req.lease = l->id;
	rq->req.format = l->format ? l->format->id : 0;
	return rq;
}

static void sequence_send(struct kvd *k, struct request *rq)
{
	rq->lease->pending = rq;
	request_send(k, rq);
}

static int sequence_acquire_check(struct kvd *k, const struct kvd_acquire_args *a)
{
	if (!client_format(k, a->format))
		return error_set(-EINVAL, "format %u is not known here", a->format);
	if (!a->tokens || a->token_count == 0 || a->token_count > KVD_REQUEST_TOKENS_MAX)
		return error_set(-EINVAL, "%u tokens, must be 1 to %u", a->token_count,
				 KVD_REQUEST_TOKENS_MAX);
	if (a->decode_blocks > REQUEST_BLOCKS_MAX || a->extra_count > a->token_count ||
	    (a->extra_count && !a->extras) || (a->flags & ~(uint32_t)KVD_ACQUIRE_NO_HIT))
		return error_set(-EINVAL, "acquire: a field is out of range");
	uint64_t bytes = a->token_count * sizeof(*a->tokens) + a->extra_count * sizeof(*a->extras);
	if (bytes > k->in.bytes)
		return error_set(-EINVAL, "%u tokens need %llu bytes of in_area_bytes",
				 a->token_count, (unsigned long long)bytes);
	return 0;
}

/* What the prefix is; false: no room for it. */
static bool sequence_prefix_fill(struct kvd *k, struct request *rq,
				 const struct kvd_acquire_args *a)
{
	uint32_t tokens_bytes = a->token_count * (uint32_t)sizeof(*a->tokens);
	uint32_t extras_bytes = a->extra_count * (uint32_t)sizeof(*a->extras);
	uint8_t *to = request_in(k, rq, tokens_bytes + extras_bytes, REQUEST_PLAIN);

	if (!to)
		return false;
	memcpy(to, a->tokens, tokens_bytes);
	if (extras_bytes)
		memcpy(to + tokens_bytes, a->extras, extras_bytes);
	rq->req.n = a->token_count;
	rq->req.m = a->extra_count;
	return true;
}

/* Fills the record; false: no room for its payload. */
static bool sequence_acquire_fill(struct kvd *k, struct request *rq,
				  const struct kvd_acquire_args *a)
{
	if (!sequence_prefix_fill(k, rq, a) ||
	    !sequence_out(k, rq, rq->lease->want_blocks, rq->lease->format->part_count))
		return false;
	rq->req.flags = (uint16_t)a->flags;
	rq->req.arg32 = a->decode_blocks;
	rq->req.deadline_ms = a->deadline_ms;
	return true;
}

int kvd_acquire(struct kvd *k, const struct kvd_acquire_args *args, struct kvd_lease **out)
{
	int r = client_enter_ring(k);

	if (r == 0)
		r = sequence_acquire_check(k, args);
	if (r != 0)
		return r;
	struct format *f = client_format(k, args->format);
	struct kvd_lease *l = hold_new(k, f, args->user);
	if (!l)
		return -ENOMEM;
	l->token_count = args->token_count;
	l->want_blocks = (uint32_t)bits_div_ceil(args->token_count, f->page_tokens);
	l->want_blocks += args->decode_blocks;
	struct request *rq = sequence_new(k, KVD_OP_ACQUIRE, l);
	if (!rq || !sequence_acquire_fill(k, rq, args)) {
		if (rq)
			request_free(k, rq);
		hold_free(l);
		return -EAGAIN;
	}
	sequence_send(k, rq);
	*out = l;
	return 0;
}

int kvd_prefetch(struct kvd *k, const struct kvd_acquire_args *args)
{
	int r = client_enter_ring(k);

	if (r == 0)
		r = sequence_acquire_check(k, args);
	if (r != 0)
		return r;
	struct request *rq = request_new(k, KVD_OP_PREFETCH, REQUEST_PLAIN, REQUEST_QUIET);
	if (!rq || !sequence_prefix_fill(k, rq, args)) {
		if (rq)
			request_free(k, rq);
		return -EAGAIN;
	}
	rq->req.format = client_format(k, args->format)->id;
	request_send(k, rq);
	return 0;
}

int kvd_claim(struct kvd *k, const uint8_t ticket[KVD_TICKET_BYTES], void *user,
	      struct kvd_lease **out)
{
	int r = client_enter_ring(k);

	if (r != 0)
		return r;
	struct kvd_lease *l = hold_new(k, NULL, user);
	if (!l)
		return -ENOMEM;
	struct request *rq = sequence_new(k, KVD_OP_CLAIM, l);
	uint8_t *to = rq ? request_in(k, rq, KVD_TICKET_BYTES, REQUEST_PLAIN) : NULL;
	if (!to || !sequence_out(k, rq, UINT32_MAX / 2, KVD_PARTS_MAX)) {
		if (rq)
			request_free(k, rq);
		hold_free(l);
		return -EAGAIN;
	}
	memcpy(to, ticket, KVD_TICKET_BYTES);
	sequence_send(k, rq);
	*out = l;
	return 0;
}

/* What every call on a lease begins with. */
static int sequence_enter(struct kvd *k, const struct kvd_lease *l)
{
	int r = client_enter_ring(k);

	if (r != 0)
		return r;
	if (!l || l->k != k || !l->granted)
		return error_set(-EINVAL, "no lease, or none yet");
	return 0;
}

/* The page of the live block as RELEASE and FORK name it: 0 where kvd knows it already. */
static uint64_t sequence_tail_word(const struct kvd_lease *l, uint32_t b)
{
	const struct kvd_handle *h = hold_handles(l, b);

	return l->blocks[b] == HOLD_BOUND ? (uint64_t)h->generation << 32 | h->page : 0;
}

/* One word names one page: a magazine block of several parts cannot be given as a tail. */
static bool sequence_tail_possible(const struct kvd_lease *l, uint32_t b)
{
	return b < l->block_count && (l->blocks[b] == HOLD_OPEN || l->format->part_count == 1);
}

/* As much of the live block as can be given: kvd must know its tokens and its page. */
static uint32_t sequence_fork_tail(const struct kvd_lease *l, uint32_t live, uint32_t tail_tokens)
{
	uint32_t before = live * l->format->page_tokens;
	uint32_t known = l->token_count - BITS_MIN(before, l->token_count);

	return sequence_tail_possible(l, live) ? BITS_MIN(tail_tokens, known) : 0;
}

int kvd_fork(struct kvd *k, struct kvd_lease *lease, uint32_t tail_tokens, uint32_t decode_blocks,
	     void *user, struct kvd_lease **out)
{
	int r = sequence_enter(k, lease);

	if (r != 0)
		return r;
	struct format *f = lease->format;
	uint32_t live = hold_live(lease);
	if (tail_tokens >= f->page_tokens || decode_blocks > REQUEST_BLOCKS_MAX)
		return error_set(-EINVAL, "fork: a tail of %u tokens", tail_tokens);
	tail_tokens = sequence_fork_tail(lease, live, tail_tokens);
	struct kvd_lease *l = hold_new(k, f, user);
	if (!l)
		return -ENOMEM;
	l->token_count = live * f->page_tokens + tail_tokens;
	l->want_blocks = live + (tail_tokens > 0) + decode_blocks;
	struct request *rq = sequence_new(k, KVD_OP_FORK, l);
	if (!rq || !sequence_out(k, rq, l->want_blocks, f->part_count)) {
		if (rq)
			request_free(k, rq);
		hold_free(l);
		return -EAGAIN;
	}
	rq->req.lease = lease->id;
	rq->req.arg32 = decode_blocks;
	rq->req.first = live;
	rq->req.m = tail_tokens;
	rq->req.arg64 = tail_tokens ? sequence_tail_word(lease, live) : 0;
	sequence_send(k, rq);
	*out = l;
	return 0;
}

static uint32_t sequence_unknown(const struct kvd_lease *l)
{
	uint32_t b = 0;

	while (b < l->block_count && l->blocks[b] != HOLD_UNKNOWN)
		b++;
	return b;
}

int kvd_extend(struct kvd *k, struct kvd_lease *lease, uint32_t flags, uint32_t deadline_ms)
{
	int r = sequence_enter(k, lease);

	if (r != 0)
		return r;
	if (lease->pending)
		return error_set(-EBUSY, "the lease has a request in flight");
	if (flags & ~(uint32_t)(KVD_EXTEND_TAKE | KVD_EXTEND_CALL))
		return error_set(-EINVAL, "extend: unknown flags");
	uint32_t first = sequence_unknown(lease);
	uint32_t m = lease->want_blocks - BITS_MIN(first, lease->want_blocks);
	struct request *rq = sequence_new(k, KVD_OP_EXTEND, lease);
	if (!rq || !sequence_out(k, rq, m, lease->format->part_count)) {
		if (rq)
			request_free(k, rq);
		return -EAGAIN;
	}
	rq->req.flags = (uint16_t)flags;
	rq->req.first = first;
	rq->req.m = BITS_MIN(m, REQUEST_BLOCKS_MAX);
	rq->req.deadline_ms = deadline_ms;
	if (flags & KVD_EXTEND_CALL)
		rq->req.arg32 = hold_row(lease).event_seq;
	sequence_send(k, rq);
	return 0;
}

int kvd_cancel(struct kvd *k, struct kvd_lease *lease)
{
	int r = client_enter_ring(k);

	if (r != 0)
		return r;
	if (!lease || lease->k != k || !lease->pending)
		return error_set(-EINVAL, "the lease has no request in flight");
	struct request *rq = request_new(k, KVD_OP_CANCEL, REQUEST_KEPT, REQUEST_QUIET);
	if (!rq)
		return -EAGAIN;
	/* Making room may have taken the very reply. */
	if (!lease->pending) {
		request_free(k, rq);
		return 0;
	}
	rq->req.arg32 = lease->pending->req.tag;
	request_send(k, rq);
	return 0;
}

/* --- writing and ending ------------------------------------------------------------------------
 */

int kvd_bind(struct kvd *k, struct kvd_lease *lease)
{
	int r = sequence_enter(k, lease);

	if (r != 0)
		return r;
	const struct kvd_handle *top = magazine_top(lease->format);
	if (!top)
		return KVD_FULL;
	uint32_t b = lease->block_count;
	r = hold_grow(lease, b + 1);
	if (r == 0)
		r = hold_put(lease, b, HOLD_BOUND, top);
	if (r < 0) {
		lease->block_count = b;
		return k->gone ? KVD_GONE : r;
	}
	magazine_pop(lease->format);
	return 0;
}

/* The range is the lease's own, unsealed, and its tokens will all be known. */
static int sequence_seal_check(const struct kvd_lease *l, uint32_t first, uint32_t count,
			       const uint32_t *tokens, uint32_t token_count)
{
	uint64_t known = (uint64_t)l->token_count + token_count;

	if (count > KVD_SEAL_BLOCKS_MAX)
		return error_set(-E2BIG, "seal: at most %u blocks at once", KVD_SEAL_BLOCKS_MAX);
	if (count == 0 || first >= l->block_count || count > l->block_count - first)
		return error_set(-EINVAL, "seal: no blocks [%u, +%u)", first, count);
	if (token_count > KVD_REQUEST_TOKENS_MAX || (token_count && !tokens) ||
	    known < ((uint64_t)first + count) * l->format->page_tokens || known > UINT32_MAX)
		return error_set(-EINVAL, "seal: tokens end before the last block");
	for (uint32_t b = first; b < first + count; b++)
		if (l->blocks[b] != HOLD_OPEN && l->blocks[b] != HOLD_BOUND)
			return error_set(-EINVAL, "seal: block %u is not open here", b);
	return 0;
}

static uint32_t sequence_bound(const struct kvd_lease *l, uint32_t first, uint32_t count)
{
	uint32_t bound = 0;

	for (uint32_t b = first; b < first + count; b++)
		bound += l->blocks[b] == HOLD_BOUND;
	return bound;
}

int kvd_seal(struct kvd *k, struct kvd_lease *lease, uint32_t first_block, uint32_t block_count,
	     const uint32_t *tokens, uint32_t token_count)
{
	int r = sequence_enter(k, lease);

	if (r == 0)
		r = sequence_seal_check(lease, first_block, block_count, tokens, token_count);
	if (r != 0)
		return r;
	size_t block_bytes = lease->format->part_count * sizeof(struct kvd_handle);
	uint32_t bound = sequence_bound(lease, first_block, block_count);
	size_t bytes = token_count * sizeof(*tokens) + bound * block_bytes;
	struct request *rq = request_new(k, KVD_OP_SEAL, REQUEST_KEPT, REQUEST_EVENT);
	uint8_t *to = rq && bytes ? request_in(k, rq, (uint32_t)bytes, REQUEST_KEPT) : NULL;
	if (!rq || (bytes && !to)) {
		if (rq)
			request_free(k, rq);
		return -EAGAIN;
	}
	if (token_count)
		memcpy(to, tokens, token_count * sizeof(*tokens));
	to = to ? to + token_count * sizeof(*tokens) : NULL;
	for (uint32_t b = first_block; b < first_block + block_count; b++) {
		if (lease->blocks[b] == HOLD_BOUND) {
			memcpy(to, hold_handles(lease, b), block_bytes);
			to += block_bytes;
			magazine_spent(lease->format);
		}
		hold_seal(lease, b);
	}
	if (first_block <= lease->build_from / lease->format->page_tokens)
		lease->tail_tokens = 0;
	lease->token_count += token_count;
	rq->lease = lease;
	rq->event = (struct kvd_event){.kind = KVD_EV_SEAL, .lease = lease};
	rq->req.lease = lease->id;
	rq->req.format = lease->format->id;
	rq->req.first = first_block;
	rq->req.m = block_count;
	rq->req.n = token_count;
	rq->req.arg32 = bound * lease->format->part_count;
	request_send(k, rq);
	return 0;
}

/* Ends the lease here: bound blocks go back to the magazine, but for the one that kvd now has. */
static void sequence_drop(struct kvd *k, struct kvd_lease *l, uint32_t given)
{
	for (uint32_t b = 0; b < l->block_count; b++) {
		if (l->blocks[b] != HOLD_BOUND)
			continue;
		if (b == given)
			magazine_spent(l->format);
		else
			magazine_push(l->format, hold_handles(l, b));
	}
	request_forget_lease(k, l);
	hold_free(l);
}

int kvd_release(struct kvd *k, struct kvd_lease *lease, uint32_t tail_tokens,
		const uint32_t *tokens, uint32_t token_count)
{
	int r = sequence_enter(k, lease);

	if (r == KVD_GONE && lease && lease->granted)
		sequence_drop(k, lease, UINT32_MAX);
	if (r != 0)
		return r;
	uint32_t live = hold_live(lease);
	uint64_t known = (uint64_t)lease->token_count + token_count;
	if (token_count > KVD_REQUEST_TOKENS_MAX || (token_count && !tokens) ||
	    tail_tokens >= lease->format->page_tokens ||
	    (tail_tokens && known < (uint64_t)live * lease->format->page_tokens + tail_tokens))
		return error_set(-EINVAL, "release: tokens end before the tail does");
	struct request *rq = request_new(k, KVD_OP_RELEASE, REQUEST_KEPT, REQUEST_QUIET);
	uint32_t bytes = token_count * (uint32_t)sizeof(*tokens);
	void *to = rq && bytes ? request_in(k, rq, bytes, REQUEST_KEPT) : NULL;
	if (!rq || (bytes && !to)) {
		if (rq)
			request_free(k, rq);
		return -EAGAIN;
	}
	if (bytes)
		memcpy(to, tokens, bytes);
	rq->req.lease = lease->id;
	rq->req.n = token_count;
	bool keep = tail_tokens && sequence_tail_possible(lease, live);
	if (keep) {
		rq->req.flags = KVD_RELEASE_KEEP_TAIL;
		rq->req.first = live;
		rq->req.m = tail_tokens;
		rq->req.arg64 = sequence_tail_word(lease, live);
	}
	request_send(k, rq);
	sequence_drop(k, lease, keep ? live : UINT32_MAX);
	return 0;
}

int kvd_handoff(struct kvd *k, struct kvd_lease *lease, uint32_t ttl_ms,
		uint8_t out_ticket[KVD_TICKET_BYTES])
{
	uint8_t ticket[KVD_TICKET_BYTES];
	struct kvd_rep rep;
	int r = sequence_enter(k, lease);

	if (r != 0)
		return r;
	if (lease->pending)
		return error_set(-EBUSY, "the lease has a request in flight");
	struct request *rq = request_new(k, KVD_OP_HANDOFF, REQUEST_PLAIN, REQUEST_SYNC);
	if (!rq || !request_out(k, rq, sizeof(ticket), sizeof(ticket))) {
		if (rq)
			request_free(k, rq);
		return -EAGAIN;
	}
	rq->req.lease = lease->id;
	rq->req.arg32 = ttl_ms;
	rq->sync_out = ticket;
	rq->sync_bytes = sizeof(ticket);
	request_send(k, rq);
	r = request_wait(k, rq, &rep);
	if (r == 0)
		r = rep.result;
	if (r != 0)
		return r;
	if (rep.out_bytes < sizeof(ticket))
		return error_set(-EPROTO, "the daemon sent no ticket");
	memcpy(out_ticket, ticket, sizeof(ticket));
	sequence_drop(k, lease, UINT32_MAX);
	return 0;
}
