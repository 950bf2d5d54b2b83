/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the engines share, seen from an engine that is ours: which calls are made, in which order,
 * and what becomes of them. The last test is a disk in memory whose calls come back in any order,
 * in parts, with failures, by seed; who asked must get what a plain array would have given.
 */
#include "base/bits.h"
#include "base/units.h"
#include "kvd/aio_call.h"
#include "kvd/aio_engine.h"
#include "tests/test.h"
#include <errno.h>

#define CALLS_MAX 4096u
#define NOW 1000u /* a time long before all deadlines */

/* --- an engine that does what the test says ----------------------------------------------------
 */

static struct list_link under_way, back;
static uint32_t under_way_count, under_way_max, begun_count, cancel_count;
static struct aio_io begun[CALLS_MAX]; /* copies, in order */
static int flush_result;
static bool cancels; /* what is cancelled comes back at once */

static int fake_open(void **out, uint32_t depth, char *why, size_t size)
{
	list_init(&under_way);
	list_init(&back);
	under_way_count = under_way_max = begun_count = cancel_count = 0;
	flush_result = 0;
	cancels = true;
	*out = NULL;
	return 0;
}

static void fake_close(void *engine)
{
	assert_int_equal(under_way_count, 0);
}

static int fake_fd(const void *engine)
{
	return -1;
}

static void fake_begin(void *engine, struct aio_io *io)
{
	list_push_back(&under_way, &io->link);
	under_way_count++;
	under_way_max = BITS_MAX(under_way_max, under_way_count);
	begun[begun_count++ % CALLS_MAX] = *io;
}

static int fake_flush(void *engine)
{
	return flush_result;
}

/* The call comes back with the next turn. */
static void answer(struct aio_io *io, int result)
{
	io->result = result;
	list_remove(&io->link);
	list_push_back(&back, &io->link);
}

static void fake_cancel(void *engine, struct aio_io *io)
{
	cancel_count++;
	if (cancels)
		answer(io, -ECANCELED);
}

static struct aio_io *fake_reap(void *engine)
{
	if (list_empty(&back))
		return NULL;
	struct aio_io *io = CONTAINER_OF(back.next, struct aio_io, link);
	list_remove(&io->link);
	under_way_count--;
	return io;
}

static const struct aio_engine fake = {
	.name = "fake",
	.open = fake_open,
	.close = fake_close,
	.fd = fake_fd,
	.begin = fake_begin,
	.flush = fake_flush,
	.cancel = fake_cancel,
	.reap = fake_reap,
};

static struct aio_io *oldest(void)
{
	assert_false(list_empty(&under_way));
	return CONTAINER_OF(under_way.next, struct aio_io, link);
}

static uint64_t io_bytes(const struct aio_io *io)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < io->vec_count; i++)
		bytes += io->vecs[i].iov_len;
	return bytes;
}

/* Each call under way moves all its bytes. */
static void answer_all(void)
{
	while (!list_empty(&under_way))
		answer(oldest(), (int)io_bytes(oldest()));
}

/* --- operations --------------------------------------------------------------------------------
 */

struct task {
	struct aio_op op;
	int late;
	int done;
	int result;
};

static struct task tasks[256];
static char memory[4 << 20];

static void on_done(struct aio_op *op, int result)
{
	struct task *t = CONTAINER_OF(op, struct task, op);

	t->done++;
	t->result = result;
}

static void on_late(struct aio_op *op)
{
	CONTAINER_OF(op, struct task, op)->late++;
}

static struct task *prepare(uint32_t i, bool write, uint64_t offset, size_t size)
{
	tasks[i] = (struct task){.op = {.fd = 1,
					.write = write,
					.offset = offset,
					.vecs = {{memory + offset, size}},
					.vec_count = 1,
					.done = on_done,
					.late = on_late}};
	return &tasks[i];
}

static void submit(struct aio *aio, uint32_t i, bool write, uint64_t offset, size_t size)
{
	aio_submit(aio, &prepare(i, write, offset, size)->op);
}

static struct aio *start(uint32_t depth)
{
	struct aio *aio;
	char why[64];

	assert_int_equal(aio_new_with(&aio, &fake, depth, why, sizeof(why)), 0);
	assert_string_equal(why, "fake");
	return aio;
}

static void assert_done(uint32_t i, int result)
{
	assert_int_equal(tasks[i].done, 1);
	assert_int_equal(tasks[i].result, result);
}

static void finish(struct aio *aio)
{
	answer_all();
	(void)aio_turn(aio, NOW);
	assert_int_equal(aio_pending(aio), 0);
	aio_free(aio);
}

static void test_reads_before_writes_each_in_order(void **state)
{
	static const uint64_t order[] = {50, 40, 30, 20, 60, 10};
	struct aio *aio = start(1);

	submit(aio, 0, true, 20, 1);
	submit(aio, 1, true, 60, 1);
	submit(aio, 2, true, 10, 1);
	submit(aio, 3, false, 50, 1);
	submit(aio, 4, false, 40, 1);
	submit(aio, 5, false, 30, 1);
	for (uint32_t i = 0; i < 6; i++) {
		(void)aio_turn(aio, NOW);
		assert_int_equal(begun_count, i + 1);
		assert_int_equal(begun[i].offset, order[i]);
		assert_int_equal(begun[i].write, i >= 3);
		answer_all();
	}
	finish(aio);
}

static void test_depth_is_kept(void **state)
{
	struct aio *aio = start(5);

	for (uint32_t i = 0; i < 100; i++)
		submit(aio, i, i % 3 == 0, i * 10, 1);
	(void)aio_turn(aio, NOW);
	assert_int_equal(under_way_count, 5);
	while (aio_pending(aio)) {
		answer(oldest(), 1);
		assert_int_equal(aio_turn(aio, NOW), 1);
	}
	assert_int_equal(under_way_max, 5);
	assert_int_equal(begun_count, 100);
	finish(aio);
}

static void test_neighbours_are_one_call(void **state)
{
	struct aio *aio = start(8);

	for (uint32_t i = 0; i < 10; i++)
		submit(aio, i, false, i * 10, 10);
	submit(aio, 10, true, 100, 10); /* the other way */
	submit(aio, 11, false, 101, 9); /* a gap */
	prepare(12, false, 110, 10)->op.fd = 2;
	aio_submit(aio, &tasks[12].op);
	(void)aio_turn(aio, NOW);
	assert_int_equal(begun_count, 4);
	assert_int_equal(begun[0].vec_count, 10);
	assert_int_equal(begun[0].offset, 0);
	for (uint32_t i = 0; i < 10; i++)
		assert_ptr_equal(begun[0].vecs[i].iov_base, memory + 10ull * i);
	assert_int_equal(begun[1].offset, 101);
	assert_int_equal(begun[2].fd, 2);
	assert_true(begun[3].write);
	answer_all();
	assert_int_equal(aio_turn(aio, NOW), 13);
	for (uint32_t i = 0; i < 13; i++)
		assert_done(i, 0);
	finish(aio);
}

static void test_a_joined_call_has_bounds(void **state)
{
	struct aio *aio = start(8);
	uint32_t i;

	for (i = 0; i < AIO_CALL_VECS_MAX + 3; i++)
		submit(aio, i, false, i, 1);
	for (uint32_t n = 0; n < 3; n++)
		submit(aio, i + n, true, n * (1ull << 20), 1 << 20);
	(void)aio_turn(aio, NOW);
	assert_int_equal(begun_count, 4);
	assert_int_equal(begun[0].vec_count, AIO_CALL_VECS_MAX);
	assert_int_equal(begun[1].vec_count, 3);
	assert_int_equal(begun[2].vec_count, 2);
	assert_int_equal(begun[3].vec_count, 1);
	answer_all();
	(void)aio_turn(aio, NOW);
	/* One operation may be larger, and is alone then. */
	submit(aio, 0, true, 0, (2 << 20) + 1);
	submit(aio, 1, true, (2 << 20) + 1, 1);
	(void)aio_turn(aio, NOW);
	assert_int_equal(begun_count, 6);
	finish(aio);
}

static void test_a_bad_block_fails_alone(void **state)
{
	struct aio *aio = start(4);

	for (uint32_t i = 0; i < 10; i++)
		submit(aio, i, true, i * 10, 10);
	(void)aio_turn(aio, NOW);
	assert_int_equal(begun_count, 1);
	answer(oldest(), -EIO);
	assert_int_equal(aio_turn(aio, NOW), 0);
	while (aio_pending(aio)) {
		bool bad = oldest()->offset == 70;
		assert_int_equal(oldest()->vec_count, 1);
		answer(oldest(), bad ? -EIO : 10);
		assert_int_equal(aio_turn(aio, NOW), 1);
	}
	assert_int_equal(begun_count, 11);
	for (uint32_t i = 0; i < 10; i++) {
		assert_int_equal(begun[i + 1].offset, i * 10);
		assert_done(i, i == 7 ? -EIO : 0);
	}
	finish(aio);
}

static void test_short_calls_are_resumed(void **state)
{
	struct aio *aio = start(1);

	submit(aio, 0, false, 0, 10);
	submit(aio, 1, false, 10, 10);
	prepare(2, false, 20, 1)->op.vec_count = 3;
	tasks[2].op.vecs[1] = (struct iovec){memory + 500, 0};
	tasks[2].op.vecs[2] = (struct iovec){memory + 600, 9};
	aio_submit(aio, &tasks[2].op);
	submit(aio, 3, false, 90, 1);
	(void)aio_turn(aio, NOW);
	answer(oldest(), 14);
	assert_int_equal(aio_turn(aio, NOW), 1);
	assert_done(0, 0);
	assert_int_equal(oldest()->offset, 14);
	assert_ptr_equal(oldest()->vecs[0].iov_base, memory + 14);
	assert_int_equal(io_bytes(oldest()), 16);
	answer(oldest(), 6 + 1 + 4);
	assert_int_equal(aio_turn(aio, NOW), 1);
	assert_done(1, 0);
	assert_int_equal(oldest()->offset, 25);
	assert_ptr_equal(oldest()->vecs[0].iov_base, memory + 604);
	answer(oldest(), 5);
	assert_int_equal(aio_turn(aio, NOW), 1);
	assert_done(2, 0);
	finish(aio);
	assert_int_equal(begun_count, 4);
}

static void test_nothing_moved_is_an_end(void **state)
{
	struct aio *aio = start(2);

	submit(aio, 0, false, 0, 10);
	submit(aio, 1, true, 0, 10);
	(void)aio_turn(aio, NOW);
	answer(oldest(), 0);
	answer(oldest(), 0);
	assert_int_equal(aio_turn(aio, NOW), 2);
	assert_done(0, -ENODATA);
	assert_done(1, -EIO);
	finish(aio);
}

static void test_again_is_tried_later_but_not_for_ever(void **state)
{
	struct aio *aio = start(2);
	uint64_t now_ns = NOW;
	uint32_t tries = 0;

	submit(aio, 0, false, 0, 10);
	for (; aio_pending(aio) && tries < 100000; tries++) {
		(void)aio_turn(aio, now_ns);
		assert_int_equal(under_way_count, 1);
		answer(oldest(), -EAGAIN);
		(void)aio_turn(aio, now_ns);
		assert_int_equal(under_way_count, 0);
		if (!aio_pending(aio))
			continue;
		assert_true(aio_deadline_ns(aio) > now_ns && aio_deadline_ns(aio) < UINT64_MAX);
		now_ns = aio_deadline_ns(aio);
	}
	assert_done(0, -EAGAIN);
	assert_in_range(tries, 10, 10000);
	/* An interrupted call is made again at once. */
	submit(aio, 1, false, 0, 10);
	(void)aio_turn(aio, UINT64_MAX - 1);
	answer(oldest(), -EINTR);
	(void)aio_turn(aio, UINT64_MAX - 1);
	assert_int_equal(under_way_count, 1);
	finish(aio);
	assert_done(1, 0);
}

static void test_what_was_not_flushed_is_tried_again(void **state)
{
	struct aio *aio = start(2);

	submit(aio, 0, false, 0, 10);
	flush_result = -EBUSY;
	(void)aio_turn(aio, NOW);
	assert_true(aio_deadline_ns(aio) > NOW && aio_deadline_ns(aio) < UINT64_MAX);
	flush_result = 0;
	(void)aio_turn(aio, aio_deadline_ns(aio));
	assert_int_equal(aio_deadline_ns(aio), UINT64_MAX);
	assert_int_equal(begun_count, 1);
	finish(aio);
	assert_done(0, 0);
}

static void test_late_while_waiting_is_over_at_once(void **state)
{
	struct aio *aio = start(1);

	submit(aio, 0, false, 100, 10);
	prepare(1, true, 0, 10)->op.timeout_ns = 3600 * UNITS_NS_PER_S;
	aio_submit(aio, &tasks[1].op);
	(void)aio_turn(aio, NOW);
	assert_int_equal(aio_turn(aio, aio_deadline_ns(aio) - 1), 0);
	assert_int_equal(aio_turn(aio, aio_deadline_ns(aio)), 1);
	assert_done(1, -ETIMEDOUT);
	assert_int_equal(tasks[1].late, 0);
	assert_int_equal(cancel_count, 0);
	assert_int_equal(aio_deadline_ns(aio), UINT64_MAX);
	finish(aio);
}

static void test_late_in_the_kernel_is_said_once(void **state)
{
	struct aio *aio = start(1);
	uint64_t now_ns;

	cancels = false;
	prepare(0, true, 0, 10)->op.timeout_ns = UNITS_NS_PER_S;
	aio_submit(aio, &tasks[0].op);
	(void)aio_turn(aio, NOW);
	now_ns = aio_deadline_ns(aio);
	assert_int_equal(aio_turn(aio, now_ns), 1);
	assert_int_equal(aio_turn(aio, now_ns), 0);
	assert_true(tasks[0].late == 1 && tasks[0].done == 0);
	assert_int_equal(cancel_count, 1);
	/* The engine may have missed that: it is asked again, later. */
	assert_true(aio_deadline_ns(aio) > now_ns && aio_deadline_ns(aio) < UINT64_MAX);
	assert_int_equal(aio_turn(aio, aio_deadline_ns(aio)), 0);
	assert_true(cancel_count == 2 && tasks[0].late == 1);
	/* Half of it was done in the end: the other half is not begun. */
	answer(oldest(), 5);
	assert_int_equal(aio_turn(aio, NOW), 1);
	assert_done(0, -ETIMEDOUT);
	assert_int_equal(begun_count, 1);
	finish(aio);
}

/* A loop that comes long after a deadline was stopped: so long is waited once more, and only once.
 */
static void test_who_was_stopped_is_excused(void **state)
{
	struct aio *aio = start(1);
	uint64_t away_ns = UNITS_NS_PER_S / 2;

	cancels = false;
	for (uint32_t i = 0; i < 2; i++) {
		prepare(i, false, i * 1000, 10)->op.timeout_ns = UNITS_NS_PER_S;
		aio_submit(aio, &tasks[i].op);
	}
	(void)aio_turn(aio, NOW);
	assert_int_equal(begun_count, 1);
	uint64_t back_ns = aio_deadline_ns(aio) + away_ns;
	assert_int_equal(aio_turn(aio, back_ns), 0);
	assert_in_range(aio_deadline_ns(aio), back_ns + away_ns / 2, back_ns + away_ns);
	/* Stopped again: one is late in the kernel, the other was never begun. */
	assert_int_equal(aio_turn(aio, back_ns + 10 * away_ns), 2);
	assert_int_equal(tasks[0].late, 1);
	assert_done(1, -ETIMEDOUT);
	answer_all();
	finish(aio);
	assert_done(0, 0);
}

static void test_a_late_neighbour_harms_nobody(void **state)
{
	struct aio *aio = start(1);

	for (uint32_t i = 0; i < 3; i++) {
		prepare(i, false, i * 10, 10)->op.timeout_ns = i == 1 ? UNITS_NS_PER_S : 0;
		aio_submit(aio, &tasks[i].op);
	}
	(void)aio_turn(aio, NOW);
	assert_int_equal(begun_count, 1);
	assert_int_equal(aio_turn(aio, aio_deadline_ns(aio)), 1);
	assert_int_equal(tasks[1].late, 1);
	for (int i = 0; i < 4; i++) {
		(void)aio_turn(aio, NOW);
		answer_all();
	}
	finish(aio);
	assert_done(0, 0);
	assert_done(1, -ETIMEDOUT);
	assert_done(2, 0);
	assert_int_equal(tasks[0].late + tasks[2].late, 0);
}

static struct aio *its_aio;
static int resubmitted;

static void submit_itself(struct aio_op *op, int result)
{
	op->vecs[0] = (struct iovec){memory, 10};
	op->vec_count = 1;
	op->offset = 0;
	if (++resubmitted < 5)
		aio_submit(its_aio, op);
}

static void test_done_may_submit(void **state)
{
	its_aio = start(1);
	resubmitted = 0;
	prepare(0, false, 0, 10)->op.done = submit_itself;
	aio_submit(its_aio, &tasks[0].op);
	for (int i = 0; i < 3; i++) {
		(void)aio_turn(its_aio, NOW);
		answer(oldest(), i == 1 ? 3 : (int)io_bytes(oldest()));
	}
	(void)aio_turn(its_aio, NOW);
	assert_int_equal(resubmitted, 2);
	/* What is submitted while all are sent away is sent away, too. */
	assert_int_equal(aio_drain(its_aio, 60 * UNITS_NS_PER_S), 0);
	assert_int_equal(resubmitted, 5);
	aio_free(its_aio);
}

/* --- a disk that does its worst ----------------------------------------------------------------
 */

#define BLOCK 64u
#define BLOCKS 512u
#define SPAN 4u /* an operation's blocks at most */
#define OPS 20000u
#define BUSY 100u

static unsigned char disk[BLOCKS * BLOCK], model[BLOCKS * BLOCK];
static bool unknown[BLOCKS]; /* a write failed there */
static bool taken[BLOCKS];   /* an operation is about it */
static uint64_t seed;
static uint64_t disk_now_ns; /* runs much faster than the clock */

struct access {
	struct aio_op op;
	uint32_t first;
	uint32_t count;
	bool busy;
	bool was_late;
	unsigned char data[SPAN * BLOCK];
};

static struct access accesses[BUSY];
static uint32_t finished, failed, late_count;

static bool is_bad(uint32_t block)
{
	return block % 37 == 5;
}

static uint32_t below(uint32_t n)
{
	return (uint32_t)(test_random(&seed) % n);
}

/* Moves the first `limit` bytes of the call, but never into a bad block. The bytes moved. */
static int disk_move(const struct aio_io *io, uint64_t limit)
{
	uint64_t at = io->offset;

	for (uint32_t i = 0; i < io->vec_count; i++)
		for (size_t n = 0; n < io->vecs[i].iov_len; n++, at++) {
			unsigned char *byte = (unsigned char *)io->vecs[i].iov_base + n;
			if (at - io->offset == limit || is_bad((uint32_t)(at / BLOCK)))
				return (int)(at - io->offset);
			if (io->write)
				disk[at] = *byte;
			else
				*byte = disk[at];
		}
	return (int)(at - io->offset);
}

static bool disk_touches_bad(const struct aio_io *io)
{
	uint64_t end = io->offset + io_bytes(io);

	for (uint64_t b = io->offset / BLOCK; b * BLOCK < end; b++)
		if (is_bad((uint32_t)b))
			return true;
	return false;
}

/* One of the calls under way, by chance, comes back: whole, in part, or not well. */
static void disk_answer_one(void)
{
	struct list_link *l = under_way.next;

	for (uint32_t skip = below(under_way_count); skip && l->next != &under_way; skip--)
		l = l->next;
	struct aio_io *io = CONTAINER_OF(l, struct aio_io, link);
	uint64_t bytes = io_bytes(io);
	uint32_t dice = below(100);
	if (dice < 5) {
		answer(io, -EAGAIN);
	} else if (dice < 10) {
		answer(io, -EINTR);
	} else if (disk_touches_bad(io) && dice < 50) {
		answer(io, -EIO);
	} else {
		int moved = disk_move(io, dice < 80 ? bytes : 1 + below((uint32_t)bytes));
		answer(io, moved ? moved : -EIO);
	}
}

static void access_done(struct aio_op *op, int result)
{
	struct access *a = CONTAINER_OF(op, struct access, op);
	bool bad = false;

	for (uint32_t b = a->first; b < a->first + a->count; b++) {
		bad = bad || is_bad(b);
		assert_true(taken[b]);
		taken[b] = false;
		if (op->write)
			unknown[b] = result < 0;
	}
	if (result == -ETIMEDOUT)
		assert_true(op->timeout_ns);
	else
		assert_int_equal(result, bad ? -EIO : 0);
	if (result == 0 && op->write)
		memcpy(model + a->first * BLOCK, a->data, a->count * BLOCK);
	for (uint32_t i = 0; result == 0 && !op->write && i < a->count; i++)
		if (!unknown[a->first + i])
			assert_memory_equal(a->data + i * BLOCK, model + (a->first + i) * BLOCK,
					    BLOCK);
	failed += result < 0;
	finished++;
	assert_true(a->busy);
	a->busy = false;
}

static void access_late(struct aio_op *op)
{
	struct access *a = CONTAINER_OF(op, struct access, op);

	assert_true(a->busy && !a->was_late && op->timeout_ns);
	a->was_late = true;
	late_count++;
}

/* Blocks of which nobody else reads or writes; often right behind those of the one before. */
static bool access_place(struct access *a)
{
	static uint32_t behind;

	a->count = 1 + below(SPAN);
	a->first = below(4) && behind + a->count <= BLOCKS ? behind : below(BLOCKS - SPAN);
	for (uint32_t i = 0; i < a->count; i++)
		if (taken[a->first + i])
			return false;
	for (uint32_t i = 0; i < a->count; i++)
		taken[a->first + i] = true;
	behind = a->first + a->count;
	return true;
}

static void access_submit(struct aio *aio, struct access *a)
{
	static bool write;
	uint64_t timeout_ns = disk_now_ns - units_now_ns() + 3600 * UNITS_NS_PER_S;
	uint32_t cut;

	if (!access_place(a))
		return;
	if (below(6) == 0)
		write = !write;
	a->busy = true;
	a->was_late = false;
	for (size_t i = 0; i < sizeof(a->data); i++)
		a->data[i] = (unsigned char)test_random(&seed);
	cut = below(a->count * BLOCK);
	if (below(4) == 0)
		timeout_ns = 0;
	a->op = (struct aio_op){.fd = 3,
				.write = write,
				.offset = a->first * BLOCK,
				.vecs = {{a->data, cut}, {a->data + cut, a->count * BLOCK - cut}},
				.vec_count = 2,
				.timeout_ns = timeout_ns,
				.done = access_done,
				.late = access_late};
	aio_submit(aio, &a->op);
}

static void disk_run(uint64_t first_seed, uint32_t depth)
{
	struct aio *aio = start(depth);

	disk_now_ns = units_now_ns();
	seed = first_seed;
	finished = failed = late_count = 0;
	memset(disk, 0, sizeof(disk));
	memset(model, 0, sizeof(model));
	memset(unknown, 0, sizeof(unknown));
	for (; finished < OPS; disk_now_ns += UNITS_NS_PER_MS / 2) {
		struct access *a = &accesses[below(BUSY)];
		cancels = below(2);
		if (!a->busy)
			access_submit(aio, a);
		if (below(3) == 0)
			continue;
		flush_result = below(50) ? 0 : -EAGAIN;
		/* Now and then hours have passed, for which everybody is excused once. */
		for (uint32_t i = below(200) ? 0 : 2; i > 0; i--) {
			disk_now_ns += 7200 * UNITS_NS_PER_S;
			(void)aio_turn(aio, disk_now_ns);
		}
		(void)aio_turn(aio, disk_now_ns);
		assert_true(under_way_count <= depth);
		for (uint32_t i = below(4); i && !list_empty(&under_way); i--)
			disk_answer_one();
	}
	assert_true(failed > 100 && late_count > 5 && finished - failed > OPS / 2);
	assert_true(begun_count > 1000);
	/* And all are sent away. */
	cancels = true;
	flush_result = 0;
	while (!list_empty(&under_way))
		disk_answer_one();
	while (aio_pending(aio)) {
		(void)aio_turn(aio, disk_now_ns += UNITS_NS_PER_MS);
		while (!list_empty(&under_way))
			disk_answer_one();
	}
	for (uint32_t b = 0; b < BLOCKS; b++)
		if (!unknown[b])
			assert_memory_equal(disk + b * BLOCK, model + b * BLOCK, BLOCK);
	aio_free(aio);
}

static void test_a_disk_that_does_its_worst(void **state)
{
	const char *given = getenv("TEST_AIO_SEED");
	uint64_t first = given ? strtoull(given, NULL, 10) : 1;

	for (uint64_t s = first; s < first + (given ? 1 : 6); s++) {
		print_message("seed %llu\n", (unsigned long long)s);
		disk_run(s, s % 3 == 0 ? 1 : (uint32_t)(4 * s));
	}
}

TEST_MAIN(aio_queue, cmocka_unit_test(test_reads_before_writes_each_in_order),
	  cmocka_unit_test(test_depth_is_kept), cmocka_unit_test(test_neighbours_are_one_call),
	  cmocka_unit_test(test_a_joined_call_has_bounds),
	  cmocka_unit_test(test_a_bad_block_fails_alone),
	  cmocka_unit_test(test_short_calls_are_resumed),
	  cmocka_unit_test(test_nothing_moved_is_an_end),
	  cmocka_unit_test(test_again_is_tried_later_but_not_for_ever),
	  cmocka_unit_test(test_what_was_not_flushed_is_tried_again),
	  cmocka_unit_test(test_late_while_waiting_is_over_at_once),
	  cmocka_unit_test(test_late_in_the_kernel_is_said_once),
	  cmocka_unit_test(test_who_was_stopped_is_excused),
	  cmocka_unit_test(test_a_late_neighbour_harms_nobody),
	  cmocka_unit_test(test_done_may_submit), cmocka_unit_test(test_a_disk_that_does_its_worst))
