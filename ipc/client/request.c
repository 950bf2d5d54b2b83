/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.c: credits, tags, payload ranges, and what happens when a reply comes.
 *
 * A tag is the record's index and a serial number: a reply with a tag that is not in flight, of
 * another op, or with more payload than was reserved is a broken daemon, and ends the connection.
 * Credits bound the ring, so there is always a slot for a record that exists.
 *
 * A lease that needs several replies (more handles than the payload holds) sends its own record
 * again from within the reply: that needs no further credit, so it cannot fail half way.
 */
#include "ipc/client/request.h"
#include "ipc/client/events.h"
#include "ipc/client/magazine.h"
#include "ipc/client/receive.h"
#include <base/assert.h>
#include <base/atomic.h>
#include <base/bits.h>
#include <base/units.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define REQUEST_INDEX_BITS 10u
static_assert(KVD_CREDITS_MAX <= 1u << REQUEST_INDEX_BITS, "a tag holds an index");

int request_init(struct kvd *k)
{
	uint32_t kept = BITS_MIN(CLIENT_BYTES_KEPT, k->ring.in_area_bytes / 4) & ~(AREA_ALIGN - 1);
	uint32_t plain = (k->ring.in_area_bytes - kept) & ~(AREA_ALIGN - 1);

	k->request_count = k->ring.credits;
	k->requests = calloc(k->request_count, sizeof(*k->requests));
	if (!k->requests || area_init(&k->in, 0, plain, k->request_count) < 0 ||
	    area_init(&k->in_kept, plain, kept, k->request_count) < 0 ||
	    area_init(&k->out, 0, k->ring.out_area_bytes, k->request_count) < 0)
		return -ENOMEM;
	for (uint32_t i = 0; i < k->request_count; i++)
		list_push_back(&k->requests_free, &k->requests[i].link);
	return 0;
}

void request_fini(struct kvd *k)
{
	area_fini(&k->in);
	area_fini(&k->in_kept);
	area_fini(&k->out);
	free(k->requests);
	k->requests = NULL;
}

static uint32_t request_credits(const struct kvd *k, enum request_class class)
{
	switch (class) {
	case REQUEST_PLAIN:
		return k->request_count - CLIENT_CREDITS_KEPT;
	case REQUEST_KEPT:
		return k->request_count - 1;
	case REQUEST_LAST:
		break;
	}
	return k->request_count;
}

struct request *request_new(struct kvd *k, uint16_t op, enum request_class class,
			    enum request_end end)
{
	if (k->requests_used >= request_credits(k, class))
		request_pump(k);
	if (k->requests_used >= request_credits(k, class))
		return NULL;
	struct request *rq = CONTAINER_OF(k->requests_free.next, struct request, link);
	list_remove(&rq->link);
	k->requests_used++;
	rq->end = end;
	rq->req = (struct kvd_req){.op = op};
	return rq;
}

static void request_drop_payload(struct kvd *k, struct request *rq)
{
	if (!area_give(&k->in, &rq->in))
		area_give(&k->in_kept, &rq->in);
	area_give(&k->out, &rq->out);
}

void request_free(struct kvd *k, struct request *rq)
{
	uint32_t serial = rq->serial;

	ASSERT(!rq->sent && k->requests_used > 0);
	request_drop_payload(k, rq);
	*rq = (struct request){.serial = serial};
	k->requests_used--;
	list_push_back(&k->requests_free, &rq->link);
}

void *request_in(struct kvd *k, struct request *rq, uint32_t bytes, enum request_class class)
{
	if (!area_take(&k->in, bytes, &rq->in) &&
	    (class == REQUEST_PLAIN || !area_take(&k->in_kept, bytes, &rq->in)))
		return NULL;
	rq->req.in_bytes = bytes;
	return k->ring.in + rq->in.off;
}

bool request_out(struct kvd *k, struct request *rq, uint32_t bytes, uint32_t bytes_min)
{
	uint32_t room = BITS_MIN(bytes, area_largest(&k->out));

	return room >= bytes_min && area_take(&k->out, room, &rq->out);
}

void request_send(struct kvd *k, struct request *rq)
{
	rq->serial++;
	rq->req.tag = rq->serial << REQUEST_INDEX_BITS | (uint32_t)(rq - k->requests);
	rq->req.in_off = rq->in.off;
	rq->req.out_off = rq->out.off;
	rq->req.out_bytes = rq->out.bytes;
	int r = ring_put_request(&k->ring, &rq->req);
	/* A record is a credit; only a daemon that moves its index backwards can fill the ring. */
	if (r < 0) {
		client_gone(k, "the daemon broke the request ring");
		rq->sent = true;
		return;
	}
	rq->sent = true;
	k->requests_sent++;
	ring_bell_to_kvd(&k->ring);
}

void request_again(struct kvd *k, struct request *rq)
{
	if (!area_give(&k->in, &rq->in))
		area_give(&k->in_kept, &rq->in);
	request_send(k, rq);
}

/* The reply is dealt with: what becomes of the record. */
static void request_finish(struct kvd *k, struct request *rq)
{
	request_drop_payload(k, rq);
	switch (rq->end) {
	case REQUEST_QUIET:
		request_free(k, rq);
		break;
	case REQUEST_EVENT:
		list_push_back(&k->events, &rq->link);
		break;
	case REQUEST_SYNC:
		rq->done = true;
		break;
	}
}

/* A daemon that is gone leaves no payload: NULL. */
static void request_keep_sync(struct request *rq, const uint8_t *payload)
{
	rq->sync_bytes = BITS_MIN(rq->sync_bytes, rq->rep.out_bytes);
	if (payload && rq->sync_out && rq->sync_bytes)
		memcpy(rq->sync_out, payload, rq->sync_bytes);
}

/* True: the record was sent again, its end is still to come. */
static bool request_handle(struct kvd *k, struct request *rq, const uint8_t *payload)
{
	switch (rq->req.op) {
	case KVD_OP_ACQUIRE:
	case KVD_OP_CLAIM:
	case KVD_OP_FORK:
	case KVD_OP_EXTEND:
		return receive_reply(k, rq, payload);
	case KVD_OP_TOPUP:
		magazine_reply(k, rq, payload);
		return false;
	case KVD_OP_SLAB_GONE:
		k->slab_gone_sent = false;
		return false;
	default:
		request_keep_sync(rq, payload);
		return false;
	}
}

static void request_reply(struct kvd *k, const struct kvd_rep *rep)
{
	uint32_t index = rep->tag & ((1u << REQUEST_INDEX_BITS) - 1);
	struct request *rq = &k->requests[index < k->request_count ? index : 0];

	if (index >= k->request_count || !rq->sent || rq->req.tag != rep->tag ||
	    rq->req.op != rep->op || rep->out_bytes > rq->req.out_bytes) {
		client_gone(k, "the daemon sent a reply to nothing that was asked");
		return;
	}
	rq->sent = false;
	rq->rep = *rep;
	rq->event.result = rep->result;
	if (rep->result == KVD_FULL)
		rq->event.full = rep->full;
	if (!request_handle(k, rq, k->ring.out + rq->out.off))
		request_finish(k, rq);
}

void request_pump(struct kvd *k)
{
	struct kvd_rep rep;
	int r = 0;

	if (k->admin)
		return;
	while (!k->gone && (r = ring_take_reply(&k->ring, &rep)) > 0)
		request_reply(k, &rep);
	if (r < 0)
		client_gone(k, "the daemon broke the reply ring");
	uint32_t closed = atomic_load_acquire(&k->ring.shared->closed);
	if (closed && !k->gone)
		client_gone(k, strerrordesc_np((int)closed));
}

void request_fail_all(struct kvd *k)
{
	for (uint32_t i = 0; i < k->request_count; i++) {
		struct request *rq = &k->requests[i];
		if (!rq->sent)
			continue;
		rq->sent = false;
		rq->rep = (struct kvd_rep){.op = rq->req.op, .result = KVD_GONE};
		rq->event.result = KVD_GONE;
		if (!request_handle(k, rq, NULL))
			request_finish(k, rq);
	}
}

void request_forget_lease(struct kvd *k, const struct kvd_lease *lease)
{
	for (uint32_t i = 0; i < k->request_count; i++)
		if (k->requests[i].lease == lease) {
			k->requests[i].lease = NULL;
			k->requests[i].event.lease = NULL;
		}
}

int request_wait(struct kvd *k, struct request *rq, struct kvd_rep *out_rep)
{
	uint64_t deadline_ns = units_now_ns() + k->timeout_ns;

	for (;;) {
		request_pump(k);
		if (k->gone)
			request_fail_all(k);
		if (rq->done)
			break;
		uint64_t now_ns = units_now_ns();
		if (now_ns >= deadline_ns) {
			/* The reply may still come: then it is nobody's. */
			rq->end = REQUEST_QUIET;
			rq->sync_out = NULL;
			return error_set(-ETIMEDOUT, "the daemon does not answer");
		}
		events_sleep(k, deadline_ns - now_ns);
	}
	*out_rep = rq->rep;
	request_free(k, rq);
	return out_rep->result == KVD_GONE ? KVD_GONE : 0;
}
