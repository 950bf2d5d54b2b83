/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executor. Nothing runs when it is queued: only a call that waits or asks makes steps, and a
 * step takes one item, drawn from the heads of all streams that are ready. So two streams that no
 * event orders run in any order, and a host that does not wait reads what was there before.
 *
 * The legacy stream is ordered with all blocking streams of its device, both ways, by the turns of
 * their calls. A step is made under the lock; a thread that finds nothing ready gives the lock up
 * for a moment, because another thread or process may write the word that a stream waits for. Where
 * nothing comes for CUDASIM_WAIT_MS, all that waits is named and its device broken.
 */
#include "tests/cudasim/rt_queue.h"
#include "tests/cudasim/rt_graph.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define QUEUE_HEADS 256
#define QUEUE_POKE 8
#define QUEUE_WAIT_MS 10000
#define QUEUE_PRIVATE_PART 20 /* of the wait, where only this process could end it */
#define QUEUE_SLEEP_US 50

static uint64_t turns;
static int running = -1; /* the device whose work runs */
static _Thread_local bool inside;

static uint64_t queue_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

struct rt_body *rt_body_new(const struct rt_body *body)
{
	struct rt_body *copy = body->arg || !body->drop ? malloc(sizeof(*copy)) : NULL;

	if (!copy) {
		if (body->drop && body->arg)
			body->drop(body->arg);
		return NULL;
	}
	*copy = *body;
	return copy;
}

void rt_body_free(struct rt_body *body)
{
	if (!body)
		return;
	if (body->drop)
		body->drop(body->arg);
	free(body);
}

struct rt_mark *rt_mark_new(void)
{
	struct rt_mark *m = calloc(1, sizeof(*m));

	if (m)
		m->refs = 1;
	return m;
}

struct rt_mark *rt_mark_ref(struct rt_mark *mark)
{
	mark->refs++;
	return mark;
}

void rt_mark_unref(struct rt_mark *mark)
{
	if (mark && --mark->refs == 0)
		free(mark);
}

static void queue_item_free(struct rt_item *item)
{
	if (item->record && !item->record->done) {
		item->record->time_ns = queue_now_ns();
		item->record->done = true;
	}
	rt_mark_unref(item->record);
	rt_mark_unref(item->wait);
	rt_body_free(item->body);
	rt_launch_free(item->launch);
	free(item);
}

cudaError_t rt_queue_add(struct CUstream_st *stream, const struct rt_item *item)
{
	struct rt_item *copy = malloc(sizeof(*copy));

	if (!copy) {
		rt_mark_unref(item->record);
		rt_mark_unref(item->wait);
		rt_body_free(item->body);
		rt_launch_free(item->launch);
		return cudaErrorMemoryAllocation;
	}
	*copy = *item;
	copy->next = NULL;
	copy->turn = ++turns;
	if (copy->body)
		copy->delay = rt_fault_delay(copy->body->kind);
	*stream->tail = copy;
	stream->tail = &copy->next;
	return cudaSuccess;
}

static void queue_pop(struct CUstream_st *stream)
{
	struct rt_item *item = stream->head;

	stream->head = item->next;
	if (!stream->head)
		stream->tail = &stream->head;
	queue_item_free(item);
}

int rt_queue_device(void)
{
	return running >= 0 ? running : rt_device_current();
}

bool rt_queue_inside(void)
{
	return inside;
}

void rt_queue_break(int device)
{
	if (running == device)
		return; /* queue_execute() comes back here */
	for (struct CUstream_st *s = rt_stream_first(); s; s = s->next)
		while (s->device == device && s->head)
			queue_pop(s);
}

/* Nothing older may wait in the legacy stream, or for it in a blocking one. */
static bool queue_legacy_allows(const struct CUstream_st *stream)
{
	for (const struct CUstream_st *s = rt_stream_first(); s; s = s->next) {
		if (s == stream || s->device != stream->device || !s->head)
			continue;
		if (stream->legacy ? !s->blocking : !(s->legacy && stream->blocking))
			continue;
		if (s->head->turn < stream->head->turn)
			return false;
	}
	return true;
}

struct queue_question {
	struct rt_body *body;
	bool answer;
};

static void queue_ask(void *arg)
{
	struct queue_question *q = arg;

	q->answer = q->body->ready(q->body->arg);
}

static void queue_faulted(struct rt_body *body, int device)
{
	const char *what;
	char words[256];
	cudaError_t e = rt_trap_error(&what);

	snprintf(words, sizeof(words), "%s: %s", body->name, what);
	rt_error_break(device, e, words);
}

bool rt_queue_body_ready(struct rt_body *body, int device)
{
	struct queue_question q = {.body = body};

	if (!body->ready)
		return true;
	sim_memory_open();
	bool ok = rt_trap_run(queue_ask, &q);
	sim_memory_close();
	/* A word that cannot be read: its turn comes, and it faults then. */
	return !ok || q.answer;
}

void rt_queue_run(struct rt_body *body, int device)
{
	running = device;
	inside = true;
	rt_fault_work(body->kind);
	bool ok = true;
	if (body->host) {
		body->run(body->arg);
	} else {
		sim_memory_open();
		ok = rt_trap_run(body->run, body->arg);
		sim_memory_close();
	}
	inside = false;
	if (!ok)
		queue_faulted(body, device);
	running = -1;
}

static bool queue_head_ready(struct CUstream_st *stream)
{
	struct rt_item *item = stream->head;

	if (!item || !queue_legacy_allows(stream))
		return false;
	if (item->wait)
		return item->wait->done;
	if (item->body)
		return rt_queue_body_ready(item->body, stream->device);
	if (item->launch)
		return rt_launch_ready(item->launch, stream->device);
	return true;
}

/* True if the item is done with. */
static bool queue_execute(struct CUstream_st *stream, struct rt_item *item)
{
	bool finished = true;

	if (item->body)
		rt_queue_run(item->body, stream->device);
	if (item->launch)
		finished = rt_launch_step(item->launch, stream->device);
	return finished;
}

bool rt_queue_step(void)
{
	struct CUstream_st *heads[QUEUE_HEADS];
	uint32_t count = 0;

	for (struct CUstream_st *s = rt_stream_first(); s && count < QUEUE_HEADS; s = s->next)
		if (queue_head_ready(s))
			heads[count++] = s;
	if (count == 0)
		return false;
	struct CUstream_st *s = heads[sim_random() % count];
	if (s->head->delay) {
		s->head->delay--;
		return true;
	}
	bool finished = queue_execute(s, s->head);
	if (rt_device(s->device)->sticky != cudaSuccess)
		rt_queue_break(s->device);
	else if (finished)
		queue_pop(s);
	rt_stream_collect();
	return true;
}

void rt_queue_poke(void)
{
	for (uint64_t n = 1 + sim_random() % QUEUE_POKE; n; n--)
		if (!rt_queue_step())
			return;
}

/* The body that holds the stream up, if it is one that waits. */
static struct rt_body *queue_waits(struct CUstream_st *stream)
{
	struct rt_item *item = stream->head;
	struct rt_body *body = NULL;

	if (item && item->body)
		body = item->body;
	if (item && item->launch)
		body = rt_launch_waits(item->launch, stream->device);
	return body && body->explain ? body : NULL;
}

static bool queue_is_private(void)
{
	char words[160];

	for (struct CUstream_st *s = rt_stream_first(); s; s = s->next) {
		struct rt_body *body = queue_waits(s);
		if (body && !body->explain(body->arg, words, sizeof(words)))
			return false;
	}
	return true;
}

static void queue_deadlock(void)
{
	char words[200] = "deadlock: ";

	for (struct CUstream_st *s = rt_stream_first(); s; s = s->next) {
		struct rt_body *body = queue_waits(s);
		if (!body)
			continue;
		body->explain(body->arg, words + 10, sizeof(words) - 10);
		fprintf(stderr, "cudasim: stream %p of device %d: %s\n", (void *)s, s->device,
			words);
	}
	rt_fault_count("deadlocks");
	for (int d = 0; d < rt_device_count(); d++)
		for (struct CUstream_st *s = rt_stream_first(); s; s = s->next)
			if (s->device == d && s->head)
				rt_error_break(d, cudaErrorLaunchTimeout, words);
}

cudaError_t rt_queue_until(int device, bool (*done)(void *arg), void *arg)
{
	uint64_t bound_ns = rt_env_u64("CUDASIM_WAIT_MS", QUEUE_WAIT_MS) * 1000000u, since = 0;

	while (rt_device(device)->sticky == cudaSuccess && !done(arg)) {
		if (rt_queue_step()) {
			since = 0;
			continue;
		}
		if (since == 0)
			since = queue_now_ns();
		if (queue_now_ns() - since >
		    (queue_is_private() ? bound_ns / QUEUE_PRIVATE_PART : bound_ns))
			queue_deadlock();
		else
			rt_pause_us(QUEUE_SLEEP_US);
	}
	return rt_device(device)->sticky;
}

static bool queue_empty(void *arg)
{
	return ((struct CUstream_st *)arg)->head == NULL;
}

cudaError_t rt_queue_finish(struct CUstream_st *stream)
{
	return rt_queue_until(stream->device, queue_empty, stream);
}

static bool queue_device_empty(void *arg)
{
	for (struct CUstream_st *s = rt_stream_first(); s; s = s->next)
		if (s->device == *(int *)arg && s->head)
			return false;
	return true;
}

cudaError_t rt_queue_drain(int device)
{
	return rt_queue_until(device, queue_device_empty, &device);
}
