/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exactness over real processes and a real kvd, bitwise on logits and on K and V: cold, warm in the
 * same process, warm in another, with other chunks and threads, evicted and computed again. With
 * $KVD_MODEL also on that model.
 */
#include "tests/e2e/workers.h"
#include "tests/test.h"
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

static struct harness_kvd kvd;
static struct harness_client a, b, c;

static int setup(void **state)
{
	harness_init(&kvd);
	return 0;
}

static int teardown(void **state)
{
	harness_client_end(&a, SIGKILL);
	harness_client_end(&b, SIGKILL);
	harness_client_end(&c, SIGKILL);
	harness_fini(&kvd);
	return 0;
}

static void check_length(uint32_t page, uint32_t n)
{
	struct workers_answer cold = workers_ask(&a, n, n, 0);
	struct workers_answer first = workers_ask(&a, n, n, 1);
	struct workers_answer warm = workers_ask(&a, n, n, 1);
	struct workers_answer other = workers_ask(&b, n, n, 1);
	struct workers_answer chunked = workers_ask(&c, n, n, 0);

	workers_assert_same(&cold, &first);
	workers_assert_same(&cold, &warm);
	workers_assert_same(&cold, &other);
	workers_assert_same(&cold, &chunked);
	assert_int_equal(cold.cached, 0);
	assert_int_equal(first.cached, 0);
	/* All of it, unless the last block is too short a run to be copied. */
	uint32_t found = n % page < 8 ? n - n % page : n;
	assert_int_equal(warm.cached, found);
	assert_int_equal(other.cached, found);
	workers_forget_all(&kvd);
	struct workers_answer again = workers_ask(&b, n, n, 1);
	assert_int_equal(again.cached, 0);
	workers_assert_same(&cold, &again);
	/* The next length shall not find this one. */
	workers_forget_all(&kvd);
}

static void check_model(const char *model, const char *page_option, uint32_t page, const char *pool)
{
	static const uint32_t lengths[] = {1, 63, 64, 65, 128, 200};
	const char *plain[] = {page_option, "threads=2", NULL};
	const char *odd[] = {page_option, "threads=1", "chunk=7", NULL};
	const char *three[] = {page_option, "threads=3", "chunk=100", NULL};
	const char *options[] = {"--pool-bytes", pool, NULL};

	harness_start(&kvd, options);
	workers_start(&a, &kvd, kvd.socket, model, plain);
	workers_start(&b, &kvd, kvd.socket, model, odd);
	workers_start(&c, &kvd, kvd.socket, model, three);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		check_length(page, lengths[i]);
	harness_client_bye(&a);
	harness_client_bye(&b);
	harness_client_bye(&c);
	harness_quiet(&kvd, 0);
}

static void tiny_model_pages_of_16(void **state)
{
	check_model(workers_tiny_model(&kvd), "page=16", 16, "32MiB");
}

static void tiny_model_pages_of_64(void **state)
{
	check_model(workers_tiny_model(&kvd), "page=64", 64, "32MiB");
}

static void real_model(void **state)
{
	const char *model = workers_real_model();

	check_model(model, "page=64", 64, "256MiB");
}

static void batches_across_engines(void **state)
{
	const char *model = workers_tiny_model(&kvd);
	const char *options[] = {"page=16", NULL};
	uint64_t want;

	harness_start(&kvd, NULL);
	workers_start(&a, &kvd, kvd.socket, model, options);
	workers_start(&b, &kvd, kvd.socket, model, options);
	harness_ask(&a, "many 5 100 40 12");
	assert_true(harness_is(&a, "ok"));
	assert_int_equal(harness_field(&a, "errors"), 0);
	want = harness_field(&a, "tokens");
	workers_forget_all(&kvd);
	/* Both at once: each follows what the other computes, or computes it itself. */
	for (int round = 0; round < 5; round++) {
		harness_send(&a, "many 5 100 40 12");
		harness_ask(&b, "many 5 100 40 12");
		assert_int_equal(harness_field(&b, "tokens"), want);
		harness_answer(&a);
		assert_int_equal(harness_field(&a, "tokens"), want);
		workers_evict_all(&kvd);
	}
	harness_client_bye(&a);
	harness_client_bye(&b);
	harness_quiet(&kvd, 0);
}

/* Flips a high bit of the first key in every page of every slab, in the daemon's own memory. */
static void flip_a_bit_in_every_page(size_t page_bytes)
{
	char path[64], target[64];
	size_t flipped = 0;

	for (int fd = 0; fd < 256; fd++) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", kvd.pid, fd);
		ssize_t n = readlink(path, target, sizeof(target) - 1);

		if (n < 0)
			continue;
		target[n] = '\0';
		if (strncmp(target, "/memfd:kvd-slab", 15) != 0)
			continue;
		int slab = open(path, O_RDWR | O_CLOEXEC);
		uint8_t byte;

		assert_true(slab >= 0);
		for (off_t at = 1; pread(slab, &byte, 1, at) == 1; at += (off_t)page_bytes) {
			byte ^= 0x40;
			assert_int_equal(pwrite(slab, &byte, 1, at), 1);
			flipped++;
		}
		close(slab);
	}
	assert_true(flipped > 0);
}

static void both_engines_read_the_very_same_page(void **state)
{
	const char *model = workers_tiny_model(&kvd);
	const char *options[] = {"page=16", NULL};
	struct workers_answer before, on_a, on_b;

	harness_start(&kvd, NULL);
	workers_start(&a, &kvd, kvd.socket, model, options);
	workers_start(&b, &kvd, kvd.socket, model, options);
	before = workers_ask(&a, 3, 128, 1);
	on_b = workers_ask(&b, 3, 128, 1);
	workers_assert_same(&before, &on_b);
	/* 2 layers, K and V, 2 heads, 16 tokens of 32 dimensions, 2 bytes each. */
	flip_a_bit_in_every_page(2 * 2 * 2 * 16 * 32 * 2);
	on_a = workers_ask(&a, 3, 128, 1);
	on_b = workers_ask(&b, 3, 128, 1);
	assert_int_equal(on_a.cached, 128);
	assert_int_equal(on_b.cached, 128);
	assert_int_not_equal(on_a.logits, before.logits);
	workers_assert_same(&on_a, &on_b);
	harness_client_bye(&a);
	harness_client_bye(&b);
}

static void small_pool_preempts_and_stays_right(void **state)
{
	const char *model = workers_tiny_model(&kvd);
	const char *options[] = {"page=16", NULL};
	/* 256 pages of 8 KiB; the sixteen together grow to about 500. */
	const char *pool[] = {"--pool-bytes", "2MiB", "--session-share", "100", NULL};
	uint64_t want;

	harness_start(&kvd, NULL);
	workers_start(&a, &kvd, kvd.socket, model, options);
	harness_ask(&a, "many 5 100 400 16");
	assert_int_equal(harness_field(&a, "errors"), 0);
	want = harness_field(&a, "tokens");
	harness_client_bye(&a);
	assert_int_equal(harness_end(&kvd, SIGTERM), 0);
	harness_start(&kvd, pool);
	workers_start(&a, &kvd, kvd.socket, model, options);
	harness_ask(&a, "many 5 100 400 16");
	assert_int_equal(harness_field(&a, "errors"), 0);
	assert_int_equal(harness_field(&a, "tokens"), want);
	harness_ask(&a, "stats");
	assert_true(harness_field(&a, "preemptions") > 0);
	harness_client_bye(&a);
	harness_quiet(&kvd, 0);
}

static void private_daemon_serves_and_ends_with_us(void **state)
{
	const char *model = workers_tiny_model(&kvd);
	const char *options[] = {"page=16", "pool=33554432", NULL};
	struct workers_answer cold, warm;

	workers_start(&a, &kvd, "private", model, options);
	cold = workers_ask(&a, 3, 100, 1);
	warm = workers_ask(&a, 3, 100, 1);
	workers_assert_same(&cold, &warm);
	assert_int_equal(warm.cached, 96);
	harness_ask(&a, "stats");
	assert_int_equal(harness_field(&a, "private"), 1);
	harness_client_bye(&a);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

TEST_MAIN(exact, TEST(tiny_model_pages_of_16), TEST(tiny_model_pages_of_64), TEST(real_model),
	  TEST(batches_across_engines), TEST(both_engines_read_the_very_same_page),
	  TEST(small_pool_preempts_and_stays_right), TEST(private_daemon_serves_and_ends_with_us))
