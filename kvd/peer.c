/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a connection: accepted, HELLO, served, ended.
 *
 * A peer is trusted with nothing. What it does wrong ends its own session and leaves an errno in
 * `closed` of its ring header for its library to show; nobody else notices. Because that can show
 * within a step of the core, such a peer is only marked there (peer_break) and ends when the step
 * is over. Its memory goes at the end of the turn: events of the batch may name it once more.
 */
#include "kvd/peer.h"
#include "base/atomic.h"
#include "base/bits.h"
#include "base/log.h"
#include "base/units.h"
#include "kvd/crash.h"
#include "kvd/serve.h"
#include "kvd/server.h"
#include "kvd/welcome.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define PEER_STALLED_NS UNITS_NS_PER_S

static void peer_packet(struct peer *p)
{
	for (uint32_t i = 0; i < p->packet.fd_count; i++)
		close(p->packet.fds[i]);
	if (p->packet.fd_count)
		peer_break(p, -EPROTO, "sent descriptors");
	else if (p->session < 0)
		welcome_handle(p);
	else
		serve_packet(p);
}

/* A BYE may stand in the ring before the hang-up that follows it: the ring is looked at first. */
static void peer_hung_up(struct peer *p)
{
	if (p->session >= 0 && !p->admin && !p->broken)
		serve_ring(p);
	peer_break(p, -EPIPE, "hung up");
}

static void peer_readable(struct loop_source *source, uint32_t events)
{
	struct peer *p = CONTAINER_OF(source, struct peer, socket);

	if (p->ended || p->broken)
		return;
	if (p->socket_busy) {
		if (events & (EPOLLHUP | EPOLLERR))
			peer_hung_up(p);
		return;
	}
	int r = sock_recv(p->socket.fd, &p->packet);
	if (r == 1)
		peer_packet(p);
	else if (r == 0 || (r != -EAGAIN && r != -EPROTO))
		peer_hung_up(p);
	else if (r == -EPROTO)
		peer_break(p, r, "sent a packet that is none");
}

int peer_new(struct server *s, int fd, const struct sock_peer *who)
{
	struct peer *p = calloc(1, sizeof(*p));
	int r = p ? 0 : -ENOMEM;

	if (r == 0) {
		p->server = s;
		p->who = *who;
		p->session = -1;
		p->bell.fd = -1;
		p->ring.bell_to_kvd = -1;
		p->ring.bell_to_client = -1;
		p->client_bells[0] = p->client_bells[1] = -1;
		p->hello_deadline_ns = s->now_ns + s->options->handshake_timeout_ns;
		r = loop_add(&s->loop, &p->socket, fd, EPOLLIN, peer_readable);
	}
	if (r < 0) {
		close(fd);
		close(who->pidfd);
		free(p);
		return r;
	}
	list_push_back(&s->peers, &p->link);
	s->peer_count++;
	return 0;
}

void peer_break(struct peer *p, int error, const char *cause)
{
	if (p->broken || p->ended)
		return;
	p->broken = error;
	p->cause = cause;
	p->server->must_reap = true;
}

static void peer_log_stranger(const struct peer *p)
{
	uint32_t dropped;

	if (!ration_take(&p->server->ration, p->server->now_ns, &dropped))
		return;
	if (dropped)
		log_warn("peer", "%u lines about other connections are not shown", dropped);
	log_info("peer", "pid %d uid %u: closed without a session: %s", p->who.pid, p->who.uid,
		 p->cause ? p->cause : "stopping");
}

static void peer_log_end(const struct peer *p, bool clean)
{
	if (p->session < 0)
		peer_log_stranger(p);
	else if (p->admin)
		log_debug("peer", "session %d: %s, pid %d: ended", p->session, p->name, p->who.pid);
	else
		log_info("peer", "session %d: %s, pid %d: ended: %s", p->session, p->name,
			 p->who.pid,
			 clean	    ? "said BYE"
			 : p->cause ? p->cause
				    : "stopping");
}

static void peer_close_session(struct peer *p, bool clean)
{
	struct server *s = p->server;
	bool quiet = clean || p->admin; /* an admin holds no memory, and has no ring for a BYE */

	if (p->ring.shared && !clean) {
		atomic_store_release(&p->ring.shared->closed, (uint32_t)-p->broken);
		p->must_ring = true;
	}
	devmem_session_end(&s->devmem, (uint32_t)p->session, quiet);
	core_session_close(s->core, (uint32_t)p->session, quiet ? CORE_END_BYE : CORE_END_BROKEN,
			   s->now_ns);
	s->by_session[p->session] = NULL;
	s->changed = true;
	CRASH_POINT(session_closed);
	if (!p->admin)
		s->session_count--;
	pidwatch_leave(p->process, quiet);
}

void peer_end(struct peer *p, bool clean)
{
	struct server *s = p->server;
	int fd = p->socket.fd;

	if (p->ended)
		return;
	p->ended = true;
	peer_log_end(p, clean);
	if (p->broken == -EPROTO || p->broken == -EFAULT)
		core_count(s->core, KVD_C_PROTOCOL_ERRORS, 1);
	if (p->session >= 0)
		peer_close_session(p, clean);
	peer_ring_bell(p);
	loop_remove(&s->loop, &p->bell);
	loop_remove(&s->loop, &p->socket);
	close(fd);
	s->peer_count--;
	s->must_reap = true;
	list_remove(&p->link);
	list_push_back(&s->dead_peers, &p->link);
}

void peer_end_all_of(struct server *s, const struct pidwatch *process)
{
	LIST_FOR_EACH_SAFE (l, tmp, &s->peers) {
		struct peer *p = CONTAINER_OF(l, struct peer, link);
		if (p->process != process)
			continue;
		peer_break(p, -EOWNERDEAD, "its process died");
		peer_end(p, false);
	}
}

void peer_close_client_bells(struct peer *p)
{
	for (int i = 0; i < 2; i++) {
		if (p->client_bells[i] >= 0)
			close(p->client_bells[i]);
		p->client_bells[i] = -1;
	}
}

static void peer_free(struct peer *p)
{
	if (p->who.pidfd >= 0)
		close(p->who.pidfd);
	if (p->ring.bell_to_kvd >= 0)
		close(p->ring.bell_to_kvd);
	if (p->ring.bell_to_client >= 0)
		close(p->ring.bell_to_client);
	peer_close_client_bells(p);
	shm_fini(&p->rings);
	shm_fini(&p->leases);
	free(p);
}

void peer_reap(struct server *s)
{
	if (!s->must_reap)
		return;
	s->must_reap = false;
	LIST_FOR_EACH_SAFE (l, tmp, &s->peers) {
		struct peer *p = CONTAINER_OF(l, struct peer, link);
		if (p->broken)
			peer_end(p, false);
	}
	LIST_FOR_EACH_SAFE (l, tmp, &s->dead_peers) {
		list_remove(l);
		peer_free(CONTAINER_OF(l, struct peer, link));
	}
}

void peer_published(struct peer *p)
{
	p->must_ring = true;
	p->server->changed = true;
	if (!p->unanswered_since_ns)
		p->unanswered_since_ns = p->server->now_ns;
}

void peer_ring_bell(struct peer *p)
{
	if (!p->must_ring || !p->ring.shared)
		return;
	p->must_ring = false;
	ring_bell_to_client(&p->ring);
}

/* rep_tail is the client's word; a lie changes only what kvctl says of it. */
bool peer_stalled(struct peer *p, uint64_t now_ns)
{
	if (!p->unanswered_since_ns || !p->ring.shared)
		return false;
	bool unread = atomic_load_relaxed(&p->ring.shared->rep_tail) != p->ring.rep_idx;
	if (!unread && !ring_bell_unread(p->ring.bell_to_client))
		p->unanswered_since_ns = 0;
	return p->unanswered_since_ns && now_ns - p->unanswered_since_ns > PEER_STALLED_NS;
}
