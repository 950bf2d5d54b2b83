/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mover: bytes arrive in every direction, between host memory, the DRAM tier, files and GPUs;
 * what is not the block that was stored is not given to anybody; errors and delays of files and
 * devices come to the core once, and nothing that is under way is lost or freed too early.
 */
#include "base/atomic.h"
#include "base/bits.h"
#include "base/units.h"
#include "tests/test.h"
#include "tests/unit/kvd/mover_world.h"
#include <errno.h>
#include <unistd.h>

static const struct world_args kinds[] = {{WORLD_HOST}, {WORLD_GPU}, {WORLD_GPUS}};

static int begin(void **state)
{
	world_begin(*state ? *state : &kinds[0]);
	return 0;
}

static int end(void **state)
{
	world_end();
	return 0;
}

static struct core_slot file_slot(uint32_t number)
{
	return world_slot(CORE_TIER_FILE, number % WORLD_FILES, number);
}

static struct core_slot dram_slot(uint32_t number)
{
	return world_slot(CORE_TIER_DRAM, 0, number);
}

static struct core_transfer store(uint32_t id, uint32_t block, struct core_slot slot)
{
	return world_transfer(CORE_TRANSFER_STORE, id, block, slot);
}

static struct core_transfer load(uint32_t id, uint32_t block, struct core_slot slot)
{
	return world_transfer(CORE_TRANSFER_LOAD, id, block, slot);
}

static struct core_transfer verify(uint32_t id, struct core_slot slot)
{
	return world_transfer(CORE_TRANSFER_VERIFY, id, 0, slot);
}

static struct core_transfer restore(uint32_t id, struct core_slot from, struct core_slot to)
{
	struct core_transfer t = world_transfer(CORE_TRANSFER_STORE, id, 0, to);

	t.from_slot = from;
	return t;
}

/* Changes one byte of what a slot of a file holds, behind its header. */
static void spoil_file(struct core_slot slot, uint64_t at)
{
	const struct file *f = &world.files[slot.area];
	off_t offset = (off_t)(file_slot_offset(f, &slot) + at);
	uint8_t byte;

	assert_int_equal(pread(f->fd, &byte, 1, offset), 1);
	byte ^= 1;
	assert_int_equal(pwrite(f->fd, &byte, 1, offset), 1);
}

/* --- directions ---------------------------------------------------------------------------------
 */

static void test_file_and_back(void **state)
{
	world.copy_polls = 3;
	for (uint32_t i = 0; i < 4; i++) {
		world_fill(i, i);
		assert_int_equal(world_move(store(i, i, file_slot(i))), 0);
	}
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(world_move(load(i, 8 + i, file_slot(i))), 0);
		assert_true(world_holds(8 + i, i));
		assert_int_equal(world_move(verify(i, file_slot(i))), 0);
	}
	assert_int_equal(world.written, 4);
}

static void test_dram_and_back(void **state)
{
	for (uint32_t i = 0; i < 4; i++) {
		world_fill(i, i);
		assert_int_equal(world_move(store(i, i, dram_slot(i))), 0);
	}
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(world_move(load(i, 8 + i, dram_slot(i))), 0);
		assert_true(world_holds(8 + i, i));
		assert_int_equal(world_move(verify(i, dram_slot(i))), 0);
	}
	assert_int_equal(world.submitted, 0);
}

/* Down the tiers and up again, each slot with a header of its own. */
static void test_from_slot_to_slot(void **state)
{
	world_fill(1, 1);
	assert_int_equal(world_move(store(5, 1, dram_slot(1))), 0);
	assert_int_equal(world_move(restore(5, dram_slot(1), file_slot(2))), 0);
	assert_int_equal(world_move(restore(5, file_slot(2), file_slot(3))), 0);
	assert_int_equal(world_move(restore(5, file_slot(3), dram_slot(4))), 0);
	assert_int_equal(world_move(verify(5, dram_slot(1))), 0);
	assert_int_equal(world_move(verify(5, file_slot(2))), 0);
	assert_int_equal(world_move(load(5, 9, dram_slot(4))), 0);
	assert_true(world_holds(9, 1));
}

static void test_many_at_once(void **state)
{
	world.copy_polls = 2;
	for (uint32_t i = 0; i < WORLD_PAGES; i++) {
		world_fill(i, i);
		struct core_transfer t = store(i, i, i % 2 ? file_slot(i) : dram_slot(i));
		mover_start(world.mover, &t);
	}
	assert_int_equal(mover_pending(world.mover), WORLD_PAGES);
	world_run();
	for (uint32_t i = 0; i < WORLD_PAGES; i++) {
		uint32_t to = WORLD_PAGES - 1 - i;
		struct core_transfer t = load(i, to, i % 2 ? file_slot(i) : dram_slot(i));
		mover_start(world.mover, &t);
	}
	world_run();
	for (uint32_t i = 0; i < WORLD_PAGES; i++) {
		assert_int_equal(world.done[i], 2);
		assert_int_equal(world.results[i], 0);
		assert_true(world_holds(WORLD_PAGES - 1 - i, i));
	}
}

/* --- what is not the block ----------------------------------------------------------------------
 */

static void test_spoiled_file(void **state)
{
	world_fill(1, 1);
	assert_int_equal(world_move(store(0, 1, file_slot(1))), 0);
	spoil_file(file_slot(1), FILE_HEADER_BYTES + 12345);
	assert_int_equal(world_move(load(0, 2, file_slot(1))), -EBADMSG);
	assert_int_equal(world_move(verify(0, file_slot(1))), -EBADMSG);
	spoil_file(file_slot(1), FILE_HEADER_BYTES + 12345);
	assert_int_equal(world_move(verify(0, file_slot(1))), 0);
	spoil_file(file_slot(1), 0);
	assert_int_equal(world_move(verify(0, file_slot(1))), -EBADMSG);
}

static void test_another_block(void **state)
{
	struct core_transfer t = load(0, 2, file_slot(1));

	world_fill(1, 1);
	assert_int_equal(world_move(store(0, 1, file_slot(1))), 0);
	assert_int_equal(world_move(t), 0);
	t.slot.generation++;
	assert_int_equal(world_move(t), -EBADMSG);
	t.slot.generation--;
	t.key[0]++;
	assert_int_equal(world_move(t), -EBADMSG);
	assert_int_equal(world_move(verify(0, file_slot(3))), -EBADMSG);
}

/* It goes nowhere: neither to pages nor to the next tier. */
static void test_spoiled_dram(void **state)
{
	world_fill(1, 1);
	world_fill(2, 2);
	assert_int_equal(world_move(store(0, 1, dram_slot(1))), 0);
	world.dram[dram_slot(1).offset_bytes + FILE_HEADER_BYTES + 9] ^= 1;
	assert_int_equal(world_move(verify(0, dram_slot(1))), -EBADMSG);
	assert_int_equal(world_move(load(0, 2, dram_slot(1))), -EBADMSG);
	assert_true(world_holds(2, 2));
	assert_int_equal(world_move(restore(0, dram_slot(1), file_slot(1))), -EBADMSG);
	assert_int_equal(world.submitted, 0);
}

/* --- files that fail ----------------------------------------------------------------------------
 */

static struct kvd_area_stat stat_of(uint32_t area)
{
	struct kvd_area_stat s = {.tier = KVD_TIER_FILE, .area = area};

	mover_stat(world.mover, &s, 1);
	return s;
}

static void test_read_errors_degrade(void **state)
{
	world_fill(1, 1);
	assert_int_equal(world_move(store(0, 1, file_slot(1))), 0);
	world.errors[1] = world.errors[2] = -EIO;
	world.errors[4] = world.errors[5] = world.errors[6] = -EIO;
	assert_int_equal(world_move(load(0, 2, file_slot(1))), -EIO);
	assert_int_equal(world_move(load(0, 2, file_slot(1))), -EIO);
	assert_int_equal(world_move(load(0, 2, file_slot(1))), 0);
	assert_int_equal(world_move(load(0, 2, file_slot(1))), -EIO);
	assert_int_equal(world_move(load(0, 2, file_slot(1))), -EIO);
	assert_false(world.down[1]);
	assert_int_equal(stat_of(1).state, KVD_AREA_OK);
	assert_int_equal(world_move(load(0, 2, file_slot(1))), -EIO);
	assert_true(world.down[1]);
	assert_false(world.down[0]);
	assert_int_equal(world.downs, 1);
	assert_int_equal(stat_of(1).state, KVD_AREA_DEGRADED);
	assert_int_equal(stat_of(1).errors, 5);
	assert_string_equal(stat_of(1).engine, "fake");
	assert_string_equal(stat_of(1).path, "file-1");
}

static void test_full_disk_degrades_at_once(void **state)
{
	world.errors[0] = -ENOSPC;
	assert_int_equal(world_move(store(0, 1, file_slot(0))), -ENOSPC);
	assert_true(world.down[0]);
}

/* Probed when it is time, and not before; a probe that fails waits for longer. */
static void test_comes_back(void **state)
{
	uint64_t first_ns = 1000 * UNITS_NS_PER_S;

	world.errors[0] = -ENOSPC;
	world.errors[1] = -EIO;
	assert_int_equal(world_move(store(0, 1, file_slot(0))), -ENOSPC);
	uint64_t at_ns = mover_deadline_ns(world.mover);
	assert_true(at_ns > units_now_ns() && at_ns <= units_now_ns() + first_ns);
	world_turn(at_ns - 1);
	assert_int_equal(world.submitted, 1);
	world_turn(at_ns);
	assert_int_equal(world.submitted, 2);
	assert_true(world.down[0]);
	at_ns = mover_deadline_ns(world.mover);
	assert_true(at_ns > units_now_ns() + first_ns && at_ns != UINT64_MAX);
	world_turn(at_ns);
	assert_int_equal(world.submitted, 3);
	assert_false(world.down[0]);
	assert_int_equal(world.downs, 2);
	assert_int_equal(mover_deadline_ns(world.mover), UINT64_MAX);
	assert_int_equal(world_move(store(0, 1, file_slot(0))), 0);
}

static void test_late_then_done(void **state)
{
	world_fill(1, 1);
	assert_int_equal(world_move(store(0, 1, file_slot(1))), 0);
	world.held = true;
	struct core_transfer t = load(7, 2, file_slot(1));
	mover_start(world.mover, &t);
	world_turn(units_now_ns());
	world_io_late();
	world_io_late();
	world_turn(units_now_ns());
	assert_int_equal(world.late[7], 1);
	assert_int_equal(world.done[7], 0);
	assert_true(mover_deadline_ns(world.mover) > units_now_ns());
	assert_true(world.down[1]);
	/* Its pages are not free: their slabs are held. */
	assert_int_equal(slabmap_find(&world.devmem.map, t.pages[0])->holds, 1);
	/* Nobody waits for it, and as long as it is under way nobody tries the file. */
	assert_int_equal(mover_pending(world.mover), 1);
	assert_int_equal(mover_awaited(world.mover), 0);
	assert_true(mover_deadline_ns(world.mover) == UINT64_MAX);
	world.held = false;
	world_run();
	assert_true(mover_deadline_ns(world.mover) != UINT64_MAX);
	assert_int_equal(world.done[7], 1);
	assert_int_equal(world.results[7], 0);
	assert_true(world_holds(2, 1));
	assert_int_equal(slabmap_find(&world.devmem.map, t.pages[0])->holds, 0);
	/* The number is used again, and nothing of the late one is left. */
	assert_int_equal(world_move(load(7, 3, file_slot(1))), 0);
	assert_int_equal(world.late[7], 1);
}

/* A file that can be read says nothing about whether it can be written. */
static void test_probed_by_what_failed(void **state)
{
	world.errors[0] = -ENOSPC;
	assert_int_equal(world_move(store(0, 1, file_slot(0))), -ENOSPC);
	uint32_t written = world.written;
	world_turn(mover_deadline_ns(world.mover));
	assert_false(world.down[0]);
	assert_int_equal(world.written, written + 1);
	/* It lies where nobody looks. */
	assert_int_equal(world_move(store(0, 1, file_slot(0))), 0);
	for (int i = 0; i < 3; i++)
		world.errors[world.submitted + (uint32_t)i] = -EIO;
	for (int i = 0; i < 3; i++)
		assert_int_equal(world_move(load(0, 2, file_slot(0))), -EIO);
	assert_true(world.down[0]);
	written = world.written;
	world_turn(mover_deadline_ns(world.mover));
	assert_false(world.down[0]);
	assert_int_equal(world.written, written);
}

/* A journal that fails or hangs is the file's failure, as long as it lasts: it is not probed. */
static void test_journal_degrades(void **state)
{
	static const int states[] = {-EIO, -ETIMEDOUT};

	for (size_t i = 0; i < ARRAY_LEN(states); i++) {
		mover_file_journal(world.mover, 1, 0);
		mover_file_journal(world.mover, 1, states[i]);
		mover_file_journal(world.mover, 1, states[i]);
		assert_int_equal(mover_deadline_ns(world.mover), 0);
		world_turn(units_now_ns());
		assert_true(world.down[1]);
		assert_false(world.down[0]);
		assert_int_equal(stat_of(1).errors, i + 1);
		assert_true(mover_deadline_ns(world.mover) == UINT64_MAX);
		mover_file_journal(world.mover, 1, 0);
		world_turn(mover_deadline_ns(world.mover));
		assert_false(world.down[1]);
	}
}

static void test_a_slot_behind_the_end(void **state)
{
	assert_int_equal(ftruncate(world.files[1].fd, 8192), 0);
	assert_int_equal(world_move(load(0, 1, file_slot(1))), -ENODATA);
}

/* At one byte a second nothing but the first would ever begin: reads go before writes. */
static void test_throttle(void **state)
{
	struct core_transfer first = store(0, 1, file_slot(0));
	struct core_transfer second = store(1, 2, file_slot(2));
	struct core_transfer third = verify(2, file_slot(0));

	mover_start(world.mover, &first);
	world_turn(units_now_ns());
	assert_int_equal(world.done[0], 1);
	mover_start(world.mover, &second);
	world_turn(units_now_ns());
	mover_start(world.mover, &third);
	world_turn(units_now_ns());
	assert_int_equal(world.submitted, 1);
	uint64_t at_ns = mover_deadline_ns(world.mover);
	assert_true(at_ns > units_now_ns() + 10000 * UNITS_NS_PER_S && at_ns != UINT64_MAX);
	world_turn(at_ns);
	assert_int_equal(world.done[2], 1);
	assert_int_equal(world.results[2], 0);
	assert_int_equal(world.done[1], 0);
	world_turn(mover_deadline_ns(world.mover));
	assert_int_equal(world.done[1], 1);
	/* The other file is as fast as it was. */
	assert_int_equal(world_move(store(0, 1, file_slot(1))), 0);
}

/* --- staging memory and GPUs --------------------------------------------------------------------
 */

/* There is room for one: the others wait their turn, and all get it. */
static void test_staging_memory_is_shared(void **state)
{
	world.copy_polls = 2;
	for (uint32_t i = 0; i < 8; i++) {
		world_fill(i, i);
		struct core_transfer t = store(i, i, file_slot(i));
		mover_start(world.mover, &t);
	}
	world_run();
	for (uint32_t i = 0; i < 8; i++) {
		assert_int_equal(world_move(load(i, 8 + i, file_slot(i))), 0);
		assert_true(world_holds(8 + i, i));
	}
}

/* Who waits for it too long is late, and still gets it. */
static void test_late_for_staging_memory(void **state)
{
	struct core_transfer first = store(0, 1, file_slot(0));
	struct core_transfer second = store(1, 2, file_slot(1));

	world_fill(2, 2);
	world.held = true;
	mover_start(world.mover, &first);
	mover_start(world.mover, &second);
	world_turn(units_now_ns());
	assert_int_equal(world.late[1], 0);
	world_turn(units_now_ns() + 7200 * UNITS_NS_PER_S);
	assert_int_equal(world.late[0], 0);
	assert_int_equal(world.late[1], 1);
	world.held = false;
	world_run();
	assert_int_equal(world.results[1], 0);
	assert_int_equal(world_move(load(1, 9, file_slot(1))), 0);
	assert_true(world_holds(9, 2));
}

static void test_a_slot_larger_than_staging_memory(void **state)
{
	struct core_transfer t = store(0, 1, file_slot(0));

	t.slot.bytes *= 2;
	assert_int_equal(world_move(t), -EFBIG);
	assert_int_equal(world_move(store(0, 1, file_slot(0))), 0);
}

static void test_copies_that_cannot_start(void **state)
{
	world_fill(1, 1);
	for (uint32_t i = 0; i < WORLD_PARTS; i++) {
		memset(world.copy_errors, 0, sizeof(world.copy_errors));
		world.copy_at = 0;
		world.copy_errors[i] = -EIO;
		assert_int_equal(world_move(store(i, 1, dram_slot(1))), -EIO);
	}
	memset(world.copy_errors, 0, sizeof(world.copy_errors));
	assert_int_equal(world_move(store(0, 1, dram_slot(1))), 0);
	struct kvd_area_stat s = {.tier = KVD_TIER_DRAM};
	mover_stat(world.mover, &s, 1);
	assert_int_equal(s.errors, WORLD_PARTS);
	assert_string_equal(s.engine, "memory");
}

static void test_a_device_that_breaks(void **state)
{
	world.poll_error = -EIO;
	assert_int_equal(world_move(store(0, 1, dram_slot(1))), -EIO);
	assert_int_equal(world_move(store(0, 1, file_slot(1))), -EIO);
	assert_int_equal(stat_of(1).errors, 0);
}

static void test_a_device_that_is_slow(void **state)
{
	struct core_transfer t = store(3, 1, dram_slot(1));

	world_fill(1, 1);
	world.copy_polls = 2000;
	mover_start(world.mover, &t);
	(void)mover_turn(world.mover, units_now_ns() + 7200 * UNITS_NS_PER_S);
	assert_int_equal(world.late[3], 1);
	world_run();
	assert_int_equal(world.done[3], 1);
	assert_int_equal(world.results[3], 0);
	world.copy_polls = 0;
	assert_int_equal(world_move(load(3, 2, dram_slot(1))), 0);
	assert_true(world_holds(2, 1));
}

/* Whoever hangs gets nothing more to do until it answers. */
static void test_a_driver_that_hangs(void **state)
{
	struct core_transfer t = store(3, 1, dram_slot(1));

	world_fill(1, 1);
	atomic_store_release(&world.hang, true);
	mover_start(world.mover, &t);
	assert_int_equal(sem_wait(&world.hung), 0);
	(void)mover_turn(world.mover, units_now_ns() + 7200 * UNITS_NS_PER_S);
	assert_int_equal(world.late[3], 1);
	t = store(4, 2, dram_slot(2));
	mover_start(world.mover, &t);
	(void)mover_turn(world.mover, units_now_ns());
	assert_int_equal(world.done[4], 1);
	assert_int_equal(world.results[4], -EIO);
	assert_int_equal(world.done[3], 0);
	atomic_store_release(&world.hang, false);
	world_run();
	assert_int_equal(world.results[3], 0);
	assert_int_equal(world_move(store(4, 2, dram_slot(2))), 0);
	assert_int_equal(world_move(load(4, 5, dram_slot(1))), 0);
	assert_true(world_holds(5, 1));
}

/* A copy that takes for ever leaves its GPU's lane to others in between. */
static void test_slabs_are_made_meanwhile(void **state)
{
	struct core_transfer t = store(3, 1, dram_slot(1));
	struct core_order make = {.slab = 77,
				  .first_page = 1000,
				  .page_count = 4,
				  .stride_bytes = 4096,
				  .slab_bytes = 2 * UNITS_MIB};

	atomic_store_relaxed(&world.copy_polls, UINT32_MAX);
	mover_start(world.mover, &t);
	devmem_order(&world.devmem, &make);
	while (!slabmap_find(&world.devmem.map, 1000))
		world_work(1000);
	assert_int_equal(world.done[3], 0);
	atomic_store_relaxed(&world.copy_polls, 0);
	world_run();
	assert_int_equal(world.results[3], 0);
}

/* --- numbers, and the end -----------------------------------------------------------------------
 */

static uint32_t chained;

/* As soon as it hears, the core starts the next one under the same number. */
static void on_done_again(uint32_t id, int result)
{
	assert_int_equal(result, 0);
	if (++chained == 20)
		return;
	struct core_transfer t = chained % 2 ? load(id, chained % WORLD_PAGES, dram_slot(1))
					     : store(id, (chained - 1) % WORLD_PAGES, dram_slot(1));
	mover_start(world.mover, &t);
}

static void test_numbers_are_used_again(void **state)
{
	struct core_transfer t = store(MOVER_TRANSFERS_MAX - 1, 0, dram_slot(1));

	chained = 0;
	world_fill(0, 77);
	world.on_done = on_done_again;
	mover_start(world.mover, &t);
	world_run();
	assert_int_equal(chained, 20);
	assert_true(world_holds(3, 77));
}

/* What has begun before the daemon stops ends, and the core hears of it. */
static void test_closed(void **state)
{
	struct core_transfer t = store(0, 1, file_slot(0)), next = store(1, 1, file_slot(1));

	world.held = true;
	mover_start(world.mover, &t);
	world_turn(units_now_ns());
	mover_close(world.mover);
	mover_start(world.mover, &next);
	assert_int_equal(mover_pending(world.mover), 1);
	world.held = false;
	world_run();
	assert_int_equal(world.done[0], 1);
	assert_int_equal(world.results[0], 0);
	assert_int_equal(world.done[1], 0);
}

/* Whatever has not ended when the daemon stops is not told to a core that is about to go. */
static void test_muted(void **state)
{
	struct core_transfer t = store(0, 1, file_slot(0)), next = store(1, 1, file_slot(1));

	world.held = true;
	mover_start(world.mover, &t);
	world_turn(units_now_ns());
	mover_mute(world.mover);
	mover_start(world.mover, &next);
	world_io_late();
	world.held = false;
	world_turn(units_now_ns());
	assert_int_equal(world.submitted, 1);
	assert_int_equal(world.done[0] + world.done[1] + world.late[0] + world.downs, 0);
	assert_int_equal(mover_deadline_ns(world.mover), UINT64_MAX);
}

#define ON(test, args) cmocka_unit_test_prestate_setup_teardown(test, begin, end, (void *)(args))
#define ON_ALL(test) ON(test, &kinds[0]), ON(test, &kinds[1]), ON(test, &kinds[2])

static struct world_args one_stage = {WORLD_GPU, .stage_bytes = WORLD_SLOT_BYTES};
static struct world_args one_stage_host = {WORLD_HOST, .stage_bytes = WORLD_SLOT_BYTES};
static struct world_args slow_files = {WORLD_HOST, .throttle_bytes_per_s = 1};

TEST_MAIN(mover, ON_ALL(test_file_and_back), ON_ALL(test_dram_and_back),
	  ON_ALL(test_from_slot_to_slot), ON_ALL(test_many_at_once), ON_ALL(test_spoiled_file),
	  ON_ALL(test_another_block), ON_ALL(test_spoiled_dram), ON_ALL(test_read_errors_degrade),
	  ON_ALL(test_full_disk_degrades_at_once), ON_ALL(test_comes_back),
	  ON_ALL(test_late_then_done), ON_ALL(test_probed_by_what_failed),
	  ON_ALL(test_journal_degrades), ON_ALL(test_a_slot_behind_the_end),
	  ON(test_throttle, &slow_files), ON(test_staging_memory_is_shared, &one_stage),
	  ON(test_from_slot_to_slot, &one_stage_host), ON(test_late_for_staging_memory, &one_stage),
	  ON(test_a_slot_larger_than_staging_memory, &one_stage),
	  ON(test_copies_that_cannot_start, &kinds[1]),
	  ON(test_copies_that_cannot_start, &kinds[2]), ON(test_a_device_that_breaks, &kinds[1]),
	  ON(test_a_device_that_is_slow, &kinds[1]), ON(test_a_device_that_is_slow, &kinds[2]),
	  ON(test_a_driver_that_hangs, &kinds[1]), ON(test_a_driver_that_hangs, &kinds[2]),
	  ON(test_slabs_are_made_meanwhile, &kinds[1]), ON_ALL(test_numbers_are_used_again),
	  ON_ALL(test_closed), ON_ALL(test_muted))
