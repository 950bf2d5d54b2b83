/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions come and go, a process dies once. Its record lives from its first HELLO until it has
 * neither a session nor a debt: after a clean BYE at once, after a broken session when the pidfd
 * says that it is dead and the core was told so. A hang-up may never come while a child holds the
 * socket, so the pidfd also ends sessions that look alive.
 *
 * A GPU may still carry out what a dead process had queued. There the core is told later: when the
 * driver no longer lists the process (asked on a lane, again and again), or cannot tell, and a
 * grace time has passed after that.
 */
#include "kvd/pidwatch.h"
#include "base/bits.h"
#include "base/log.h"
#include "base/units.h"
#include "kvd/crash.h"
#include "kvd/peer.h"
#include "kvd/server.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#define PIDWATCH_AGAIN_NS (5 * UNITS_NS_PER_MS)

static struct pidwatch *pidwatch_find(struct server *s, uint64_t identity)
{
	LIST_FOR_EACH (l, &s->processes) {
		struct pidwatch *p = CONTAINER_OF(l, struct pidwatch, link);
		if (p->identity == identity)
			return p;
	}
	return NULL;
}

static void pidwatch_unwatch(struct pidwatch *p)
{
	int fd = p->source.fd;

	loop_remove(&p->server->loop, &p->source);
	close(fd);
	list_remove(&p->link);
}

/* Memory goes at the end of the turn, because this batch may name it again. */
static void pidwatch_forget(struct pidwatch *p)
{
	list_push_back(&p->server->dead_processes, &p->link);
	p->server->process_count--;
}

static void pidwatch_retire(struct pidwatch *p)
{
	pidwatch_unwatch(p);
	pidwatch_forget(p);
}

/* Nothing of it can write any more. */
static void pidwatch_conclude(struct pidwatch *p)
{
	struct server *s = p->server;

	devmem_process_end(&s->devmem, p->identity);
	core_process_dead(s->core, p->identity, s->now_ns);
	s->changed = true;
	log_debug("process", "pid %u is dead", p->pid);
	pidwatch_forget(p);
}

/* On its lane: a driver that hangs may hold it up. A device that cannot tell does not stand in the
 * way. */
static void pidwatch_ask(struct work_job *job)
{
	struct pidwatch *p = CONTAINER_OF(job, struct pidwatch, job);
	const struct devmem *d = &p->server->devmem;

	p->answer = 1;
	for (uint32_t i = 0; i < d->device_count && p->answer != 0; i++)
		p->answer = d->ops->process_gone(d->devices[i].dev, p->pid);
}

static void pidwatch_answered(struct work_job *job)
{
	struct pidwatch *p = CONTAINER_OF(job, struct pidwatch, job);
	const struct server *s = p->server;

	p->asking = false;
	p->proven = p->answer != 0;
	p->next_ns = s->now_ns + (p->proven ? s->options->device_grace_ns : PIDWATCH_AGAIN_NS);
}

void pidwatch_time(struct server *s)
{
	LIST_FOR_EACH_SAFE (l, tmp, &s->dying_processes) {
		struct pidwatch *p = CONTAINER_OF(l, struct pidwatch, link);
		if (p->asking || p->next_ns > s->now_ns)
			continue;
		if (p->proven) {
			list_remove(&p->link);
			pidwatch_conclude(p);
			continue;
		}
		p->asking = true;
		p->job = (struct work_job){.run = pidwatch_ask, .done = pidwatch_answered};
		work_submit_lane(&s->work, (uint32_t)s->watch_lane, &p->job);
	}
}

uint64_t pidwatch_deadline_ns(const struct server *s)
{
	uint64_t at_ns = UINT64_MAX;

	LIST_FOR_EACH (l, &s->dying_processes) {
		const struct pidwatch *p = CONTAINER_OF(l, struct pidwatch, link);
		if (!p->asking)
			at_ns = BITS_MIN(at_ns, p->next_ns);
	}
	return at_ns;
}

static void pidwatch_died(struct loop_source *source, uint32_t events)
{
	struct pidwatch *p = CONTAINER_OF(source, struct pidwatch, source);
	struct server *s = p->server;

	CRASH_POINT(process_dead);
	/* It must stay until all its sessions have left. */
	p->owes = true;
	peer_end_all_of(s, p);
	pidwatch_unwatch(p);
	if (s->devmem.ops->process_gone)
		list_push_back(&s->dying_processes, &p->link);
	else
		pidwatch_conclude(p);
}

static int pidwatch_new(struct server *s, const struct sock_peer *peer, struct pidwatch **out)
{
	struct pidwatch *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->server = s;
	p->identity = peer->identity;
	p->pid = (uint32_t)peer->pid;
	p->uid = peer->uid;
	int r = loop_add(&s->loop, &p->source, peer->pidfd, EPOLLIN, pidwatch_died);
	if (r < 0) {
		free(p);
		return r;
	}
	list_push_back(&s->processes, &p->link);
	s->process_count++;
	*out = p;
	return 0;
}

/* One user gets at most half of the records: they last until its processes have died. */
static bool pidwatch_room(struct server *s, uint32_t uid)
{
	uint32_t same = 0;

	LIST_FOR_EACH (l, &s->processes)
		same += CONTAINER_OF(l, struct pidwatch, link)->uid == uid;
	return s->process_count < SERVER_PROCESSES_MAX && same < SERVER_PROCESSES_MAX / 2;
}

int pidwatch_join(struct server *s, struct sock_peer *peer, struct pidwatch **out)
{
	struct pidwatch *p = pidwatch_find(s, peer->identity);
	int r = 0;

	if (p)
		close(peer->pidfd);
	else if (!pidwatch_room(s, peer->uid))
		r = -EUSERS;
	else
		r = pidwatch_new(s, peer, &p);
	if (r < 0)
		close(peer->pidfd);
	peer->pidfd = -1;
	if (r == 0) {
		p->sessions++;
		*out = p;
	}
	return r;
}

void pidwatch_leave(struct pidwatch *p, bool clean)
{
	p->sessions--;
	p->owes |= !clean;
	if (p->sessions == 0 && !p->owes)
		pidwatch_retire(p);
}

void pidwatch_reap(struct server *s)
{
	LIST_FOR_EACH_SAFE (l, tmp, &s->dead_processes) {
		list_remove(l);
		free(CONTAINER_OF(l, struct pidwatch, link));
	}
}

void pidwatch_free_all(struct server *s)
{
	LIST_FOR_EACH_SAFE (l, tmp, &s->processes)
		pidwatch_retire(CONTAINER_OF(l, struct pidwatch, link));
	LIST_FOR_EACH_SAFE (l, tmp, &s->dying_processes) {
		list_remove(l);
		pidwatch_forget(CONTAINER_OF(l, struct pidwatch, link));
	}
	pidwatch_reap(s);
}
