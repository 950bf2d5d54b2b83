/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets and key seeds: read, kept, refused when others could read them. */
#include "base/bits.h"
#include "kvd/tenants.h"
#include "tests/test.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64];
static char error[512];
static struct entropy entropy;

static int setup(void **state)
{
	strcpy(dir, "/tmp/test_tenants_XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static const char *path_of(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static int teardown(void **state)
{
	(void)unlink(path_of("secret"));
	(void)unlink(path_of("seed-x"));
	(void)unlink(path_of("seed-y"));
	return rmdir(dir);
}

static int secret_of(const void *text, size_t size, mode_t mode, struct core_space_args *out)
{
	struct options_space space = {.name = "x"};
	const char *path = path_of("secret");
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, size), size);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
	strcpy(space.secret_file, path);
	error[0] = '\0';
	return tenants_secret(&space, out, error, sizeof(error));
}

static void test_secret(void **state)
{
	struct core_space_args a;
	char long_text[65];

	memset(long_text, 's', sizeof(long_text));
	assert_int_equal(secret_of("open sesame\n", 12, 0600, &a), 0);
	assert_int_equal(a.secret_bytes, 11);
	assert_memory_equal(a.secret, "open sesame", 11);
	assert_int_equal(secret_of(long_text, 64, 0600, &a), 0);
	assert_int_equal(secret_of(long_text, 65, 0600, &a), -EINVAL);
	assert_int_equal(secret_of("\n", 1, 0600, &a), -EINVAL);
	assert_int_equal(secret_of("x", 1, 0644, &a), -EPERM);
	assert_non_null(strstr(error, "chmod"));
	struct options_space none = {.name = "x", .secret_file = "/nowhere/at/all"};
	assert_int_equal(tenants_secret(&none, &a, error, sizeof(error)), -ENOENT);
}

static void test_seed_is_kept(void **state)
{
	uint8_t a[16], b[16], c[16];
	struct stat st;

	assert_int_equal(tenants_seed(dir, "x", &entropy, a, error, sizeof(error)), 0);
	assert_int_equal(tenants_seed(dir, "y", &entropy, b, error, sizeof(error)), 0);
	assert_int_equal(tenants_seed(dir, "x", &entropy, c, error, sizeof(error)), 0);
	assert_memory_equal(a, c, 16);
	assert_memory_not_equal(a, b, 16);
	assert_int_equal(stat(path_of("seed-x"), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
}

static void test_seed_that_is_none(void **state)
{
	uint8_t a[16];

	assert_int_equal(tenants_seed(dir, "x", &entropy, a, error, sizeof(error)), 0);
	assert_int_equal(truncate(path_of("seed-x"), 7), 0);
	assert_int_equal(tenants_seed(dir, "x", &entropy, a, error, sizeof(error)), -EINVAL);
	assert_non_null(strstr(error, "seed-x"));
}

static void test_seed_in_memory(void **state)
{
	uint8_t a[16], b[16];

	assert_int_equal(tenants_seed("", "x", &entropy, a, error, sizeof(error)), 0);
	assert_int_equal(tenants_seed("", "x", &entropy, b, error, sizeof(error)), 0);
	assert_memory_not_equal(a, b, 16);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
TEST_MAIN(tenants, TEST(test_secret), TEST(test_seed_is_kept), TEST(test_seed_that_is_none),
	  TEST(test_seed_in_memory))
