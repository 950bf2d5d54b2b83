/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes requests, checks their form, lets the core step.
 *
 * Fairness: a session gets at most 64 requests, 256 Ki tokens or SERVE_TURN_NS of work a turn; a
 * request that has more tokens than are left is held and is the first, alone, of the next turn. The
 * time is for what counts no tokens and is long all the same: forks of long sequences, thousands of
 * pages in one request.
 *
 * By the socket one request is in flight at a time: its payload stays in the peer's packet until
 * the reply, and the socket is not read before. The mark PEER_BY_SOCKET in in_off, which a checked
 * ring request cannot have, tells the core's callbacks where payload and reply belong.
 */
#include "kvd/serve.h"
#include "base/bits.h"
#include "base/units.h"
#include "kvd/crash.h"
#include "kvd/outputs.h"
#include "kvd/peer.h"
#include "kvd/server.h"
#include "kvd/welcome.h"
#include <errno.h>
#include <ipc/msg.h>
#include <string.h>
#include <sys/epoll.h>

void serve_bell(struct loop_source *source, uint32_t events)
{
	ring_bell_clear(source->fd);
}

static void serve_refuse(struct peer *p, const struct kvd_req *req, int result)
{
	struct kvd_rep rep = {.op = req->op, .tag = req->tag, .result = result};

	outputs_reply(p->server, (uint32_t)p->session, req, &rep, NULL);
}

static void serve_core(struct peer *p, const struct kvd_req *req)
{
	struct server *s = p->server;
	const uint8_t *random = entropy_take(&s->entropy, CORE_RANDOM_BYTES);

	CRASH_POINT(request_taken);
	/* Before the core, which may order the slab's end in this very step. */
	if (req->op == KVD_OP_SLAB_GONE)
		devmem_unmapped(&s->devmem, req->arg32, (uint32_t)p->session);
	int r = core_request(s->core, (uint32_t)p->session, req, random, s->now_ns);
	s->changed = true;
	CRASH_POINT(request_done);
	if (r < 0)
		peer_break(p, r, "broke the protocol");
}

/* What is no request at all ends the session; what is one, but may not be here, gets its answer. */
static bool serve_check(struct peer *p, const struct kvd_req *req, uint32_t channel)
{
	int r = msg_check(req, channel);

	if (r == -EPROTO)
		peer_break(p, r, "sent a request that is none");
	else if (r < 0)
		serve_refuse(p, req, r);
	return r == 0;
}

static void serve_ring_request(struct peer *p, const struct kvd_req *req)
{
	if (!ring_request_ok(&p->ring, req)) {
		peer_break(p, -EPROTO, "named a payload outside of its areas");
		return;
	}
	if (!serve_check(p, req, MSG_RING))
		return;
	if (req->op == KVD_OP_BYE) {
		serve_refuse(p, req, 0);
		peer_end(p, true);
		return;
	}
	serve_core(p, req);
}

/* The next request of the ring: the held one first. 1, 0, or -EPROTO. */
static int serve_next(struct peer *p, struct kvd_req *out)
{
	if (!p->held)
		return ring_take_request(&p->ring, out);
	*out = p->held_req;
	p->held = false;
	return 1;
}

uint32_t serve_ring(struct peer *p)
{
	struct kvd_req req;
	uint64_t start_ns = 0;
	uint32_t taken = 0, tokens = 0;
	int r = 0;

	if (p->admin || p->session < 0)
		return 0;
	while (taken < SERVE_REQUESTS_PER_TURN && !p->broken && !p->ended &&
	       (taken == 0 || units_now_ns() - start_ns < SERVE_TURN_NS)) {
		r = serve_next(p, &req);
		if (r <= 0)
			break;
		uint32_t n = BITS_MIN(req.n, KVD_REQUEST_TOKENS_MAX);
		if (taken && tokens + n > SERVE_TOKENS_PER_TURN) {
			p->held = true;
			p->held_req = req;
			break;
		}
		if (taken == 0)
			start_ns = units_now_ns();
		tokens += n;
		taken++;
		serve_ring_request(p, &req);
	}
	if (r < 0)
		peer_break(p, r, "wrote impossible numbers into its ring");
	return taken;
}

/* SLAB is the shell's: the core knows which slab, the device has its descriptor. */
static void serve_slab(struct peer *p, const struct kvd_req *req)
{
	struct server *s = p->server;
	struct kvd_slab_wire wire = {0};
	struct kvd_rep rep = {.op = KVD_OP_SLAB, .tag = req->tag};
	uint32_t session = (uint32_t)p->session;
	int fd = -1;
	int r = core_slab_find(s->core, session, req->arg32, &wire);

	if (r == 0 && !(p->features & welcome_features(s)))
		r = -ENOTSUP;
	if (r == 0)
		r = devmem_export(&s->devmem, &wire, &fd);
	if (r == 0)
		r = core_slab_imported(s->core, session, wire.slab);
	if (r == 0)
		r = devmem_imported(&s->devmem, wire.slab, session, p->who.identity);
	if (r < 0) {
		serve_refuse(p, req, r);
		return;
	}
	rep.out_bytes = sizeof(wire);
	r = sock_send(p->socket.fd, &rep, &wire, sizeof(wire), &fd, fd >= 0);
	CRASH_POINT(slab_sent);
	if (r < 0)
		peer_break(p, r, "does not read its socket");
}

void serve_packet(struct peer *p)
{
	uint32_t channel = MSG_SOCKET | (p->admin ? MSG_ADMIN : 0);
	struct kvd_req req;

	memcpy(&req, p->packet.head, sizeof(req));
	if (req.op == KVD_OP_HELLO || req.in_bytes != p->packet.payload_bytes) {
		peer_break(p, -EPROTO, "sent a request that is none");
		return;
	}
	req.in_off = PEER_BY_SOCKET;
	p->socket_busy = true;
	if (!serve_check(p, &req, channel))
		return;
	if (req.op == KVD_OP_SLAB) {
		p->socket_busy = false;
		serve_slab(p, &req);
		return;
	}
	serve_core(p, &req);
	if (p->socket_busy && !p->ended)
		loop_change(&p->server->loop, &p->socket, 0);
}
