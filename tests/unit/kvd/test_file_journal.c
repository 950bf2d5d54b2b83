/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal: what was put is found again, in whatever state the file was left. The file is a
 * memfd and the core a fake, so a crash is a copy of the bytes at some moment.
 */
#include "base/bits.h"
#include "base/log.h"
#include "base/units.h"
#include "kvd/file_journal.h"
#include "kvd/file_recover.h"
#include "tests/test.h"
#include "tests/unit/kvd/fake_core.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <unistd.h>

struct run {
	struct file f;
	struct work work;
	uint32_t lane;
	struct core *core;
	struct file_journal *j;
	struct file_found found;
	uint64_t now_ns;
};

#define TIMEOUT_NS (20 * UNITS_NS_PER_S)
#define RETRY_NS (10 * UNITS_NS_PER_S)

static char error[256];

static uint8_t *file_bytes(const struct file *f)
{
	uint8_t *bytes = malloc(f->journal_bytes);

	assert_non_null(bytes);
	assert_int_equal(pread(f->journal_fd, bytes, f->journal_bytes, (off_t)f->journal_offset),
			 f->journal_bytes);
	return bytes;
}

/* Another file with the same bytes, as after a crash. */
static struct file file_copy(const struct file *f)
{
	struct file copy = fake_file_make(f->journal_bytes);
	uint8_t *bytes = file_bytes(f);

	memcpy(copy.uuid, f->uuid, sizeof(copy.uuid));
	copy.fresh = false;
	fake_file_set_bytes(&copy, bytes, f->journal_bytes);
	free(bytes);
	return copy;
}

/* --- a daemon's life -------------------------------------------------------------------------- */

static void run_begin(struct run *r, struct file f, uint32_t slots, uint32_t shift)
{
	*r = (struct run){.f = f, .now_ns = units_now_ns()};
	r->core = fake_core_new(slots, shift);
	assert_int_equal(work_init(&r->work, 1), 0);
	r->lane = (uint32_t)work_lane_new(&r->work);
	struct file_journal_config config = {.file = &r->f,
					     .area = FAKE_AREA,
					     .core = r->core,
					     .work = &r->work,
					     .lane = r->lane,
					     .timeout_ns = TIMEOUT_NS,
					     .retry_ns = RETRY_NS};
	int rc = file_journal_new(&r->j, &config, &r->found, error, sizeof(error));
	if (rc < 0)
		fail_msg("%s", error);
}

static void run_take(struct run *r)
{
	struct work_job *job;

	while ((job = work_take(&r->work)))
		job->done(job);
}

/* A turn, `after_ns` later. */
static void run_turn(struct run *r, uint64_t after_ns)
{
	r->now_ns += after_ns;
	run_take(r);
	file_journal_turn(r->j, r->now_ns);
}

static void probe_run(struct work_job *job)
{
}

/* Waits for the job that is under way: it ends before the lane's next. */
static void run_wait(struct run *r)
{
	struct work_job probe = {.run = probe_run}, *job = NULL;
	struct pollfd p = {.fd = r->work.fd, .events = POLLIN};

	work_submit_lane(&r->work, r->lane, &probe);
	while (job != &probe) {
		(void)poll(&p, 1, 1000);
		while (job != &probe && (job = work_take(&r->work)))
			if (job != &probe)
				job->done(job);
	}
}

/* All that was added is in the file; a checkpoint may be under way. */
static void run_flush(struct run *r)
{
	run_wait(r);
	run_turn(r, UNITS_NS_PER_S);
	run_turn(r, UNITS_NS_PER_S);
	run_wait(r);
}

/* Nothing is left to do. */
static void run_settle(struct run *r)
{
	run_wait(r);
	while (file_journal_deadline_ns(r->j) != UINT64_MAX) {
		uint64_t at = file_journal_deadline_ns(r->j);
		run_turn(r, at > r->now_ns ? at - r->now_ns : 0);
		run_wait(r);
	}
}

static void run_end(struct run *r, bool close_file)
{
	file_journal_close(r->j);
	assert_int_equal(work_stop(&r->work), 0);
	file_journal_free(r->j);
	work_fini(&r->work);
	fake_core_free(r->core);
	if (close_file)
		close(r->f.journal_fd);
}

/* What a file says. */
static struct core *recovered(const struct file *f, uint32_t slots, struct file_found *found)
{
	struct core *core = fake_core_new(slots, 5);
	struct file_recovered where;
	struct file_found own;

	assert_int_equal(file_recover(f, FAKE_AREA, core, found ? found : &own, &where), 0);
	return core;
}

static void assert_recovers(const struct file *f, const struct core *core)
{
	struct core *again = recovered(f, core->slot_count, NULL);

	assert_true(fake_core_same(core, again));
	fake_core_free(again);
}

static void one_step(struct run *r, uint64_t *random)
{
	uint32_t slot = (uint32_t)(test_random(random) % r->core->slot_count);

	if (test_random(random) % 4 == 0)
		fake_core_drop(r->core, r->j, slot);
	else
		fake_core_put(r->core, r->j, slot);
}

/* --- tests ------------------------------------------------------------------------------------ */

static void test_fresh(void **state)
{
	struct run r;

	run_begin(&r, fake_file_make(FAKE_JOURNAL_BYTES), FAKE_SLOTS, 0);
	assert_int_equal(r.found.records, 0);
	run_settle(&r);
	assert_int_equal(file_journal_state(r.j), 0);
	assert_recovers(&r.f, r.core);
	run_end(&r, true);
	file_journal_free(NULL);
}

/* Again and again closed and opened, with format numbers of its own each time. */
static void test_round_trip(void **state)
{
	struct file f = fake_file_make(FAKE_JOURNAL_BYTES);
	struct core *was = fake_core_new(FAKE_SLOTS, 0);
	uint64_t random = 1;

	for (uint32_t life = 0; life < 30; life++) {
		struct run r;

		run_begin(&r, f, FAKE_SLOTS, life);
		assert_true(fake_core_same(was, r.core));
		assert_int_equal(r.found.blocks, was->live);
		assert_int_equal(r.found.refused, 0);
		assert_false(r.found.torn);
		for (uint64_t i = test_random(&random) % 1000; i; i--) {
			one_step(&r, &random);
			if (test_random(&random) % 8 == 0) {
				run_turn(&r, UNITS_NS_PER_MS * 50);
				run_wait(&r);
			}
		}
		memcpy(was->slots, r.core->slots, FAKE_SLOTS * sizeof(was->slots[0]));
		was->live = r.core->live;
		assert_int_equal(file_journal_lost(r.j), 0);
		f = r.f;
		f.fresh = false;
		run_end(&r, false);
	}
	fake_core_free(was);
	close(f.journal_fd);
}

static void test_drop_and_reuse(void **state)
{
	struct run r;

	run_begin(&r, fake_file_make(FAKE_JOURNAL_BYTES), FAKE_SLOTS, 0);
	fake_core_put(r.core, r.j, 1);
	fake_core_put(r.core, r.j, 2);
	fake_core_put(r.core, r.j, 3);
	fake_core_drop(r.core, r.j, 1);
	fake_core_put(r.core, r.j, 2);
	fake_core_drop(r.core, r.j, 3);
	fake_core_put(r.core, r.j, 3);
	run_settle(&r);
	struct core *again = recovered(&r.f, FAKE_SLOTS, NULL);
	assert_int_equal(again->live, 2);
	assert_int_equal(again->slots[1], 0);
	assert_true(fake_core_same(r.core, again));
	fake_core_free(again);
	run_end(&r, true);
}

/* At each moment at which all is written, also within checkpoints, all is found. */
static void test_crash_between_writes(void **state)
{
	struct run r;
	uint64_t random = 2;

	run_begin(&r, fake_file_make(FAKE_JOURNAL_BYTES), 2000, 0);
	for (int i = 0; i < 800; i++) {
		/* Some 100 live ones, at random among 2000 that a checkpoint walks. */
		for (int k = 0; k < 4; k++) {
			uint32_t slot = (uint32_t)(test_random(&random) % 100 * 20);
			if (test_random(&random) % 3 == 0)
				fake_core_drop(r.core, r.j, slot);
			else
				fake_core_put(r.core, r.j, slot);
		}
		run_flush(&r);
		assert_recovers(&r.f, r.core);
	}
	assert_int_equal(file_journal_lost(r.j), 0);
	run_end(&r, true);
}

/* Lives that end in a crash while things are written, and go on from what was left. */
static void test_crash_at_any_time(void **state)
{
	struct file f = fake_file_make(FAKE_JOURNAL_BYTES);
	uint64_t random = 3, found = 0;

	for (uint32_t life = 0; life < 60; life++) {
		struct run r;

		run_begin(&r, f, FAKE_SLOTS, life);
		found += r.found.blocks;
		for (uint64_t i = test_random(&random) % 2000; i; i--) {
			one_step(&r, &random);
			if (test_random(&random) % 8 == 0)
				run_turn(&r, UNITS_NS_PER_MS * 50);
		}
		f = file_copy(&r.f);
		run_end(&r, true);
	}
	assert_true(found > 1000);
	close(f.journal_fd);
}

/* An image in which both halves hold something. */
static void image(struct run *r, uint64_t seed)
{
	run_begin(r, fake_file_make(FAKE_JOURNAL_BYTES), FAKE_SLOTS, 0);
	for (int i = 0; i < 700; i++) {
		one_step(r, &seed);
		run_turn(r, UNITS_NS_PER_MS * 100);
	}
	run_settle(r);
}

/* What is not there cannot be found, but what stands before it can. */
static void test_truncated(void **state)
{
	struct run r;

	image(&r, 4);
	uint8_t *bytes = file_bytes(&r.f);
	struct file f = file_copy(&r.f);
	uint64_t best = 0;

	for (uint64_t cut = 0; cut <= FAKE_JOURNAL_BYTES; cut += 97) {
		fake_file_set_bytes(&f, bytes, cut);
		struct core *core = recovered(&f, FAKE_SLOTS, NULL);
		best = BITS_MAX(best, core->live);
		fake_core_free(core);
	}
	assert_true(best > 0);
	/* The file itself may end there; that is said, many times. */
	log_level_max = LOG_ERROR;
	fake_file_set_bytes(&f, bytes, FAKE_JOURNAL_BYTES);
	for (uint64_t cut = FAKE_JOURNAL_BYTES; cut > 2000; cut -= 1999) {
		assert_int_equal(ftruncate(f.journal_fd, (off_t)(f.journal_offset + cut)), 0);
		fake_core_free(recovered(&f, FAKE_SLOTS, NULL));
	}
	log_level_max = LOG_WARN;
	free(bytes);
	close(f.journal_fd);
	run_end(&r, true);
}

/* The end of the last record is cut: all but that is found. */
static void test_torn_tail(void **state)
{
	struct run r;
	struct file_found found;

	run_begin(&r, fake_file_make(FAKE_JOURNAL_BYTES), FAKE_SLOTS, 0);
	run_settle(&r);
	for (uint32_t i = 0; i < 20; i++)
		fake_core_put(r.core, r.j, i);
	run_settle(&r);
	uint8_t *bytes = file_bytes(&r.f);
	uint64_t end = FAKE_JOURNAL_BYTES / 2;
	while (bytes[end - 1] == 0)
		end--;
	bytes[end - 1] ^= 0xff;
	fake_file_set_bytes(&r.f, bytes, FAKE_JOURNAL_BYTES);
	struct core *core = recovered(&r.f, FAKE_SLOTS, &found);
	assert_true(found.torn);
	assert_int_equal(core->live, 19);
	assert_int_equal(core->slots[19], 0);
	fake_core_free(core);
	free(bytes);
	run_end(&r, true);
}

static void test_flipped(void **state)
{
	struct run r;

	image(&r, 5);
	uint8_t *bytes = file_bytes(&r.f);
	struct file f = file_copy(&r.f);
	uint64_t random = 6;

	for (int i = 0; i < 3000; i++) {
		uint64_t at = test_random(&random) % FAKE_JOURNAL_BYTES;
		uint8_t flip = (uint8_t)(1u << test_random(&random) % 8);

		bytes[at] ^= flip;
		assert_int_equal(
			pwrite(f.journal_fd, &bytes[at], 1, (off_t)(f.journal_offset + at)), 1);
		fake_core_free(recovered(&f, FAKE_SLOTS, NULL));
		bytes[at] ^= flip;
		(void)!pwrite(f.journal_fd, &bytes[at], 1, (off_t)(f.journal_offset + at));
	}
	/* Blocks that change places, and what is not ours at all. */
	for (int i = 0; i < 300; i++) {
		uint64_t from = test_random(&random) % (FAKE_JOURNAL_BYTES / 512) * 512;
		uint64_t to = test_random(&random) % (FAKE_JOURNAL_BYTES / 512) * 512;

		(void)!pwrite(f.journal_fd, &bytes[from], 512, (off_t)(f.journal_offset + to));
		fake_core_free(recovered(&f, FAKE_SLOTS, NULL));
		fake_file_set_bytes(&f, bytes, FAKE_JOURNAL_BYTES);
	}
	assert_recovers(&f, r.core);
	free(bytes);
	close(f.journal_fd);
	run_end(&r, true);
}

static void test_other_uuid(void **state)
{
	struct run r;

	image(&r, 7);
	struct file f = file_copy(&r.f);
	struct file_found found;

	f.uuid[3] ^= 1;
	struct core *core = recovered(&f, FAKE_SLOTS, &found);
	assert_int_equal(core->live, 0);
	assert_int_equal(found.records, 0);
	fake_core_free(core);
	close(f.journal_fd);
	run_end(&r, true);
}

static void test_refused_by_the_core(void **state)
{
	struct run r;

	image(&r, 8);
	struct file f = file_copy(&r.f);
	struct core *core = fake_core_new(FAKE_SLOTS, 0);
	struct file_recovered where;
	struct file_found found;
	uint64_t all = r.core->live;

	core->format_gone = 1u << 2;
	assert_int_equal(file_recover(&f, FAKE_AREA, core, &found, &where), 0);
	assert_true(found.refused > 0 && found.refused < all);
	assert_int_equal(found.blocks + found.refused, all);
	fake_core_free(core);
	core = fake_core_new(FAKE_SLOTS, 0);
	core->refuse = -ENOENT;
	assert_int_equal(file_recover(&f, FAKE_AREA, core, &found, &where), 0);
	assert_int_equal(found.refused, all);
	fake_core_free(core);
	close(f.journal_fd);
	run_end(&r, true);
}

/* More than a half holds: what fits is found, and when less is live again, all of it. */
static void test_too_much(void **state)
{
	struct run r;

	run_begin(&r, fake_file_make(FAKE_JOURNAL_BYTES), 1000, 0);
	for (int round = 0; round < 3; round++)
		for (uint32_t i = 0; i < 1000; i++) {
			fake_core_put(r.core, r.j, i);
			run_turn(&r, UNITS_NS_PER_MS);
		}
	run_settle(&r);
	assert_true(file_journal_lost(r.j) > 0);
	struct core *core = recovered(&r.f, 1000, NULL);
	assert_in_range(core->live, 50, 999);
	fake_core_free(core);
	for (uint32_t i = 100; i < 1000; i++)
		fake_core_drop(r.core, r.j, i);
	for (int i = 0; i < 1000; i++) {
		fake_core_put(r.core, r.j, (uint32_t)i % 100);
		run_turn(&r, UNITS_NS_PER_MS);
	}
	run_settle(&r);
	assert_recovers(&r.f, r.core);
	assert_int_equal(file_journal_state(r.j), 0);
	run_end(&r, true);
}

struct blocker {
	struct work_job job;
	sem_t go;
};

static void blocker_run(struct work_job *job)
{
	sem_wait(&CONTAINER_OF(job, struct blocker, job)->go);
}

static void blocker_done(struct work_job *job)
{
}

/*
 * A disk that hangs for a while costs records, not memory and not the loop; and a checkpoint,
 * though the half has plenty of room.
 */
static void test_slow_worker(void **state)
{
	struct blocker b = {.job = {.run = blocker_run, .done = blocker_done}};
	struct run r;

	run_begin(&r, fake_file_make(256u << 20), 20000, 0);
	run_settle(&r);
	sem_init(&b.go, 0, 0);
	work_submit_lane(&r.work, r.lane, &b.job);
	for (uint32_t i = 0; i < 35000; i++) {
		fake_core_put(r.core, r.j, i % 20000);
		if (i % 100 == 0)
			run_turn(&r, UNITS_NS_PER_MS);
	}
	assert_true(file_journal_lost(r.j) > 0);
	sem_post(&b.go);
	run_settle(&r);
	assert_recovers(&r.f, r.core);
	run_end(&r, true);
}

/* A file that cannot be written for a while. */
static void test_write_fails(void **state)
{
	char name[64];
	struct run r;

	run_begin(&r, fake_file_make(FAKE_JOURNAL_BYTES), FAKE_SLOTS, 0);
	fake_core_put(r.core, r.j, 1);
	run_settle(&r);
	int good = r.f.journal_fd;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", good);
	r.f.journal_fd = open(name, O_RDONLY | O_CLOEXEC);
	fake_core_put(r.core, r.j, 2);
	run_flush(&r);
	assert_int_equal(file_journal_state(r.j), -EBADF);
	fake_core_put(r.core, r.j, 3);
	assert_int_equal(file_journal_lost(r.j), 1);
	/* A checkpoint is tried, and fails too. */
	for (int i = 0; i < 40; i++)
		run_flush(&r);
	assert_int_equal(file_journal_state(r.j), -EBADF);
	struct core *core = recovered(&r.f, FAKE_SLOTS, NULL);
	assert_int_equal(core->live, 1);
	fake_core_free(core);
	close(r.f.journal_fd);
	r.f.journal_fd = good;
	run_settle(&r);
	assert_int_equal(file_journal_state(r.j), 0);
	assert_recovers(&r.f, r.core);
	run_end(&r, true);
}

/* Written it is, synced it cannot be: tried again when it is time for that, not in every turn. */
static void test_sync_fails(void **state)
{
	int ends[2];
	struct run r;

	run_begin(&r, fake_file_make(FAKE_JOURNAL_BYTES), FAKE_SLOTS, 0);
	run_settle(&r);
	/* Records that were written and not synced. */
	r.now_ns += UNITS_NS_PER_MS;
	fake_core_put(r.core, r.j, 1);
	run_turn(&r, 1);
	run_turn(&r, FILE_JOURNAL_FLUSH_NS);
	run_wait(&r);
	assert_true(file_journal_deadline_ns(r.j) != UINT64_MAX);
	int good = r.f.journal_fd;
	/* A pipe has nothing to sync, and takes no pwrite() either. */
	assert_int_equal(pipe(ends), 0);
	r.f.journal_fd = ends[1];
	run_turn(&r, 2 * UNITS_NS_PER_S);
	run_wait(&r);
	assert_int_equal(file_journal_state(r.j), -EINVAL);
	assert_int_equal(file_journal_deadline_ns(r.j), r.now_ns + RETRY_NS);
	r.f.journal_fd = good;
	close(ends[0]);
	close(ends[1]);
	run_settle(&r);
	assert_int_equal(file_journal_state(r.j), 0);
	assert_recovers(&r.f, r.core);
	run_end(&r, true);
}

/* It is said while it lasts, and not when it was the loop that stood still. */
static void test_write_hangs(void **state)
{
	struct blocker b = {.job = {.run = blocker_run, .done = blocker_done}};
	struct run r;

	run_begin(&r, fake_file_make(FAKE_JOURNAL_BYTES), FAKE_SLOTS, 0);
	run_settle(&r);
	for (int stopped = 0; stopped < 2; stopped++) {
		sem_init(&b.go, 0, 0);
		work_submit_lane(&r.work, r.lane, &b.job);
		fake_core_put(r.core, r.j, 1);
		run_turn(&r, 1);
		run_turn(&r, FILE_JOURNAL_FLUSH_NS);
		uint64_t at_ns = file_journal_deadline_ns(r.j);
		assert_int_equal(at_ns, r.now_ns + TIMEOUT_NS);
		if (stopped) {
			run_turn(&r, TIMEOUT_NS + UNITS_NS_PER_S);
			assert_int_equal(file_journal_state(r.j), 0);
			at_ns = file_journal_deadline_ns(r.j);
			assert_int_equal(at_ns, r.now_ns + UNITS_NS_PER_S);
		}
		run_turn(&r, at_ns - r.now_ns);
		assert_int_equal(file_journal_state(r.j), -ETIMEDOUT);
		assert_int_equal(file_journal_deadline_ns(r.j), UINT64_MAX);
		sem_post(&b.go);
		run_settle(&r);
		assert_int_equal(file_journal_state(r.j), 0);
	}
	assert_recovers(&r.f, r.core);
	run_end(&r, true);
}

static void test_deadlines(void **state)
{
	struct run r;

	run_begin(&r, fake_file_make(FAKE_JOURNAL_BYTES), FAKE_SLOTS, 0);
	run_settle(&r);
	assert_true(file_journal_deadline_ns(r.j) == UINT64_MAX);
	fake_core_put(r.core, r.j, 1);
	assert_true(file_journal_deadline_ns(r.j) == 0);
	run_turn(&r, 1);
	assert_true(file_journal_deadline_ns(r.j) == r.now_ns + FILE_JOURNAL_FLUSH_NS);
	struct core *core = recovered(&r.f, FAKE_SLOTS, NULL);
	assert_int_equal(core->live, 0);
	fake_core_free(core);
	run_turn(&r, FILE_JOURNAL_FLUSH_NS);
	run_wait(&r);
	assert_recovers(&r.f, r.core);
	run_end(&r, true);
}

/* Many: KVD_JOURNAL_BLOCKS=1000000 says how long a start takes. */
static void test_many(void **state)
{
	const char *wanted = getenv("KVD_JOURNAL_BLOCKS");
	uint32_t count = wanted ? (uint32_t)strtoul(wanted, NULL, 10) : 50000;
	struct file_recovered where;
	struct file_found found;
	struct run r;

	run_begin(&r, fake_file_make(bits_align_up(count * 1024ull + (8u << 20), 1u << 20)), count,
		  0);
	r.core->tokens = FAKE_PAGE_TOKENS;
	for (uint32_t i = 0; i < count; i++) {
		fake_core_put(r.core, r.j, i);
		if (i % 5000 == 0)
			run_settle(&r);
	}
	run_settle(&r);
	assert_int_equal(file_journal_lost(r.j), 0);
	struct core *core = fake_core_new(count, 1);
	core->blind = true;
	assert_int_equal(file_recover(&r.f, FAKE_AREA, core, &found, &where), 0);
	assert_int_equal(found.blocks, count);
	print_message("%u blocks of %u tokens in %.3f s\n", count, FAKE_PAGE_TOKENS,
		      (double)found.took_ns / 1e9);
	fake_core_free(core);
	run_end(&r, true);
}

TEST_MAIN(file_journal, cmocka_unit_test(test_fresh), cmocka_unit_test(test_round_trip),
	  cmocka_unit_test(test_drop_and_reuse), cmocka_unit_test(test_crash_between_writes),
	  cmocka_unit_test(test_crash_at_any_time), cmocka_unit_test(test_truncated),
	  cmocka_unit_test(test_torn_tail), cmocka_unit_test(test_flipped),
	  cmocka_unit_test(test_other_uuid), cmocka_unit_test(test_refused_by_the_core),
	  cmocka_unit_test(test_too_much), cmocka_unit_test(test_slow_worker),
	  cmocka_unit_test(test_write_fails), cmocka_unit_test(test_sync_fails),
	  cmocka_unit_test(test_write_hangs), cmocka_unit_test(test_deadlines),
	  cmocka_unit_test(test_many))
