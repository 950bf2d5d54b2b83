/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events.c: kvd_wait(): spin, then sleep on three descriptors, then deliver.
 *
 * The order before a sleep is what makes it safe: say in shared memory that this side sleeps,
 * fence, look once more at replies, rows and wakes, and only then poll. kvd changes first, fences,
 * and then looks whether to ring.
 *
 * The socket is watched too, because a daemon that was killed rings nothing. A caller that only
 * ever polls (timeout 0) looks at it once in a while instead of each time.
 */
#include "ipc/client/events.h"
#include "ipc/client/ask.h"
#include "ipc/client/hold.h"
#include "ipc/client/request.h"
#include <base/atomic.h>
#include <base/bits.h>
#include <base/units.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define EVENTS_LOOK_NS UNITS_NS_PER_MS

static struct kvd_session_row events_session_row(const struct kvd *k)
{
	const struct kvd_session_row *row = (const void *)k->rows;

	/* Partner: kvd's stores into row 0. */
	return (struct kvd_session_row){
		.want_back_pages = atomic_load_acquire(&row->want_back_pages),
		.retiring_slab = atomic_load_acquire(&row->retiring_slab),
		.draining = atomic_load_acquire(&row->draining),
	};
}

static bool events_rows_changed(const struct kvd *k)
{
	if (k->admin)
		return false;
	struct kvd_session_row row = events_session_row(k);
	if (memcmp(&row, &k->row_seen, sizeof(row)) != 0)
		return true;
	LIST_FOR_EACH (link, &k->leases)
		if (hold_changed(CONTAINER_OF(link, struct kvd_lease, link)))
			return true;
	return false;
}

static void events_rows_seen(struct kvd *k)
{
	k->row_seen = events_session_row(k);
	LIST_FOR_EACH (link, &k->leases)
		hold_mark_seen(CONTAINER_OF(link, struct kvd_lease, link));
}

/* Looks at the descriptors, for at most timeout_ns. */
static void events_poll(struct kvd *k, uint64_t timeout_ns)
{
	struct pollfd fds[] = {{.fd = k->sock, .events = POLLIN},
			       {.fd = k->wake_fd, .events = POLLIN},
			       {.fd = k->bell_to_client, .events = POLLIN}};
	struct timespec ts = {.tv_sec = (time_t)(timeout_ns / UNITS_NS_PER_S),
			      .tv_nsec = (long)(timeout_ns % UNITS_NS_PER_S)};

	if (ppoll(fds, ARRAY_LEN(fds), timeout_ns == UINT64_MAX ? NULL : &ts, NULL) <= 0)
		return;
	if (fds[0].revents)
		(void)ask_drain(k);
	if (fds[1].revents) {
		uint64_t count;
		(void)!read(k->wake_fd, &count, sizeof(count));
	}
	if (fds[2].revents)
		ring_bell_clear(k->bell_to_client);
}

void events_sleep(struct kvd *k, uint64_t timeout_ns)
{
	bool quiet = k->admin || ring_sleep_client(&k->ring);

	if (quiet && !events_rows_changed(k) && !atomic_load_relaxed(&k->wake_wanted)) {
		k->waits++;
		events_poll(k, timeout_ns);
		k->looked_ns = units_now_ns();
	}
	if (!k->admin)
		ring_awake_client(&k->ring);
}

/* The events that are ready, oldest first; after the last of a dead daemon's, that it is dead. */
static uint32_t events_deliver(struct kvd *k, struct kvd_event *events, uint32_t max)
{
	uint32_t n = 0;

	while (n < max && !list_empty(&k->events)) {
		struct request *rq = CONTAINER_OF(k->events.next, struct request, link);
		events[n++] = rq->event;
		if (rq->event.kind == KVD_EV_LEASE && rq->lease && !rq->lease->granted)
			hold_bury(rq->lease);
		list_remove(&rq->link);
		request_free(k, rq);
	}
	if (k->gone && !k->gone_told && n < max) {
		events[n++] = (struct kvd_event){.kind = KVD_EV_GONE, .result = KVD_GONE};
		k->gone_told = true;
	}
	return n;
}

/* Something that ends kvd_wait() without an event. */
static bool events_interrupted(struct kvd *k)
{
	if (atomic_load_relaxed(&k->wake_wanted) && atomic_swap_acq_rel(&k->wake_wanted, 0))
		return true;
	if (!events_rows_changed(k))
		return false;
	events_rows_seen(k);
	return true;
}

/* One look: true if kvd_wait() must return *out_n. */
static bool events_look(struct kvd *k, struct kvd_event *events, uint32_t max, uint32_t *out_n)
{
	request_pump(k);
	if (k->gone)
		request_fail_all(k);
	*out_n = events_deliver(k, events, max);
	return *out_n || events_interrupted(k);
}

int kvd_wait(struct kvd *k, uint64_t timeout_ns, struct kvd_event *events, uint32_t max)
{
	uint32_t n;
	int r = client_enter(k);

	if (r < 0 || !events || max == 0)
		return r < 0 ? r : -EINVAL;
	if (k->gone_told)
		return -EPIPE;
	hold_reap(k);
	if (events_look(k, events, max, &n))
		return (int)n;
	uint64_t start_ns = units_now_ns(), spent_ns = 0;
	if (start_ns - k->looked_ns > EVENTS_LOOK_NS) {
		events_poll(k, 0);
		k->looked_ns = start_ns;
	}
	while (!events_look(k, events, max, &n)) {
		spent_ns = units_now_ns() - start_ns;
		if (spent_ns >= timeout_ns)
			return 0;
		if (spent_ns < k->spin_ns)
			atomic_relax();
		else
			events_sleep(k,
				     timeout_ns == UINT64_MAX ? UINT64_MAX : timeout_ns - spent_ns);
	}
	return (int)n;
}

void kvd_wake(struct kvd *k)
{
	const uint64_t one = 1;
	int saved = errno;

	if (!k || !atomic_load_relaxed(k->same_process))
		return;
	atomic_store_release(&k->wake_wanted, 1);
	/* Full: it is awake already. */
	(void)!write(k->wake_fd, &one, sizeof(one));
	errno = saved;
}

void kvd_info(struct kvd *k, struct kvd_info *out)
{
	struct kvd_session_row row = {0};

	*out = (struct kvd_info){0};
	if (!k || client_enter(k) == -ECHILD)
		return;
	if (!k->admin)
		row = events_session_row(k);
	k->row_seen = row;
	for (uint32_t i = 0; i < k->format_count; i++)
		out->magazine_pages += k->formats[i].block_count * k->formats[i].part_count;
	out->nonce = k->nonce;
	out->session = k->session;
	out->pid = k->daemon_pid;
	out->group = k->group;
	out->want_back_pages = row.want_back_pages;
	out->draining = row.draining;
	/* The row is cleared before SLAB_GONE is answered; until then it says nothing new. */
	out->retiring_slabs = row.retiring_slab && !k->slab_gone_sent;
	out->requests = k->requests_sent;
	out->waits = k->waits;
}
