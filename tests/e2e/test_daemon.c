/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon as a program: how it starts, refuses to start, says that it is ready, stops, dies, and
 * serves as a private child; what clients of a daemon that went away see.
 */
#include "base/units.h"
#include "tests/e2e/harness.h"
#include "tests/e2e/raw.h"
#include "tests/test.h"
#include <errno.h>
#include <kvd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static struct harness_kvd kvd;
static struct harness_client a, b;

static int setup(void **state)
{
	harness_init(&kvd);
	return 0;
}

static int teardown(void **state)
{
	harness_client_end(&a, SIGKILL);
	harness_client_end(&b, SIGKILL);
	harness_fini(&kvd);
	return 0;
}

#define OK(client, ...)                                                                            \
	do {                                                                                       \
		harness_ask(client, __VA_ARGS__);                                                  \
		assert_true(harness_is(client, "ok"));                                             \
	} while (0)

static bool file_is_there(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", kvd.dir, name);
	return access(path, F_OK) == 0;
}

static void test_start_and_stop(void **state)
{
	static const int signals[] = {SIGTERM, SIGINT};
	struct kvd_status s;

	for (int i = 0; i < 2; i++) {
		harness_start(&kvd, NULL);
		assert_true(file_is_there("kvd.sock"));
		harness_client(&a, &kvd, NULL, NULL);
		OK(&a, "acquire x 1:64");
		harness_status(&kvd, &s);
		assert_int_equal(s.magic, KVD_STATUS_MAGIC);
		assert_int_equal(s.pid, kvd.pid);
		assert_true(s.nonce != 0);
		assert_int_equal(harness_end(&kvd, signals[i]), 0);
		assert_false(file_is_there("kvd.sock"));
		assert_false(file_is_there("kvd.status"));
		assert_true(harness_log_gets(&kvd, "stop: bye"));
		OK(&a, "gone");
		assert_int_equal(harness_field(&a, "gone"), 1);
		harness_client_end(&a, SIGKILL);
	}
}

static void test_words(void **state)
{
	assert_int_equal(harness_run(&kvd, (const char *[]){"--help", NULL}), 0);
	assert_int_equal(harness_run(&kvd, (const char *[]){"--version", NULL}), 0);
	assert_int_equal(harness_run(&kvd, (const char *[]){"--help-man", NULL}), 0);
	assert_int_equal(harness_run(&kvd, (const char *[]){"--nothing", NULL}), 2);
	assert_true(harness_log_gets(&kvd, "no such option"));
}

static void test_check_config(void **state)
{
	const char *const good[] = {"--check-config", "--pool-bytes=64MiB", "--namespace=x", NULL};
	const char *const secret[] = {"--check-config", "--namespace=x,secret-file=/none", NULL};
	const char *const floors[] = {"--check-config", "--pool-bytes=64MiB",
				      "--namespace=x,floor=60MiB", "--namespace=y,floor=60MiB",
				      NULL};
	const char *const device[] = {"--check-config", "--device-memory=none", NULL};

	assert_int_equal(harness_run(&kvd, good), 0);
	assert_true(harness_log_gets(&kvd, "pool 64.00 MiB"));
	assert_int_equal(harness_run(&kvd, secret), 2);
	assert_true(harness_log_gets(&kvd, "/none"));
	assert_int_equal(harness_run(&kvd, floors), 2);
	assert_int_equal(harness_run(&kvd, device), 2);
	assert_true(harness_log_gets(&kvd, "libkvd-mem-none.so"));
}

/* Another daemon in the directory, and another one behind the socket. */
static void test_in_use(void **state)
{
	char dir[128], state_dir[128], other[128], pid[32];

	harness_start(&kvd, NULL);
	snprintf(dir, sizeof(dir), "--runtime-dir=%s", kvd.dir);
	snprintf(state_dir, sizeof(state_dir), "--state-dir=%s/state", kvd.dir);
	snprintf(other, sizeof(other), "--runtime-dir=%s/other", kvd.dir);
	char socket_option[160];
	snprintf(socket_option, sizeof(socket_option), "--socket=%s", kvd.socket);
	assert_int_equal(harness_run(&kvd, (const char *[]){dir, state_dir, NULL}), 1);
	snprintf(pid, sizeof(pid), "another kvd, pid %d", kvd.pid);
	assert_true(harness_log_gets(&kvd, pid));
	assert_int_equal(harness_run(&kvd, (const char *[]){other, state_dir, socket_option, NULL}),
			 1);
	assert_true(harness_log_gets(&kvd, "another daemon answers there"));
	harness_client(&a, &kvd, NULL, NULL);
	OK(&a, "acquire x 1:64");
	OK(&a, "run x");
}

static void test_killed_and_started_again(void **state)
{
	uint64_t nonce[2];
	struct kvd_status s;

	for (int i = 0; i < 2; i++) {
		harness_start(&kvd, NULL);
		harness_status(&kvd, &s);
		nonce[i] = s.nonce;
		harness_client(&a, &kvd, NULL, NULL);
		OK(&a, "acquire x 1:64");
		OK(&a, "run x");
		assert_int_equal(harness_end(&kvd, SIGKILL), 128 + SIGKILL);
		assert_true(file_is_there("kvd.sock"));
		harness_ask(&a, "acquire y 1:64");
		assert_true(harness_is(&a, "gone"));
		OK(&a, "verify x");
		assert_int_equal(harness_field(&a, "wrong"), 0);
		harness_client_end(&a, SIGKILL);
	}
	assert_int_not_equal(nonce[0], nonce[1]);
}

/* Clients that wait for it, in every way in which one can wait, hear of its end. */
static void test_killed_while_clients_wait(void **state)
{
	harness_start(&kvd, (const char *[]){"--pool-bytes=4MiB", "--session-share=100", NULL});
	harness_client_sized(&a, &kvd, NULL, NULL, 16, 64 << 10);
	harness_client_sized(&b, &kvd, NULL, NULL, 16, 64 << 10);
	OK(&a, "acquire x 1:640 0");
	harness_send(&b, "acquire y 2:640 0 60000");
	harness_send(&a, "gone");
	usleep(20000);
	assert_int_equal(harness_end(&kvd, SIGKILL), 128 + SIGKILL);
	harness_answer(&a);
	assert_int_equal(harness_field(&a, "gone"), 1);
	harness_answer(&b);
	assert_true(harness_is(&b, "gone"));
}

static int notify_listen(const char *path)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	strcpy(at.sun_path, path);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

static void test_service_manager(void **state)
{
	char path[96], text[256] = "";

	snprintf(path, sizeof(path), "%s/notify", kvd.dir);
	int fd = notify_listen(path);
	setenv("NOTIFY_SOCKET", path, 1);
	harness_start(&kvd, NULL);
	unsetenv("NOTIFY_SOCKET");
	assert_true(recv(fd, text, sizeof(text) - 1, 0) > 0);
	assert_memory_equal(text, "READY=1\n", 8);
	assert_int_equal(harness_end(&kvd, SIGTERM), 0);
	assert_int_equal(recv(fd, text, sizeof(text) - 1, 0), 10);
	assert_memory_equal(text, "STOPPING=1", 10);
	close(fd);
}

/* Becomes a kvd that serves the one peer at the other end of this socket. */
static void exec_private(int fd)
{
	char fd_text[16];

	snprintf(fd_text, sizeof(fd_text), "%d", fd);
	execl(getenv("KVD_BIN"), "kvd", "--socket-fd", fd_text, "--pool-bytes", "16MiB",
	      "--log-level", "warning", NULL);
	_exit(127);
}

/* Starts one as a child of this process; *out_fd is our end. */
static pid_t private_child(int *out_fd)
{
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(fds[0]);
		exec_private(fds[1]);
	}
	close(fds[1]);
	*out_fd = fds[0];
	return pid;
}

static int wait_status(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void test_private_child(void **state)
{
	struct kvd_options o = {.timeout_ns = 20 * UNITS_NS_PER_S};
	struct kvd_space_stat stat;
	struct kvd *k;
	pid_t pid = private_child(&o.socket_fd);

	assert_int_equal(kvd_open(&o, &k), 0);
	assert_int_equal(kvd_stat(k, &stat), 0);
	assert_int_equal(stat.sessions, 1);
	kvd_close(k);
	assert_int_equal(wait_status(pid), 0);
}

static void test_private_child_whose_peer_never_speaks(void **state)
{
	int fd;
	pid_t pid = private_child(&fd);

	close(fd);
	assert_int_equal(wait_status(pid), 0);
}

/* Starts a private child, says its pid, and waits to be killed. */
static void be_its_parent(const int *fds, int pid_fd)
{
	pid_t pid = fork();

	if (pid == 0)
		exec_private(fds[1]);
	if (write(pid_fd, &pid, sizeof(pid)) == sizeof(pid))
		pause();
	_exit(1);
}

/* Our end of the socket stays open: only its parent's death can end the child. */
static void test_private_child_dies_with_its_parent(void **state)
{
	int fds[2], pids[2];
	pid_t child;
	struct kvd *k;

	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
	assert_int_equal(pipe(pids), 0);
	pid_t parent = fork();
	assert_true(parent >= 0);
	if (parent == 0)
		be_its_parent(fds, pids[1]);
	assert_int_equal(read(pids[0], &child, sizeof(child)), sizeof(child));
	struct kvd_options o = {.socket_fd = fds[0], .timeout_ns = 20 * UNITS_NS_PER_S};
	assert_int_equal(kvd_open(&o, &k), 0);
	kill(parent, SIGKILL);
	assert_int_equal(wait_status(parent), 128 + SIGKILL);
	assert_int_equal(wait_status(child), 0);
	kvd_close(k);
	close(fds[1]);
	close(pids[0]);
	close(pids[1]);
}

static void test_rights(void **state)
{
	struct stat st;
	char path[128];

	harness_start(&kvd, (const char *[]){"--mode=0640", NULL});
	assert_int_equal(stat(kvd.socket, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0640);
	snprintf(path, sizeof(path), "%s/kvd.status", kvd.dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
}

/* What a process of another user hears when it says HELLO: the errno of the refusal, or 0. */
static int hello_as(uid_t uid, uint32_t flags)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		struct kvd_hello hello = raw_hello();
		struct kvd_welcome w;
		hello.flags = flags;
		if (setresuid(uid, uid, uid) < 0)
			_exit(255);
		_exit(-raw_say(raw_connect(kvd.socket), &hello, &w));
	}
	return wait_status(pid);
}

static void test_users(void **state)
{
	if (geteuid() != 0)
		skip();
	assert_int_equal(chmod(kvd.dir, 0755), 0);
	harness_start(&kvd, (const char *[]){"--mode=0666", "--allow-uid=4242",
					     "--uid-sessions-max=1", NULL});
	assert_int_equal(hello_as(4242, 0), 0);
	assert_int_equal(hello_as(4343, 0), EACCES);
	assert_true(harness_log_gets(&kvd, "add --allow-uid 4343"));
	assert_int_equal(hello_as(0, 0), 0);
	assert_int_equal(hello_as(0, KVD_HELLO_ADMIN), 0);
	assert_int_equal(hello_as(4242, KVD_HELLO_ADMIN), EPERM);
	assert_true(harness_log_gets(&kvd, "admin requests are for root"));
	harness_quiet(&kvd, 0);
}

/* False where the build lies in a directory that others cannot enter. */
static bool can_run_as(uid_t uid)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(setresuid(uid, uid, uid) < 0 || access(getenv("KVD_BIN"), X_OK) < 0);
	return wait_status(pid) == 0;
}

/* An ordinary user's daemon, with nothing but its own directories. */
static void test_ordinary_user(void **state)
{
	char runtime[128], expected[160];
	struct stat st;

	if (geteuid() != 0 || !can_run_as(4242))
		skip();
	assert_int_equal(chown(kvd.dir, 4242, 4242), 0);
	snprintf(runtime, sizeof(runtime), "%s/run", kvd.dir);
	assert_int_equal(mkdir(runtime, 0700), 0);
	assert_int_equal(chown(runtime, 4242, 4242), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		setenv("XDG_RUNTIME_DIR", runtime, 1);
		setenv("XDG_STATE_HOME", kvd.dir, 1);
		if (setresgid(4242, 4242, 4242) < 0 || setresuid(4242, 4242, 4242) < 0)
			_exit(255);
		execl(getenv("KVD_BIN"), "kvd", "--pool-bytes", "16MiB", "--log-level", "error",
		      NULL);
		_exit(127);
	}
	snprintf(expected, sizeof(expected), "%s/kvd/kvd.sock", runtime);
	for (int i = 0; i < 2000 && stat(expected, &st) < 0; i++)
		usleep(5000);
	assert_int_equal(stat(expected, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(st.st_uid, 4242);
	kill(pid, SIGTERM);
	assert_int_equal(wait_status(pid), 0);
}

static uint64_t sessions(const struct kvd_status *s)
{
	return s->session_count;
}

static void test_too_many_sessions(void **state)
{
	harness_start(&kvd, (const char *[]){"--sessions-max=1", NULL});
	harness_client(&a, &kvd, NULL, NULL);
	harness_client(&b, &kvd, NULL, NULL);
	assert_true(harness_is(&b, "EUSERS"));
	assert_non_null(strstr(b.line, "--sessions-max"));
	harness_client_end(&b, 0);
	harness_check(&kvd);
	harness_client_bye(&a);
	harness_wait_figure(&kvd, sessions, 0);
	harness_client(&b, &kvd, NULL, NULL);
	assert_true(harness_is(&b, "ok"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
TEST_MAIN(daemon, TEST(test_start_and_stop), TEST(test_words), TEST(test_check_config),
	  TEST(test_in_use), TEST(test_killed_and_started_again),
	  TEST(test_killed_while_clients_wait), TEST(test_service_manager),
	  TEST(test_private_child), TEST(test_private_child_whose_peer_never_speaks),
	  TEST(test_private_child_dies_with_its_parent), TEST(test_rights), TEST(test_users),
	  TEST(test_ordinary_user), TEST(test_too_many_sessions))
