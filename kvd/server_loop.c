/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One turn after the other, see server.c for what a turn is.
 *
 * When is it right to sleep: no ring has a request, the core has no cursor to continue, and after
 * every client was told that we sleep (kvd_sleeps, a fence) a second look finds nothing. What comes
 * after that look rings a doorbell, which is in the epoll set. Timeouts are the earliest of: the
 * core's deadline, a transfer's, a handshake's, the next status update, the resumption of
 * accepting.
 *
 * While rings keep us busy epoll is asked every 50 us only: sockets and deaths are rare, and a
 * system call costs as much as several requests.
 */
#include "kvd/server_loop.h"
#include "base/atomic.h"
#include "base/bits.h"
#include "base/log.h"
#include "base/units.h"
#include "kvd/crash.h"
#include "kvd/notify.h"
#include "kvd/peer.h"
#include "kvd/serve.h"
#include "kvd/server.h"
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define SERVER_LOOP_POLL_NS (50 * UNITS_NS_PER_US)
#define SERVER_LOOP_STATUS_NS (100 * UNITS_NS_PER_MS)
#define SERVER_LOOP_ACCEPTS 16
#define SERVER_LOOP_PAUSE_NS UNITS_NS_PER_S
#define SERVER_LOOP_DRAIN_NS (5 * UNITS_NS_PER_S)

/* --- sources -------------------------------------------------------------------------------- */

/* In a crowd of silent connections the one that is silent for longest makes room. */
static void server_loop_make_room(struct server *s)
{
	struct peer *oldest = NULL;
	uint32_t strangers = 0;

	LIST_FOR_EACH (l, &s->peers) {
		struct peer *p = CONTAINER_OF(l, struct peer, link);
		if (p->session >= 0 || p->broken)
			continue;
		strangers++;
		if (!oldest)
			oldest = p;
	}
	if (strangers >= SERVER_STRANGERS_MAX)
		peer_break(oldest, -EUSERS, "too many connections have not said HELLO");
}

static void server_loop_accept_one(struct server *s, int fd, struct sock_peer *who)
{
	server_loop_make_room(s);
	int r = peer_new(s, fd, who);
	if (r < 0)
		log_warn("peer", "pid %d uid %u: %s", who->pid, who->uid, strerror(-r));
}

/* Without descriptors accept fails at once, again and again: it rests for a second. */
static void server_loop_accept(struct loop_source *source, uint32_t events)
{
	struct server *s = CONTAINER_OF(source, struct server, listen);
	struct sock_peer who;
	int fd;

	for (int i = 0; i < SERVER_LOOP_ACCEPTS; i++) {
		int r = sock_accept(s->listen_fd, &fd, &who);
		if (r == -EAGAIN)
			return;
		if (r == 0) {
			server_loop_accept_one(s, fd, &who);
		} else if (r == -EMFILE || r == -ENFILE || r == -ENOMEM || r == -ENOBUFS) {
			log_warn("peer", "cannot accept for a second: %s", strerror(-r));
			loop_change(&s->loop, source, 0);
			s->listen_resume_ns = s->now_ns + SERVER_LOOP_PAUSE_NS;
			return;
		}
	}
}

static void server_loop_signal(struct loop_source *source, uint32_t events)
{
	struct server *s = CONTAINER_OF(source, struct server, signal);
	struct signalfd_siginfo info;

	if (read(source->fd, &info, sizeof(info)) != sizeof(info))
		return;
	log_info("stop", "SIG%s from pid %u", sigabbrev_np((int)info.ssi_signo), info.ssi_pid);
	CRASH_POINT(stopping);
	notify_send("STOPPING=1");
	s->stop = true;
}

static void server_loop_ready(struct loop_source *source, uint32_t events)
{
	struct server *s = CONTAINER_OF(source, struct server, ready);
	struct devmem_result r;
	struct work_job *job;

	while ((job = work_take(&s->work))) {
		if (job->done) {
			job->done(job);
			continue;
		}
		if (devmem_done(&s->devmem, job, &r))
			core_complete(s->core, r.kind, r.slab, r.result, s->now_ns);
		s->changed = true;
	}
}

static void server_loop_overdue(struct server *s)
{
	struct devmem_result r;

	while (devmem_overdue(&s->devmem, s->now_ns, &r)) {
		core_complete(s->core, r.kind, r.slab, r.result, s->now_ns);
		s->changed = true;
	}
}

/* --- the parts of a turn ---------------------------------------------------------------------- */

static uint32_t server_loop_serve(struct server *s)
{
	uint32_t taken = 0;

	LIST_FOR_EACH_SAFE (l, tmp, &s->peers)
		taken += serve_ring(CONTAINER_OF(l, struct peer, link));
	return taken;
}

static void server_loop_core(struct server *s)
{
	if (core_busy(s->core) || core_deadline_ns(s->core) <= s->now_ns) {
		core_time(s->core, s->now_ns);
		s->changed = true;
	}
}

static void server_loop_bells(struct server *s)
{
	LIST_FOR_EACH (l, &s->peers)
		peer_ring_bell(CONTAINER_OF(l, struct peer, link));
}

/* Those who connected and say nothing. */
static void server_loop_strangers(struct server *s)
{
	LIST_FOR_EACH (l, &s->peers) {
		struct peer *p = CONTAINER_OF(l, struct peer, link);
		if (p->session < 0 && s->now_ns >= p->hello_deadline_ns)
			peer_break(p, -ETIMEDOUT, "said no HELLO within --handshake-timeout");
	}
	if (s->listen_resume_ns && s->now_ns >= s->listen_resume_ns) {
		s->listen_resume_ns = 0;
		loop_change(&s->loop, &s->listen, EPOLLIN);
	}
}

/* Something is unread by a client: the status must be looked at again although nothing changes. */
static bool server_loop_unanswered(const struct server *s)
{
	LIST_FOR_EACH (l, &s->peers)
		if (CONTAINER_OF(l, struct peer, link)->unanswered_since_ns)
			return true;
	return false;
}

static void server_loop_stalled(struct server *s)
{
	LIST_FOR_EACH (l, &s->peers) {
		struct peer *p = CONTAINER_OF(l, struct peer, link);
		if (p->session >= 0)
			core_session_stalled(s->core, (uint32_t)p->session,
					     peer_stalled(p, s->now_ns));
	}
}

static void server_loop_status(struct server *s)
{
	struct kvd_status *f = &s->figures;

	if (!s->status.map || s->now_ns - s->status_ns < SERVER_LOOP_STATUS_NS ||
	    (!s->changed && !server_loop_unanswered(s)))
		return;
	s->changed = false;
	s->status_ns = s->now_ns;
	server_loop_stalled(s);
	core_status(s->core, f);
	f->nonce = s->nonce;
	f->start_ns = s->start_ns;
	f->updated_ns = s->now_ns;
	snprintf(f->version, sizeof(f->version), "%s", KVD_VERSION);
	snprintf(f->device_memory, sizeof(f->device_memory), "%s", s->devmem.ops->name);
	f->loop_p50_ns = turns_quantile_ns(&s->turns, 500);
	f->loop_p99_ns = turns_quantile_ns(&s->turns, 990);
	tiers_stat(&s->tiers, f);
	status_file_write(&s->status, f);
}

int server_loop_init(struct server *s)
{
	int r = loop_add(&s->loop, &s->signal, s->signal_fd, EPOLLIN, server_loop_signal);

	if (r == 0)
		r = loop_add(&s->loop, &s->ready, s->work.fd, EPOLLIN, server_loop_ready);
	if (r == 0)
		r = tiers_add_to_loop(&s->tiers, &s->loop);
	if (r == 0 && s->listen_fd >= 0)
		r = loop_add(&s->loop, &s->listen, s->listen_fd, EPOLLIN, server_loop_accept);
	s->changed = true;
	server_loop_status(s);
	return r;
}

/* Peers that broke are ended here; that may give the core a cursor, and clients a doorbell. */
static void server_loop_reap(struct server *s)
{
	while (s->must_reap)
		peer_reap(s);
	pidwatch_reap(s);
	if (s->private_child && s->peer_count == 0 && !s->stop) {
		log_info("stop", "the peer is gone");
		s->stop = true;
	}
}

static uint32_t server_loop_tiers(struct server *s)
{
	uint32_t told = tiers_turn(&s->tiers, s->now_ns);

	s->changed |= told > 0;
	return told;
}

/* Requests taken, and transfers that the core was told of; how long it took goes into the histogram
 * if there was something to do. */
static uint32_t server_loop_turn(struct server *s)
{
	uint32_t taken = server_loop_serve(s) + server_loop_tiers(s);

	pidwatch_time(s);
	server_loop_overdue(s);
	server_loop_core(s);
	server_loop_strangers(s);
	server_loop_reap(s);
	tiers_flush(&s->tiers, s->now_ns);
	server_loop_bells(s);
	server_loop_status(s);
	return taken;
}

/* --- sleeping ------------------------------------------------------------------------------- */

static uint64_t server_loop_deadline_ns(const struct server *s)
{
	uint64_t at = BITS_MIN(core_deadline_ns(s->core), pidwatch_deadline_ns(s));

	at = BITS_MIN(at, devmem_deadline_ns(&s->devmem));
	at = BITS_MIN(at, tiers_deadline_ns(&s->tiers));
	if (s->status.map && (s->changed || server_loop_unanswered(s)))
		at = BITS_MIN(at, s->status_ns + SERVER_LOOP_STATUS_NS);
	if (s->listen_resume_ns)
		at = BITS_MIN(at, s->listen_resume_ns);
	LIST_FOR_EACH (l, &s->peers) {
		const struct peer *p = CONTAINER_OF(l, struct peer, link);
		if (p->session < 0)
			at = BITS_MIN(at, p->hello_deadline_ns);
	}
	return at;
}

/* Tells every client that its doorbell is needed. False: something came meanwhile. */
static bool server_loop_doze(struct server *s)
{
	bool quiet = true;

	LIST_FOR_EACH (l, &s->peers) {
		struct peer *p = CONTAINER_OF(l, struct peer, link);
		if (p->ring.shared)
			quiet &= ring_sleep_server(&p->ring) && !p->held;
	}
	return quiet;
}

static void server_loop_awake(struct server *s)
{
	LIST_FOR_EACH (l, &s->peers) {
		struct peer *p = CONTAINER_OF(l, struct peer, link);
		if (p->ring.shared)
			ring_awake_server(&p->ring);
	}
}

static bool server_loop_peek(const struct server *s)
{
	LIST_FOR_EACH (l, &s->peers) {
		const struct peer *p = CONTAINER_OF(l, struct peer, link);
		if (p->ring.shared &&
		    atomic_load_relaxed(&p->ring.shared->req_head) != p->ring.req_idx)
			return true;
	}
	return false;
}

/* Looks at the rings for at most spin_us. True: there is a request. */
static bool server_loop_spin(const struct server *s)
{
	uint64_t end_ns = units_now_ns() + s->spin_us * UNITS_NS_PER_US;
	bool found = false;

	while (s->spin_us && s->session_count && !found && units_now_ns() < end_ns) {
		atomic_relax();
		found = server_loop_peek(s);
	}
	return found;
}

/* Until there is something to do. The batch is handled by the turn that follows. */
static void server_loop_sleep(struct server *s)
{
	uint64_t at_ns = server_loop_deadline_ns(s);
	uint64_t now_ns = units_now_ns();

	if (!server_loop_doze(s))
		at_ns = 0;
	if (at_ns != UINT64_MAX)
		at_ns = at_ns > now_ns ? at_ns - now_ns : 0;
	(void)loop_wait(&s->loop, at_ns);
	s->polled_ns = units_now_ns();
	server_loop_awake(s);
}

void server_loop_run(struct server *s)
{
	bool more = true;

	while (!s->stop) {
		s->now_ns = units_now_ns();
		if (more && s->now_ns - s->polled_ns >= SERVER_LOOP_POLL_NS) {
			s->polled_ns = s->now_ns;
			(void)loop_wait(&s->loop, 0);
		}
		bool worked = s->loop.batch_count > 0;
		loop_dispatch(&s->loop);
		more = server_loop_turn(s) > 0 || core_busy(s->core);
		if (more || worked) {
			turns_add(&s->turns, units_now_ns() - s->now_ns);
			core_count(s->core, KVD_C_LOOP_TURNS, 1);
		}
		if (!more)
			more = server_loop_spin(s);
		if (!more && !s->stop)
			server_loop_sleep(s);
	}
}

/* Nobody is connected any more. */
void server_loop_drain(struct server *s)
{
	uint64_t end_ns = units_now_ns() + SERVER_LOOP_DRAIN_NS;

	tiers_close(&s->tiers);
	while (tiers_pending(&s->tiers) && units_now_ns() < end_ns) {
		(void)loop_wait(&s->loop, SERVER_LOOP_STATUS_NS);
		s->now_ns = units_now_ns();
		loop_dispatch(&s->loop);
		(void)server_loop_tiers(s);
		tiers_flush(&s->tiers, s->now_ns);
	}
	if (tiers_pending(&s->tiers))
		log_warn("stop", "%u transfers do not end: what they stored is lost",
			 tiers_pending(&s->tiers));
}
