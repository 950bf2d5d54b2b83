/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon.
 *
 * Start: files and lock, signals and loop, workers and devices, tiers, core and namespaces, what
 * the tiers have kept, status file, and the socket last: who can connect can be served. Stop: the
 * socket first, then clients are told, sessions closed, transfers ended, workers joined, slabs
 * freed, tiers closed, files removed.
 *
 * One thread turns the loop and is the only one that touches the core. A turn: take what epoll has,
 * serve each ring its share, let the core continue its cursors, ring doorbells, end who broke,
 * write the status. Then, if nothing was done, look at the rings for spin_us, tell every client
 * that we sleep, and wait. Page bytes are never touched here.
 */
#include "kvd/server.h"
#include "base/atomic.h"
#include "base/bits.h"
#include "base/log.h"
#include "base/units.h"
#include "kvd/defaults.h"
#include "kvd/notify.h"
#include "kvd/outputs.h"
#include "kvd/peer.h"
#include "kvd/pidwatch.h"
#include "kvd/server_loop.h"
#include "kvd/tenants.h"
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

/* A session needs six descriptors, a slab one; the soft limit is for programs that use select(). */
static void server_raise_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static int server_init_core(struct server *s, const struct options *o, char *error, size_t size)
{
	s->config = defaults_config(o, s->devmem.pool_bytes_default, s->devmem.device_count);
	int r = tiers_open(&s->tiers, o, &s->devmem, &s->work, &s->config, error, size);

	if (r < 0)
		return r;
	defaults_index(o, &s->config);
	r = core_new(&s->config, &outputs_ops, s, &s->core);
	if (r < 0) {
		snprintf(error, size, "%llu MiB for records: %s; lower --pages-max",
			 core_bytes(&s->config) / UNITS_MIB, strerror(-r));
		return r;
	}
	r = tenants_add(s->core, o, core_pool_bytes(&s->config), s->paths.state_dir, &s->entropy,
			error, size);
	return r < 0 ? r : tiers_recover(&s->tiers, s->core, error, size);
}

static int server_init_signals(struct server *s)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return s->signal_fd < 0 ? -errno : 0;
}

/* Signals are blocked before the workers start, so that only the loop gets them. */
static int server_init_machinery(struct server *s, const struct options *o, char *error,
				 size_t size)
{
	int r = server_init_signals(s);

	if (r == 0)
		r = loop_init(&s->loop);
	if (r == 0)
		r = work_init(&s->work, (uint32_t)o->workers);
	if (r == 0)
		r = devmem_init(&s->devmem, o->device_memory, o->devices, o->device_timeout_ns,
				&s->work, error, size);
	if (r == 0 && s->devmem.ops->process_gone) {
		s->watch_lane = work_lane_new(&s->work);
		r = BITS_MIN(s->watch_lane, 0);
	}
	if (r < 0 && !error[0])
		snprintf(error, size, "cannot start: %s", strerror(-r));
	return r;
}

static int server_init_status(struct server *s, char *error, size_t size)
{
	if (!s->paths.status[0])
		return 0;
	int r = status_file_init(&s->status, s->paths.status,
				 s->paths.has_status_gid ? &s->paths.status_gid : NULL);
	if (r < 0)
		snprintf(error, size, "status file %s: %s", s->paths.status, strerror(-r));
	return r;
}

static int server_init_private(struct server *s, int fd, char *error, size_t size)
{
	struct sock_peer who;
	int r = prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 ? -errno : 0;

	if (r == 0)
		r = sock_peer_of(fd, &who);
	if (r == 0)
		r = peer_new(s, fd, &who);
	if (r < 0)
		snprintf(error, size, "--socket-fd %d: %s", fd, strerror(-r));
	return r;
}

static int server_init_socket(struct server *s, char *error, size_t size)
{
	gid_t gid = s->paths.has_socket_gid ? s->paths.socket_gid : (gid_t)-1;
	int r = sock_listen(s->paths.socket, s->paths.socket_mode, gid, &s->listen_fd);

	if (r == -EADDRINUSE)
		snprintf(error, size,
			 "socket %s: another daemon answers there; stop it, or give "
			 "another --socket",
			 s->paths.socket);
	else if (r == -EEXIST || r == -EPROTOTYPE)
		snprintf(error, size,
			 "socket %s: there is something that is not ours; remove it, or give "
			 "another --socket",
			 s->paths.socket);
	else if (r < 0)
		snprintf(error, size, "socket %s: %s", s->paths.socket, strerror(-r));
	return r;
}

static void server_say_ready(const struct server *s, const struct options *o)
{
	char line[OPTIONS_PATH_MAX + 64];

	snprintf(line, sizeof(line), "READY=1\nSTATUS=serving %s\nMAINPID=%d", s->paths.socket,
		 getpid());
	notify_send(line);
	log_info("start", "ready");
	if (o->ready_fd < 0)
		return;
	int n = snprintf(line, sizeof(line), "ready %s\n", s->paths.socket);
	(void)!write((int)o->ready_fd, line, (size_t)n);
	close((int)o->ready_fd);
}

/* So that server_fini() is right whatever has failed. */
static void server_zero(struct server *s, const struct options *o)
{
	*s = (struct server){.options = o, .listen_fd = -1, .signal_fd = -1, .watch_lane = -1};
	s->loop.fd = -1;
	s->work.fd = -1;
	s->paths.lock_fd = -1;
	list_init(&s->peers);
	list_init(&s->dead_peers);
	list_init(&s->processes);
	list_init(&s->dying_processes);
	list_init(&s->dead_processes);
	s->now_ns = s->start_ns = units_now_ns();
	s->spin_us = defaults_spin_us(o);
	s->uid_sessions_max = defaults_uid_sessions_max(o);
	s->private_child = o->socket_fd >= 0;
	do
		memcpy(&s->nonce, entropy_take(&s->entropy, sizeof(s->nonce)), sizeof(s->nonce));
	while (s->nonce == 0);
}

int server_init(struct server *s, const struct options *o, char *error, size_t size)
{
	server_zero(s, o);
	server_raise_files();
	int r = paths_init(&s->paths, o, error, size);
	if (r == 0)
		r = paths_take(&s->paths, error, size);
	if (r == 0)
		r = server_init_machinery(s, o, error, size);
	if (r == 0)
		r = server_init_core(s, o, error, size);
	if (r == 0)
		r = server_init_status(s, error, size);
	if (r == 0)
		r = s->private_child ? server_init_private(s, (int)o->socket_fd, error, size)
				     : server_init_socket(s, error, size);
	if (r == 0)
		r = server_loop_init(s);
	if (r < 0) {
		if (!error[0])
			snprintf(error, size, "cannot start: %s", strerror(-r));
		return r;
	}
	defaults_log(o, &s->config, &s->paths, s->devmem.ops->name);
	server_say_ready(s, o);
	return 0;
}

/* Clients keep what they hold and go on with it; they look for a new daemon when they need more. */
static void server_end_sessions(struct server *s)
{
	uint32_t told = s->peer_count;

	LIST_FOR_EACH_SAFE (l, tmp, &s->peers) {
		struct peer *p = CONTAINER_OF(l, struct peer, link);
		if (p->rows)
			atomic_store_release(&((struct kvd_session_row *)p->rows)->draining, 1u);
		peer_break(p, -ESHUTDOWN, "the daemon stops");
		peer_end(p, false);
	}
	peer_reap(s);
	if (told)
		log_info("stop", "%u clients were told", told);
}

/* A driver that hangs is not waited for: what its thread may touch stays as it is. */
static void server_stop_work(struct server *s)
{
	if (s->work.fd < 0)
		return;
	work_stop_threads(&s->work);
	/* It may look at devices, which the other lanes then close. */
	s->hung = s->watch_lane >= 0 && work_lanes_stop(&s->work, (uint32_t)s->watch_lane, 1) < 0;
	if (!s->hung) {
		devmem_stop(&s->devmem);
		s->hung = work_stop(&s->work) < 0;
	}
	if (s->hung && !s->tiers.stuck)
		log_warn("stop", "a call to a GPU's driver does not end: its memory is left to it");
	s->hung |= s->tiers.stuck;
	if (s->hung)
		return;
	while (work_take(&s->work))
		continue;
	devmem_fini(&s->devmem);
	work_fini(&s->work);
}

void server_fini(struct server *s)
{
	if (s->listen_fd >= 0) {
		(void)unlink(s->paths.socket);
		loop_remove(&s->loop, &s->listen);
		close(s->listen_fd);
	}
	if (s->core) {
		server_end_sessions(s);
		server_loop_drain(s);
	}
	tiers_stop(&s->tiers);
	server_stop_work(s);
	tiers_fini(&s->tiers, s->hung);
	if (!s->hung)
		pidwatch_free_all(s);
	core_free(s->core);
	loop_fini(&s->loop);
	if (s->signal_fd >= 0)
		close(s->signal_fd);
	status_file_fini(&s->status);
	paths_release(&s->paths);
}
