/* SPDX-License-Identifier: Apache-2.0 */
/* Where files go, that only one daemon can have them, and whose directories are refused. */
#include "kvd/paths.h"
#include "tests/test.h"
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64];
static char error[512];
static struct options o;

static int setup(void **state)
{
	options_init(&o);
	strcpy(dir, "/tmp/test_paths_XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(o.runtime_dir, sizeof(o.runtime_dir), "%s/run", dir);
	snprintf(o.state_dir, sizeof(o.state_dir), "%s/state", dir);
	return 0;
}

static int teardown(void **state)
{
	char path[OPTIONS_PATH_MAX + 16];

	snprintf(path, sizeof(path), "%s/run/kvd.lock", dir);
	(void)unlink(path);
	(void)rmdir(o.runtime_dir);
	(void)rmdir(o.state_dir);
	return rmdir(dir);
}

static void test_names(void **state)
{
	struct paths p;
	char want[128];

	assert_int_equal(paths_init(&p, &o, error, sizeof(error)), 0);
	snprintf(want, sizeof(want), "%s/run/kvd.sock", dir);
	assert_string_equal(p.socket, want);
	o.runtime_dir[0] = '\0';
	strcpy(o.socket, "/some/where/x.sock");
	assert_int_equal(paths_init(&p, &o, error, sizeof(error)), 0);
	assert_string_equal(p.status, "/some/where/kvd.status");
	strcpy(o.socket, "/x.sock");
	assert_int_equal(paths_init(&p, &o, error, sizeof(error)), 0);
	assert_string_equal(p.runtime_dir, "/");
	snprintf(o.runtime_dir, sizeof(o.runtime_dir), "%s/run", dir);
}

static void test_too_long_a_socket(void **state)
{
	struct paths p;

	memset(o.socket, 'x', 200);
	o.socket[0] = '/';
	assert_int_equal(paths_init(&p, &o, error, sizeof(error)), -ENAMETOOLONG);
	assert_non_null(strstr(error, "--socket"));
}

static void test_private_child_has_no_files(void **state)
{
	struct paths p;

	o.socket_fd = 3;
	char keep = o.runtime_dir[0];
	o.runtime_dir[0] = o.state_dir[0] = '\0';
	assert_int_equal(paths_init(&p, &o, error, sizeof(error)), 0);
	assert_string_equal(p.runtime_dir, "");
	assert_string_equal(p.socket, "");
	assert_string_equal(p.state_dir, "");
	o.runtime_dir[0] = o.state_dir[0] = keep;
}

static void test_one_daemon(void **state)
{
	struct paths a, b;
	char pid[16];

	assert_int_equal(paths_init(&a, &o, error, sizeof(error)), 0);
	assert_int_equal(paths_init(&b, &o, error, sizeof(error)), 0);
	assert_int_equal(paths_take(&a, error, sizeof(error)), 0);
	assert_int_equal(paths_take(&b, error, sizeof(error)), -EADDRINUSE);
	snprintf(pid, sizeof(pid), "%d", getpid());
	assert_non_null(strstr(error, pid));
	paths_release(&a);
	assert_int_equal(paths_take(&b, error, sizeof(error)), 0);
	paths_release(&b);
}

static void test_a_directory_that_anybody_may_write(void **state)
{
	struct paths p;

	assert_int_equal(mkdir(o.runtime_dir, 0700), 0);
	assert_int_equal(chmod(o.runtime_dir, 0777), 0);
	assert_int_equal(paths_init(&p, &o, error, sizeof(error)), 0);
	assert_int_equal(paths_take(&p, error, sizeof(error)), -EPERM);
	assert_non_null(strstr(error, o.runtime_dir));
	paths_release(&p);
}

static void test_unknown_group(void **state)
{
	struct paths p;

	strcpy(o.group, "no-such-group-here");
	assert_int_equal(paths_init(&p, &o, error, sizeof(error)), -ENOENT);
	assert_non_null(strstr(error, "no-such-group-here"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
TEST_MAIN(paths, TEST(test_names), TEST(test_too_long_a_socket),
	  TEST(test_private_child_has_no_files), TEST(test_one_daemon),
	  TEST(test_a_directory_that_anybody_may_write), TEST(test_unknown_group))
