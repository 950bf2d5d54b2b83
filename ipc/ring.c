/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring.c: requests one way, replies the other, 64 bytes each, through memory that both sides can
 * write at any time.
 *
 * What keeps that safe:
 *   - A side writes its own indices and reads the peer's, and keeps its own in struct ring_side:
 *     the shared copy is for the peer only and never read back.
 *   - An index of the peer that is further away than the ring is long is a broken peer.
 *   - A slot is copied out whole before anybody looks at it.
 *   - Offsets and sizes are decided at start and kept privately.
 *
 * Order: a slot is written, then its index is stored with release; the reader loads the index with
 * acquire. Sleeping is Dekker's pattern: each side stores its own word (index or `sleeps`), fences,
 * and loads the other's, so at least one of them sees the other.
 *
 * A bell is a datagram socket pair, one end each: an eventfd would be one open file for both
 * sides, and a hostile client could make it block, fill it, and hang the daemon in write(2).
 *
 * One thread per end.
 */
#include "ipc/ring.h"
#include <base/assert.h>
#include <base/atomic.h>
#include <base/bits.h>
#include <errno.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define RING_LINE 64u

/* Where each array begins. */
struct ring_layout {
	uint32_t req_off;
	uint32_t rep_off;
	uint64_t in_off;
	uint64_t out_off;
	uint64_t bytes;
};

static struct ring_layout ring_layout(uint32_t credits, uint32_t in_bytes, uint32_t out_bytes)
{
	struct ring_layout l = {.req_off = sizeof(struct kvd_rings)};

	l.rep_off = l.req_off + credits * (uint32_t)sizeof(struct kvd_req);
	l.in_off = l.rep_off + (uint64_t)credits * sizeof(struct kvd_rep);
	l.out_off = l.in_off + bits_align_up(in_bytes, RING_LINE);
	l.bytes = l.out_off + bits_align_up(out_bytes, RING_LINE);
	return l;
}

static bool ring_credits_ok(uint32_t credits)
{
	return bits_is_pow2(credits) && credits >= KVD_CREDITS_MIN && credits <= KVD_CREDITS_MAX;
}

size_t ring_bytes(uint32_t credits, uint32_t in_area_bytes, uint32_t out_area_bytes)
{
	return ring_layout(credits, in_area_bytes, out_area_bytes).bytes;
}

static void ring_attach(struct ring_side *r, void *map, const struct ring_layout *l,
			uint32_t credits, uint32_t in_area_bytes, uint32_t out_area_bytes)
{
	uint8_t *base = map;

	*r = (struct ring_side){
		.shared = map,
		.reqs = (struct kvd_req *)(void *)(base + l->req_off),
		.reps = (struct kvd_rep *)(void *)(base + l->rep_off),
		.in = base + l->in_off,
		.out = base + l->out_off,
		.credits = credits,
		.in_area_bytes = in_area_bytes,
		.out_area_bytes = out_area_bytes,
		.bell_to_kvd = -1,
		.bell_to_client = -1,
	};
}

void ring_init_server(struct ring_side *r, void *map, uint32_t credits, uint32_t in_area_bytes,
		      uint32_t out_area_bytes)
{
	struct ring_layout l = ring_layout(credits, in_area_bytes, out_area_bytes);

	ASSERT(ring_credits_ok(credits));
	ring_attach(r, map, &l, credits, in_area_bytes, out_area_bytes);
	*r->shared = (struct kvd_rings){
		.magic = KVD_ABI_MAGIC,
		.major = KVD_ABI_MAJOR,
		.minor = KVD_ABI_MINOR,
		.credits = credits,
		.in_area_bytes = in_area_bytes,
		.out_area_bytes = out_area_bytes,
		.req_off = l.req_off,
		.rep_off = l.rep_off,
		.in_off = l.in_off,
		.out_off = l.out_off,
	};
}

/* The offsets of a header that lies in a map of `bytes`; a newer minor may place things otherwise.
 */
static bool ring_header_ok(const struct kvd_rings *h, uint64_t bytes)
{
	uint64_t slots = (uint64_t)h->credits * sizeof(struct kvd_req);

	return h->magic == KVD_ABI_MAGIC && h->major == KVD_ABI_MAJOR && h->req_off >= sizeof(*h) &&
	       h->req_off % RING_LINE == 0 && h->rep_off % RING_LINE == 0 &&
	       h->in_off % RING_LINE == 0 && h->out_off % RING_LINE == 0 &&
	       h->rep_off >= h->req_off + slots && h->in_off >= h->rep_off + slots &&
	       h->in_off <= bytes && h->out_off >= h->in_off + h->in_area_bytes &&
	       h->out_off <= bytes && h->out_area_bytes <= bytes - h->out_off;
}

int ring_init_client(struct ring_side *r, void *map, size_t bytes, const struct kvd_welcome *w)
{
	struct kvd_rings h;

	if (bytes < sizeof(h) || !ring_credits_ok(w->credits))
		return -EPROTO;
	memcpy(&h, map, sizeof(h));
	if (h.credits != w->credits || h.in_area_bytes != w->in_area_bytes ||
	    h.out_area_bytes != w->out_area_bytes || !ring_header_ok(&h, bytes))
		return -EPROTO;
	struct ring_layout l = {.req_off = h.req_off,
				.rep_off = h.rep_off,
				.in_off = h.in_off,
				.out_off = h.out_off};
	ring_attach(r, map, &l, h.credits, h.in_area_bytes, h.out_area_bytes);
	return 0;
}

int ring_take_request(struct ring_side *r, struct kvd_req *out)
{
	/* Partner: the release store in ring_put_request(). */
	uint32_t head = atomic_load_acquire(&r->shared->req_head);
	uint32_t ready = head - r->req_idx;

	if (ready == 0)
		return 0;
	if (ready > r->credits)
		return -EPROTO;
	memcpy(out, &r->reqs[r->req_idx & (r->credits - 1)], sizeof(*out));
	r->req_idx++;
	/* Partner: the acquire load in ring_put_request(): the slot may be filled again. */
	atomic_store_release(&r->shared->req_tail, r->req_idx);
	return 1;
}

int ring_put_reply(struct ring_side *r, const struct kvd_req *req, const struct kvd_rep *rep,
		   const void *payload)
{
	/* Partner: the release store in ring_take_reply(). */
	uint32_t used = r->rep_idx - atomic_load_acquire(&r->shared->rep_tail);

	ASSERT(rep->out_bytes <= req->out_bytes && ring_request_ok(r, req));
	if (used >= r->credits)
		return -EPROTO;
	if (rep->out_bytes)
		memcpy(r->out + req->out_off, payload, rep->out_bytes);
	memcpy(&r->reps[r->rep_idx & (r->credits - 1)], rep, sizeof(*rep));
	r->rep_idx++;
	/* Partner: the acquire load in ring_take_reply(). */
	atomic_store_release(&r->shared->rep_head, r->rep_idx);
	return 0;
}

static bool ring_range_ok(uint32_t off, uint32_t bytes, uint32_t area_bytes)
{
	return off <= area_bytes && bytes <= area_bytes - off;
}

bool ring_request_ok(const struct ring_side *r, const struct kvd_req *req)
{
	return req->in_off % 4 == 0 && req->out_off % 8 == 0 &&
	       ring_range_ok(req->in_off, req->in_bytes, r->in_area_bytes) &&
	       ring_range_ok(req->out_off, req->out_bytes, r->out_area_bytes);
}

int ring_copy_in(const struct ring_side *r, const struct kvd_req *req, void *out)
{
	if (!ring_range_ok(req->in_off, req->in_bytes, r->in_area_bytes))
		return -EFAULT;
	if (req->in_bytes)
		memcpy(out, r->in + req->in_off, req->in_bytes);
	return 0;
}

int ring_put_request(struct ring_side *r, const struct kvd_req *req)
{
	/* Partner: the release store in ring_take_request(). */
	uint32_t used = r->req_idx - atomic_load_acquire(&r->shared->req_tail);

	if (used >= r->credits)
		return -EAGAIN;
	memcpy(&r->reqs[r->req_idx & (r->credits - 1)], req, sizeof(*req));
	r->req_idx++;
	/* Partner: the acquire load in ring_take_request(). */
	atomic_store_release(&r->shared->req_head, r->req_idx);
	return 0;
}

int ring_take_reply(struct ring_side *r, struct kvd_rep *out)
{
	/* Partner: the release store in ring_put_reply(). */
	uint32_t ready = atomic_load_acquire(&r->shared->rep_head) - r->rep_idx;

	if (ready == 0)
		return 0;
	if (ready > r->credits)
		return -EPROTO;
	memcpy(out, &r->reps[r->rep_idx & (r->credits - 1)], sizeof(*out));
	r->rep_idx++;
	/* Partner: the acquire load in ring_put_reply(). */
	atomic_store_release(&r->shared->rep_tail, r->rep_idx);
	return 1;
}

bool ring_sleep_server(struct ring_side *r)
{
	/* Partner: ring_bell_to_kvd(), which publishes req_head, fences and loads kvd_sleeps. */
	atomic_store_relaxed(&r->shared->kvd_sleeps, 1u);
	atomic_fence_seq_cst();
	return atomic_load_relaxed(&r->shared->req_head) == r->req_idx;
}

void ring_awake_server(struct ring_side *r)
{
	atomic_store_relaxed(&r->shared->kvd_sleeps, 0u);
}

bool ring_sleep_client(struct ring_side *r)
{
	/* Partner: ring_bell_to_client(). */
	atomic_store_relaxed(&r->shared->client_sleeps, 1u);
	atomic_fence_seq_cst();
	return atomic_load_relaxed(&r->shared->rep_head) == r->rep_idx;
}

void ring_awake_client(struct ring_side *r)
{
	atomic_store_relaxed(&r->shared->client_sleeps, 0u);
}

/* A full queue is as good as a ring, and a closed peer is seen on the socket. */
static void ring_bell(const uint32_t *sleeps, int fd)
{
	const uint64_t one = 1;

	/* Partner: ring_sleep_*(), which stores `sleeps`, fences and loads the index. */
	atomic_fence_seq_cst();
	if (atomic_load_relaxed(sleeps) == 1 && write(fd, &one, sizeof(one)) < 0)
		return;
}

void ring_bell_to_kvd(struct ring_side *r)
{
	ring_bell(&r->shared->kvd_sleeps, r->bell_to_kvd);
}

void ring_bell_to_client(struct ring_side *r)
{
	ring_bell(&r->shared->client_sleeps, r->bell_to_client);
}

int ring_bell_new(int *out_ringer, int *out_sleeper)
{
	int fds[2];

	/* Datagrams: writing to a closed peer raises no SIGPIPE. */
	if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
		return -errno;
	*out_ringer = fds[0];
	*out_sleeper = fds[1];
	return 0;
}

bool ring_bell_unread(int fd)
{
	int bytes = 0;

	return ioctl(fd, SIOCOUTQ, &bytes) == 0 && bytes > 0;
}

void ring_bell_clear(int fd)
{
	uint64_t rings[8];

	/* Bounded, because a hostile ringer may ring as fast as this reads. */
	for (int i = 0; i < 16; i++)
		if (read(fd, rings, sizeof(rings)) <= 0)
			return;
}
