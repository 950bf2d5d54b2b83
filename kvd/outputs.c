/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core's callbacks. All run within a step of the core, so none may end a session: a peer that
 * turns out to be broken is marked and ends after the step. A session that has ended meanwhile has
 * no peer, and what is said to it is dropped. Doorbells are rung once, at the end of the turn.
 */
#include "kvd/outputs.h"
#include "base/assert.h"
#include "base/atomic.h"
#include "base/log.h"
#include "kvd/crash.h"
#include "kvd/peer.h"
#include "kvd/server.h"
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

static struct peer *outputs_peer(const struct server *s, uint32_t session)
{
	ASSERT(session < SERVER_SESSIONS_MAX);
	return s->by_session[session];
}

static int outputs_payload(void *ctx, uint32_t session, const struct kvd_req *req, void *out)
{
	struct peer *p = outputs_peer(ctx, session);

	if (!p)
		return -EFAULT;
	if (req->in_off != PEER_BY_SOCKET)
		return ring_copy_in(&p->ring, req, out);
	if (req->in_bytes > p->packet.payload_bytes)
		return -EFAULT;
	memcpy(out, p->packet.payload, req->in_bytes);
	return 0;
}

static void outputs_by_socket(struct peer *p, const struct kvd_rep *rep, const void *payload)
{
	int r = sock_send(p->socket.fd, rep, payload, rep->out_bytes, NULL, 0);

	if (p->socket_busy) {
		p->socket_busy = false;
		loop_change(&p->server->loop, &p->socket, EPOLLIN);
	}
	if (r < 0)
		peer_break(p, r, "does not read its socket");
}

void outputs_reply(void *ctx, uint32_t session, const struct kvd_req *req,
		   const struct kvd_rep *rep, const void *payload)
{
	struct peer *p = outputs_peer(ctx, session);

	if (!p || p->broken || p->ended)
		return;
	if (req->in_off == PEER_BY_SOCKET) {
		outputs_by_socket(p, rep, payload);
		return;
	}
	int r = ring_put_reply(&p->ring, req, rep, payload);
	if (r < 0)
		peer_break(p, r, "leaves no room for replies that it asked for");
	CRASH_POINT(reply_put);
	peer_published(p);
}

static void outputs_lease_row(void *ctx, uint32_t session, uint32_t row,
			      const struct kvd_lease_row *value)
{
	struct peer *p = outputs_peer(ctx, session);

	if (!p || !p->rows)
		return;
	ASSERT(row > 0 && row < p->leases_max);
	struct kvd_lease_row *to = &p->rows[row];
	/* Partner: libkvd loads ready_tokens and state (acquire), then the rest. */
	atomic_store_relaxed(&to->generation, value->generation);
	atomic_store_relaxed(&to->event_seq, value->event_seq);
	atomic_store_release(&to->ready_tokens, value->ready_tokens);
	atomic_store_release(&to->state, value->state);
	CRASH_POINT(row_written);
	peer_published(p);
}

static void outputs_session_row(void *ctx, uint32_t session, const struct kvd_session_row *value)
{
	struct peer *p = outputs_peer(ctx, session);

	if (!p || !p->rows)
		return;
	struct kvd_session_row *to = (struct kvd_session_row *)p->rows;
	atomic_store_release(&to->want_back_pages, value->want_back_pages);
	atomic_store_release(&to->retiring_slab, value->retiring_slab);
	atomic_store_release(&to->draining, value->draining);
	peer_published(p);
}

static void outputs_order(void *ctx, const struct core_order *order)
{
	struct server *s = ctx;

	devmem_order(&s->devmem, order);
}

static void outputs_transfer(void *ctx, const struct core_transfer *transfer)
{
	struct server *s = ctx;

	tiers_transfer(&s->tiers, transfer);
}

static void outputs_record(void *ctx, const struct core_record *record)
{
	struct server *s = ctx;

	tiers_record(&s->tiers, record);
}

static void outputs_expel(void *ctx, uint32_t session)
{
	struct peer *p = outputs_peer(ctx, session);

	if (p)
		peer_break(p, -ETIMEDOUT, "kept a slab mapped that kvd took back");
}

static void outputs_note(void *ctx, enum core_note_kind kind, const char *text)
{
	static const int levels[] = {[CORE_NOTE_DEBUG] = LOG_DEBUG,
				     [CORE_NOTE_INFO] = LOG_INFO,
				     [CORE_NOTE_WARN] = LOG_WARN};

	log_write(levels[kind], "core", "%s", text);
}

const struct core_ops outputs_ops = {
	.payload = outputs_payload,
	.reply = outputs_reply,
	.lease_row = outputs_lease_row,
	.session_row = outputs_session_row,
	.order = outputs_order,
	.transfer = outputs_transfer,
	.record = outputs_record,
	.expel = outputs_expel,
	.note = outputs_note,
};
