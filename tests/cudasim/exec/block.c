/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One block: its threads are fibers, and whoever waits hands over to a ready thread drawn by the
 * launch's seed, so that each seed is another order and a missing barrier shows as another result.
 * A thread runs undisturbed until it waits. When nobody is ready and somebody has not exited, the
 * block is stuck, and the fault says where its threads are.
 *
 * A fault leaves the fibers where they are: their stacks are simply taken again. Kernels hold no
 * object with a destructor.
 */
#include "tests/cudasim/exec/block.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Yields in a row in which nothing else happened: somebody polls for what will never come. */
#define IDLE_YIELDS_MAX (1u << 20)
#define FAULT_TEXT_BYTES 640

struct sim_block sim_block;
const struct sim_self *sim_self;

static struct block_thread threads[BLOCK_THREADS_MAX];
static struct block_warp warps[BLOCK_THREADS_MAX / SIM_WARP];

static struct {
	struct fiber home; /* the thread that runs the launch */
	uint16_t ready[BLOCK_THREADS_MAX];
	uint32_t ready_count;
	uint32_t count;
	uint32_t exited;
	uint32_t idle_yields;
	uint64_t random;
	const char *kernel;
	const struct sim_work *body;
	cudaError_t error;
	char fault[FAULT_TEXT_BYTES];
} run;

void block_seed(uint64_t seed)
{
	run.random = seed | 1;
}

/* xorshift64*: four instructions, and any seed but zero. */
uint64_t block_random(void)
{
	run.random ^= run.random >> 12;
	run.random ^= run.random << 25;
	run.random ^= run.random >> 27;
	return run.random * 0x2545f4914f6cdd1dull;
}

uint32_t block_random_below(uint32_t n)
{
	return (uint32_t)((block_random() >> 32) * n >> 32);
}

const char *block_fault_text(void)
{
	return run.fault;
}

void block_forget(void)
{
	sim_self = NULL;
}

uint32_t block_thread_count(void)
{
	return run.count;
}

struct block_thread *block_thread(uint32_t index)
{
	return &threads[index];
}

static struct block_thread *take_ready(void)
{
	uint32_t i = block_random_below(run.ready_count);
	struct block_thread *t = &threads[run.ready[i]];

	run.ready[i] = run.ready[--run.ready_count];
	return t;
}

/* Leaves the current thread for a ready one, or for home when there is none. */
static void go_on(struct block_thread *t, bool last)
{
	if (run.ready_count == 0) {
		fiber_switch(&t->fiber, &run.home, last);
	} else {
		struct block_thread *next = take_ready();

		if (next == t)
			return;
		sim_self = &next->self;
		fiber_switch(&t->fiber, &next->fiber, last);
	}
}

void block_wait(enum block_state state)
{
	struct block_thread *t = block_current();

	t->state = state;
	run.idle_yields = 0;
	go_on(t, false);
}

void block_wake(struct block_thread *t)
{
	t->state = BLOCK_READY;
	run.ready[run.ready_count++] = (uint16_t)t->index;
}

void block_progress(void)
{
	run.idle_yields = 0;
}

void sim_yield(void)
{
	struct block_thread *t = block_current();

	if (++run.idle_yields > IDLE_YIELDS_MAX)
		sim_fault(cudaErrorLaunchFailure, (struct sim_place){NULL, 0},
			  "waits without end for what no thread does");
	block_wake(t);
	go_on(t, false);
}

void sim_atomic(void)
{
	if (block_random_below(8) == 0)
		sim_yield();
}

/* Adds to the fault's text, cut where it ends. */
__attribute__((format(printf, 1, 0))) static void vsay(const char *format, va_list ap)
{
	size_t used = strlen(run.fault);

	(void)vsnprintf(run.fault + used, sizeof(run.fault) - used, format, ap);
}

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsay(format, ap);
	va_end(ap);
}

/* The fault's text up to what is wrong; not all faults have a line: see report_bad_address. */
static void begin_fault(cudaError_t error, struct sim_place place)
{
	run.error = error;
	run.fault[0] = '\0';
	say("kernel %s, block (%u, %u, %u)", run.kernel, sim_block.block_idx.x,
	    sim_block.block_idx.y, sim_block.block_idx.z);
	if (sim_self)
		say(", thread (%u, %u, %u)", sim_self->thread_idx.x, sim_self->thread_idx.y,
		    sim_self->thread_idx.z);
	say(": ");
	if (place.file)
		say("%s:%d: ", place.file, place.line);
}

void sim_fault(cudaError_t error, struct sim_place place, const char *format, ...)
{
	struct block_thread *t = block_current();
	va_list ap;

	begin_fault(error, place);
	va_start(ap, format);
	vsay(format, ap);
	va_end(ap);
	for (;;)
		fiber_switch(&t->fiber, &run.home, true);
}

/* Nobody is ready: says what the first waiting thread waits for, and where the others are. */
static void tell_stuck(void)
{
	const struct block_thread *first = NULL;
	uint32_t here = 0, elsewhere = 0;

	for (uint32_t i = 0; i < run.count; i++) {
		const struct block_thread *t = &threads[i];

		if (t->state == BLOCK_EXITED)
			continue;
		if (!first || (first->state != BLOCK_IN_BARRIER && t->state == BLOCK_IN_BARRIER))
			first = t;
	}
	for (uint32_t i = 0; i < run.count; i++) {
		const struct block_thread *t = &threads[i];

		if (t->state == first->state && t->barrier == first->barrier)
			here++;
		else if (t->state != BLOCK_EXITED)
			elsewhere++;
	}
	sim_self = NULL;
	begin_fault(cudaErrorLaunchFailure, first->place);
	say("deadlock: %s reached by part of the block: %u of %u threads wait here, %u elsewhere, "
	    "%u exited",
	    first->state == BLOCK_IN_BARRIER ? "barrier" : "warp operation", here, run.count,
	    elsewhere, run.exited);
}

static void thread_main(void)
{
	struct block_thread *t = block_current();

	fiber_entered(&run.home);
	run.body->run(run.body->arg);
	t->state = BLOCK_EXITED;
	run.exited++;
	run.idle_yields = 0;
	warp_exited(t);
	go_on(t, true);
	__builtin_unreachable();
}

static int thread_init(uint32_t index)
{
	struct block_thread *t = &threads[index];
	uint32_t x = sim_block.block_dim.x, y = sim_block.block_dim.y;
	size_t bytes;
	void *stack = fiber_stack(index, &bytes);

	if (!stack)
		return -1;
	t->self.thread_idx.x = index % x;
	t->self.thread_idx.y = index / x % y;
	t->self.thread_idx.z = index / x / y;
	t->self.lane = index % SIM_WARP;
	t->index = index;
	t->warp = &warps[index / SIM_WARP];
	t->barrier = 0;
	t->fence_epoch = 0;
	t->place = (struct sim_place){NULL, 0};
	cp_async_reset(t);
	/* Tops a few lines apart: else all of them fall into one set of the cache. */
	fiber_init(&t->fiber, stack, bytes, (index % 64) * 128, thread_main);
	block_wake(t);
	return 0;
}

static int threads_init(void)
{
	run.ready_count = 0;
	for (uint32_t i = 0; i < run.count; i++) {
		struct block_warp *w = &warps[i / SIM_WARP];

		if (i % SIM_WARP == 0) {
			w->present = 0;
			w->meeting_count = 0;
			w->lanes = &threads[i];
		}
		w->present |= 1u << i % SIM_WARP;
		if (thread_init(i) < 0)
			return -1;
	}
	return 0;
}

cudaError_t block_run(const char *kernel, const struct sim_work *body)
{
	struct block_thread *first;
	const char *wrong;

	run.kernel = kernel;
	run.body = body;
	run.count = sim_block.block_dim.x * sim_block.block_dim.y * sim_block.block_dim.z;
	run.exited = 0;
	run.idle_yields = 0;
	run.error = cudaSuccess;
	memset(&run.home, 0, sizeof(run.home));
	barrier_reset();
	hopper_reset();
	if (threads_init() < 0)
		return cudaErrorMemoryAllocation;
	first = take_ready();
	sim_self = &first->self;
	fiber_switch(&run.home, &first->fiber, false);
	if (run.error == cudaSuccess && run.exited < run.count)
		tell_stuck();
	sim_self = NULL;
	wrong = hopper_check_end((run.count + SIM_WARP - 1) / SIM_WARP);
	if (run.error == cudaSuccess && wrong) {
		begin_fault(cudaErrorLaunchFailure, (struct sim_place){NULL, 0});
		say("%s", wrong);
	}
	return run.error;
}
