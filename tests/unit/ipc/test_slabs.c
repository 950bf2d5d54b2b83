/* SPDX-License-Identifier: Apache-2.0 */
/* Slabs are asked for once, checked before they are mapped, guarded if wanted, and let go. */
#include "tests/test.h"
#include "tests/unit/ipc/fake_kvd.h"
#include <errno.h>
#include <unistd.h>

static struct kvd_event wait_one(struct kvd *k)
{
	struct kvd_event event = {0};

	while (kvd_wait(k, UINT64_MAX, &event, 1) == 0)
		;
	return event;
}

static struct kvd_lease *ask(struct kvd *k, uint32_t format, uint32_t tokens, int *out_result)
{
	static const uint32_t ids[1024];
	struct kvd_acquire_args args = {.format = format, .tokens = ids, .token_count = tokens};
	struct kvd_lease *lease;

	assert_int_equal(kvd_acquire(k, &args, &lease), 0);
	*out_result = wait_one(k).result;
	return lease;
}

static bool writable(uint64_t address)
{
	char byte = 0;
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	assert_int_equal(write(fds[1], &byte, 1), 1);
	bool ok = read(fds[0], (void *)(uintptr_t)address, 1) == 1;
	close(fds[0]);
	close(fds[1]);
	return ok;
}

static void slabs_are_asked_for_once(void **state)
{
	struct fake_kvd *f = fake_start();
	uint32_t format;
	struct kvd *k = fake_open(f, 1, &format);
	int r;

	/* 20 pages lie in 3 slabs. */
	ask(k, format, 320, &r);
	assert_int_equal(r, 0);
	assert_int_equal(fake_count(f, KVD_OP_SLAB, NULL), 3);
	ask(k, format, 32, &r);
	assert_int_equal(fake_count(f, KVD_OP_SLAB, NULL), 3);
	kvd_close(k);
	fake_stop(f);
}

static void slabs_guard_closes_all_but_open_pages(void **state)
{
	assert_int_equal(setenv("KVD_GUARD", "1", 1), 0);
	struct fake_kvd *f = fake_start();
	uint32_t format, count;
	struct kvd *k = fake_open(f, 1, &format);
	int r;

	struct kvd_lease *l = ask(k, format, 64, &r);
	const uint64_t *pages = kvd_lease_pages(l, 0, &count);
	uint64_t first = pages[0], last = pages[3];
	assert_int_equal(count, 4);
	assert_true(writable(first) && writable(last));
	/* The neighbour in the slab is nobody's. */
	assert_int_equal(last, first + 3 * FAKE_STRIDE);
	assert_false(writable(last + FAKE_STRIDE));
	assert_int_equal(kvd_seal(k, l, 0, 1, NULL, 0), 0);
	assert_false(writable(first));
	assert_true(writable(last));
	assert_int_equal(kvd_release(k, l, 0, NULL, 0), 0);
	assert_false(writable(last));
	kvd_close(k);
	fake_stop(f);
	unsetenv("KVD_GUARD");
}

static void slabs_poison_open_pages(void **state)
{
	assert_int_equal(setenv("KVD_POISON", "1", 1), 0);
	struct fake_kvd *f = fake_start();
	uint32_t format, count;
	struct kvd *k = fake_open(f, 1, &format);
	int r;

	fake_set(f, &f->cached_blocks, 1);
	struct kvd_lease *l = ask(k, format, 32, &r);
	const uint64_t *pages = kvd_lease_pages(l, 0, &count);
	assert_int_equal(((uint8_t *)(uintptr_t)pages[0])[9], 0);
#ifdef NDEBUG
	assert_int_equal(((uint8_t *)(uintptr_t)pages[1])[9], 0);
#else
	assert_int_equal(((uint8_t *)(uintptr_t)pages[1])[0], 0xff);
	assert_int_equal(((uint8_t *)(uintptr_t)pages[1])[FAKE_STRIDE - 1], 0xff);
#endif
	kvd_close(k);
	fake_stop(f);
	unsetenv("KVD_POISON");
}

static void slabs_that_cannot_come_end_the_lease(void **state)
{
	struct fake_kvd *f = fake_start();
	uint32_t format;
	struct kvd *k = fake_open(f, 1, &format);
	struct kvd_event event;
	int r;

	fake_result(f, KVD_OP_SLAB, -ENOMEM);
	ask(k, format, 32, &r);
	assert_int_equal(r, -ENOMEM);
	/* What kvd had granted is given back. */
	assert_int_equal(kvd_wait(k, 0, &event, 1), 0);
	kvd_close(k);
	assert_int_equal(fake_count(f, KVD_OP_RELEASE, NULL), 1);
	fake_stop(f);
}

struct maps {
	uint32_t mapped;
	uint32_t unmapped;
};

static int maps_map(void *ctx, const struct kvd_slab_wire *slab, int fd, uint64_t *out_read,
		    uint64_t *out_write)
{
	struct maps *m = ctx;

	if (fd < 0)
		return -EINVAL;
	m->mapped++;
	*out_read = 0x100000000ull * (slab->slab + 1);
	*out_write = *out_read + 0x80000000ull;
	return 0;
}

static void maps_unmap(void *ctx, const struct kvd_slab_wire *slab, uint64_t read, uint64_t write)
{
	struct maps *m = ctx;

	assert_int_equal(read, 0x100000000ull * (slab->slab + 1));
	assert_int_equal(write, read + 0x80000000ull);
	m->unmapped++;
}

static void slabs_use_the_caller_s_maps(void **state)
{
	struct fake_kvd *f = fake_start();
	struct maps m = {0};
	struct kvd_map_ops ops = {.map = maps_map, .unmap = maps_unmap, .ctx = &m};
	struct kvd_options o = {.socket_fd = f->client_fd, .map_ops = &ops};
	struct kvd_format_args args = {.page_tokens = 16, .part_count = 1, .layout = "test"};
	struct kvd_session_row row = {.retiring_slab = 1};
	uint32_t format, count;
	struct kvd *k;
	int r;

	args.parts[0] = (struct kvd_part_wire){.page_bytes = 4096, .align = 64};
	assert_int_equal(kvd_open(&o, &k), 0);
	assert_int_equal(kvd_format(k, &args, &format), 0);
	fake_set(f, &f->cached_blocks, 1);
	struct kvd_lease *l = ask(k, format, 160, &r);
	const uint64_t *pages = kvd_lease_pages(l, 0, &count);
	assert_int_equal(count, 10);
	assert_int_equal(pages[0], 0x100000000ull);
	assert_int_equal(pages[7], 0x180000000ull + 7 * FAKE_STRIDE);
	assert_int_equal(pages[9], 0x280000000ull + 1 * FAKE_STRIDE);
	assert_int_equal(m.mapped, 2);
	/* One that is in use stays, whatever the daemon says. */
	fake_session_row(f, &row);
	assert_int_equal(kvd_slabs_quiet(k), 0);
	assert_int_equal(m.unmapped, 0);
	assert_int_equal(kvd_release(k, l, 0, NULL, 0), 0);
	assert_int_equal(kvd_slabs_quiet(k), 0);
	assert_int_equal(m.unmapped, 1);
	kvd_close(k);
	assert_int_equal(m.unmapped, 2);
	assert_int_equal(fake_count(f, KVD_OP_SLAB_GONE, NULL), 1);
	fake_stop(f);
}

TEST_MAIN(slabs, cmocka_unit_test(slabs_are_asked_for_once),
	  cmocka_unit_test(slabs_guard_closes_all_but_open_pages),
	  cmocka_unit_test(slabs_poison_open_pages),
	  cmocka_unit_test(slabs_that_cannot_come_end_the_lease),
	  cmocka_unit_test(slabs_use_the_caller_s_maps))
