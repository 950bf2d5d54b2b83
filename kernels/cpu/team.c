/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread team. A model step forks some two hundred times, so a fork must cost well under a
 * microsecond: workers spin on the epoch. But a spinning thread on a core that somebody else needs
 * stops everybody, so the spin is bounded (about 50 us), and then the worker parks on a futex. A
 * team with more threads than cores does not spin at all.
 *
 * The handshake: the caller writes the job, then raises `epoch` (release); a worker that sees the
 * new epoch (acquire) claims its part, runs it and lowers `pending` (acq_rel), which the caller
 * waits for. A caller that is done with its own part claims those that no worker has begun: on a
 * busy host a worker may be without a core for milliseconds, and a step forks hundreds of times.
 * Which thread runs a part changes no result: a part is what `index` says, scratch included.
 * Parking needs no lock: who sleeps first counts itself in (seq_cst), then lets the kernel compare
 * the word; who wakes changes the word first, then looks at the count. One of the two sees the
 * other.
 *
 * Owner: the ctx. team_run() belongs to one thread at a time.
 */
#include "kernels/cpu/team.h"

#include <base/assert.h>
#include <base/atomic.h>
#include <base/units.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TEAM_SPIN_NS (50 * UNITS_NS_PER_US)
#define TEAM_SPINS_PER_LOOK 32

struct team_worker {
	struct team *team;
	uint32_t index;
	pthread_t thread;
	uint32_t claimed __attribute__((aligned(64))); /* epoch whose part somebody has taken */
};

struct team {
	/* Caller to workers. */
	uint32_t epoch __attribute__((aligned(64)));
	uint32_t sleepers;
	team_fn *fn; /* NULL: end */
	void *arg;
	/* Workers to caller. */
	uint32_t pending __attribute__((aligned(64)));
	uint32_t caller_sleeps;
	/* Never changes while workers live. */
	uint32_t threads __attribute__((aligned(64)));
	uint32_t started;
	uint64_t spin_ns;
	struct team_worker worker[];
};

static void futex_wait(uint32_t *word, uint32_t value)
{
	(void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(uint32_t *word)
{
	(void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Spins until *word differs from value, at most spin_ns. 1 when it does. */
static int spin_while(const uint32_t *word, uint32_t value, uint64_t spin_ns)
{
	uint64_t end_ns = spin_ns ? units_now_ns() + spin_ns : 0;

	do {
		for (int i = 0; i < TEAM_SPINS_PER_LOOK; i++) {
			if (atomic_load_acquire(word) != value)
				return 1;
			if (!spin_ns)
				return 0;
			atomic_relax();
		}
	} while (units_now_ns() < end_ns);
	return 0;
}

/* Pairs with the epoch store of publish(). */
static void await_epoch(struct team *t, uint32_t seen)
{
	if (spin_while(&t->epoch, seen, t->spin_ns))
		return;
	__atomic_fetch_add(&t->sleepers, 1, __ATOMIC_SEQ_CST);
	while (atomic_load_acquire(&t->epoch) == seen)
		futex_wait(&t->epoch, seen);
	__atomic_fetch_sub(&t->sleepers, 1, __ATOMIC_SEQ_CST);
}

/* Takes a worker's part of the epoch, for it or in its place: one of the two gets it. */
static int claim(struct team_worker *w, uint32_t epoch)
{
	uint32_t before = epoch - 1;

	return __atomic_compare_exchange_n(&w->claimed, &before, epoch, 0, __ATOMIC_ACQ_REL,
					   __ATOMIC_RELAXED);
}

static void *work(void *arg)
{
	struct team_worker *w = arg;
	struct team *t = w->team;
	uint32_t seen = 0;

	for (;;) {
		await_epoch(t, seen);
		seen = atomic_load_acquire(&t->epoch);
		/* Only who has the part may look at the job: the caller may be further. */
		if (!claim(w, seen))
			continue;
		if (!t->fn)
			return NULL;
		t->fn(t->arg, w->index, t->threads);
		/* Pairs with await_pending(). */
		if (__atomic_sub_fetch(&t->pending, 1, __ATOMIC_SEQ_CST) == 0 &&
		    __atomic_load_n(&t->caller_sleeps, __ATOMIC_SEQ_CST))
			futex_wake(&t->pending);
	}
}

/* The parts that no worker has begun: it may have lost its core to somebody else. */
static void help(struct team *t)
{
	for (uint32_t i = 1; i <= t->started; i++) {
		if (!claim(&t->worker[i], t->epoch))
			continue;
		t->fn(t->arg, i, t->threads);
		__atomic_sub_fetch(&t->pending, 1, __ATOMIC_SEQ_CST);
	}
}

static void publish(struct team *t, team_fn *fn, void *arg)
{
	t->fn = fn;
	t->arg = arg;
	atomic_store_relaxed(&t->pending, t->started);
	__atomic_fetch_add(&t->epoch, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&t->sleepers, __ATOMIC_SEQ_CST))
		futex_wake(&t->epoch);
}

/* Pairs with the decrement in work(). */
static void await_pending(struct team *t)
{
	uint32_t left;

	while ((left = atomic_load_acquire(&t->pending)) != 0) {
		if (spin_while(&t->pending, left, t->spin_ns))
			continue;
		__atomic_store_n(&t->caller_sleeps, 1, __ATOMIC_SEQ_CST);
		while ((left = __atomic_load_n(&t->pending, __ATOMIC_SEQ_CST)) != 0)
			futex_wait(&t->pending, left);
		__atomic_store_n(&t->caller_sleeps, 0, __ATOMIC_SEQ_CST);
	}
}

uint32_t team_cores(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0)
		return (uint32_t)CPU_COUNT(&set);
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	return n > 0 ? (uint32_t)n : 1;
}

int team_new(uint32_t threads, struct team **out)
{
	uint32_t cores = team_cores();
	struct team *t;
	size_t bytes;
	int rc;

	if (threads == 0)
		threads = cores < TEAM_THREADS_MAX ? cores : TEAM_THREADS_MAX;
	if (threads > TEAM_THREADS_MAX)
		return -EINVAL;
	bytes = sizeof(*t) + threads * sizeof(t->worker[0]);
	t = aligned_alloc(64, bytes);
	if (!t)
		return -ENOMEM;
	memset(t, 0, bytes);
	t->threads = threads;
	t->spin_ns = threads <= cores ? TEAM_SPIN_NS : 0;
	for (uint32_t i = 1; i < threads; i++) {
		struct team_worker *w = &t->worker[i];

		w->team = t;
		w->index = i;
		rc = pthread_create(&w->thread, NULL, work, w);
		if (rc) {
			team_free(t);
			return -rc;
		}
		t->started++;
	}
	*out = t;
	return 0;
}

void team_free(struct team *t)
{
	if (!t)
		return;
	publish(t, NULL, NULL);
	for (uint32_t i = 1; i <= t->started; i++)
		pthread_join(t->worker[i].thread, NULL);
	free(t);
}

uint32_t team_threads(const struct team *t)
{
	return t->threads;
}

void team_run(struct team *t, team_fn *fn, void *arg)
{
	ASSERT(fn);
	if (t->threads > 1)
		publish(t, fn, arg);
	fn(arg, 0, t->threads);
	help(t);
	await_pending(t);
}
