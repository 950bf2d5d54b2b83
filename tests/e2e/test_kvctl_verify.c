/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kvctl verify on a scripted daemon: a thread that says what the test wants to each VERIFY. What is
 * asked goes on from the cursor that was returned, the sums are right, and each way in which it can
 * end has its words and its exit status.
 */
#include "base/atomic.h"
#include "tests/e2e/kvctl_run.h"
#include "tests/test.h"
#include <errno.h>
#include <fcntl.h>
#include <ipc/sock.h>
#include <kvd.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLICES_MAX 8

static struct harness_kvd kvd;

/* The daemon that the test plays. */
static struct {
	pthread_t thread;
	int listen_fd;
	uint32_t ending;
	/* what it says, in order */
	struct {
		int result;
		uint64_t next;
		struct kvd_verify verify;
		uint32_t bytes; /* of the answer */
	} slices[SLICES_MAX];
	uint32_t slice_count; /* then it hangs up */
	/* what it was asked */
	struct kvd_req asked[SLICES_MAX];
	uint32_t asked_count;
	uint32_t hello_flags;
} fake;

static void fake_hello(int fd, const struct sock_packet *p, struct kvd_rep *rep)
{
	struct kvd_welcome w = {
		.magic = KVD_ABI_MAGIC, .major = KVD_ABI_MAJOR, .minor = KVD_ABI_MINOR, .nonce = 7};
	struct kvd_hello hello;

	memcpy(&hello, p->payload, sizeof(hello));
	fake.hello_flags = hello.flags;
	rep->out_bytes = sizeof(w);
	(void)sock_send(fd, rep, &w, sizeof(w), NULL, 0);
}

static bool fake_verify(int fd, const struct kvd_req *req, struct kvd_rep *rep)
{
	uint32_t i = fake.asked_count;

	if (i < SLICES_MAX)
		fake.asked[fake.asked_count++] = *req;
	if (i >= fake.slice_count)
		return false;
	rep->result = fake.slices[i].result;
	rep->aux = fake.slices[i].next;
	rep->out_bytes = fake.slices[i].bytes;
	return sock_send(fd, rep, &fake.slices[i].verify, rep->out_bytes, NULL, 0) == 0;
}

static void fake_serve(int fd)
{
	static struct sock_packet p;
	struct kvd_req req;
	int r;

	while ((r = sock_recv(fd, &p)) != 0) {
		if (r == -EAGAIN) {
			(void)sock_wait_readable(fd, UINT64_MAX);
			continue;
		}
		if (r < 0)
			return;
		memcpy(&req, p.head, sizeof(req));
		struct kvd_rep rep = {.op = req.op, .tag = req.tag};
		if (req.op == KVD_OP_HELLO)
			fake_hello(fd, &p, &rep);
		else if (req.op != KVD_OP_VERIFY || !fake_verify(fd, &req, &rep))
			return;
	}
}

/* Until the listening socket is shut down, which makes it readable. */
static void *fake_main(void *arg)
{
	struct sock_peer peer;
	int fd;

	while (sock_wait_readable(fake.listen_fd, UINT64_MAX) >= 0) {
		/* Partner: teardown(). */
		if (atomic_load_acquire(&fake.ending))
			break;
		if (sock_accept(fake.listen_fd, &fd, &peer) < 0)
			continue;
		fake_serve(fd);
		close(peer.pidfd);
		close(fd);
	}
	return NULL;
}

static int setup(void **state)
{
	harness_init(&kvd);
	kvctl_init(&kvd);
	memset(&fake, 0, sizeof(fake));
	assert_int_equal(sock_listen(kvd.socket, 0600, getgid(), &fake.listen_fd), 0);
	assert_int_equal(pthread_create(&fake.thread, NULL, fake_main, NULL), 0);
	return 0;
}

static int teardown(void **state)
{
	atomic_store_release(&fake.ending, 1u);
	shutdown(fake.listen_fd, SHUT_RDWR);
	pthread_join(fake.thread, NULL);
	close(fake.listen_fd);
	kvctl_fini();
	harness_fini(&kvd);
	return 0;
}

static void answer(int result, uint64_t next, uint64_t blocks, uint64_t bad, uint64_t failed)
{
	uint32_t i = fake.slice_count++;

	assert_true(i < SLICES_MAX);
	fake.slices[i].result = result;
	fake.slices[i].next = next;
	fake.slices[i].bytes = result ? 0 : sizeof(struct kvd_verify);
	fake.slices[i].verify = (struct kvd_verify){
		.blocks = blocks, .bytes = blocks << 20, .bad = bad, .failed = failed, .total = 9};
}

static void again(void)
{
	fake.slice_count = fake.asked_count = 0;
}

static void test_all_good(void **state)
{
	answer(0, 5, 4, 0, 0);
	answer(0, 1ull << 40, 3, 0, 0);
	answer(0, 0, 2, 0, 0);
	assert_int_equal(kvctl_run("verify"), 0);
	kvctl_has(kvctl_out, "file tier: 9 blocks, 9.00 MiB in ");
	kvctl_has(kvctl_out, ": 9 good, 0 bad, 0 failed\n");
	assert_string_equal(kvctl_err, "");
	assert_int_equal(fake.hello_flags, KVD_HELLO_ADMIN);
	assert_int_equal(fake.asked_count, 3);
	assert_int_equal(fake.asked[0].arg64, 0);
	assert_int_equal(fake.asked[1].arg64, 5);
	assert_int_equal(fake.asked[2].arg64, 1ull << 40);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(fake.asked[i].arg32, KVD_TIER_FILE);
		assert_true(fake.asked[i].deadline_ms > 0);
		assert_int_equal(fake.asked[i].out_bytes, sizeof(struct kvd_verify));
	}
	again();
	answer(0, 0, 0, 0, 0);
	fake.slices[0].verify.total = 0;
	assert_int_equal(kvctl_run("verify dram"), 0);
	assert_int_equal(fake.asked[0].arg32, KVD_TIER_DRAM);
	kvctl_has(kvctl_out, "dram tier: 0 blocks");
}

/* All of it lies in areas that are degraded. */
static void test_none_could_be_read(void **state)
{
	answer(0, 0, 0, 0, 0);
	assert_int_equal(kvctl_run("verify"), 1);
	kvctl_has(kvctl_out, "file tier: none of 9 blocks could be looked at");
	kvctl_has(kvctl_out, "see `kvctl tiers`");
}

static void test_bad_ones(void **state)
{
	answer(0, 5, 4, 1, 0);
	answer(0, 0, 5, 1, 1);
	assert_int_equal(kvctl_run("verify file"), 1);
	kvctl_has(kvctl_out, ": 6 good, 2 bad, 1 failed\n");
	kvctl_has(kvctl_out, "computed again");
	again();
	answer(0, 0, 9, 0, 1);
	assert_int_equal(kvctl_run("verify --json"), 1);
	json_t *j = json_loads(kvctl_out, 0, NULL);
	assert_non_null(j);
	assert_string_equal(json_string_value(json_object_get(j, "tier")), "file");
	assert_int_equal(kvctl_number(j, "blocks"), 9);
	assert_int_equal(kvctl_number(j, "bytes"), 9 << 20);
	assert_int_equal(kvctl_number(j, "good"), 8);
	assert_int_equal(kvctl_number(j, "bad"), 0);
	assert_int_equal(kvctl_number(j, "failed"), 1);
	assert_int_equal(kvctl_number(j, "total"), 9);
	json_decref(j);
}

static void test_refusals(void **state)
{
	static const struct {
		int result;
		const char *words;
	} cases[] = {{-EBUSY, "another verify runs"},
		     {KVD_BUSY, "another verify runs"},
		     {-ENODEV, "has no file tier"},
		     {KVD_MISS, "has no file tier"},
		     {-EPERM, "needs root"},
		     {-EIO, "EIO"},
		     {KVD_FULL, "full"}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		again();
		answer(0, 5, 4, 0, 0);
		answer(cases[i].result, 0, 0, 0, 0);
		assert_int_equal(kvctl_run("verify"), 1);
		kvctl_one_sentence();
		kvctl_has(kvctl_err, cases[i].words);
		assert_string_equal(kvctl_out, "");
	}
}

/* It hangs up, says too little, or would never come to an end. */
static void test_broken_daemon(void **state)
{
	answer(0, 5, 4, 0, 0);
	assert_int_equal(kvctl_run("verify"), 1);
	kvctl_one_sentence();
	kvctl_has(kvctl_err, "hung up");
	again();
	answer(0, 0, 4, 0, 0);
	fake.slices[0].bytes -= 8;
	assert_int_equal(kvctl_run("verify"), 1);
	kvctl_has(kvctl_err, "EPROTO");
	again();
	answer(0, 5, 4, 0, 0);
	answer(0, 5, 4, 0, 0);
	assert_int_equal(kvctl_run("verify"), 1);
	kvctl_has(kvctl_err, "EPROTO");
	assert_int_equal(fake.asked_count, 2);
}

/* A daemon that is known not to know the request is not sent it. */
static void test_older(void **state)
{
	static struct kvd_status s;
	int fd = kvctl_file("kvd.status", O_WRONLY | O_CREAT);

	s = (struct kvd_status){
		.magic = KVD_STATUS_MAGIC, .major = KVD_ABI_MAJOR, .minor = 1, .pid = 1};
	/* Of a dead one: it says nothing about the one that answers. */
	s.pid_start_ticks = UINT64_MAX;
	assert_int_equal(pwrite(fd, &s, sizeof(s), 0), sizeof(s));
	answer(0, 0, 9, 0, 0);
	assert_int_equal(kvctl_run("verify"), 0);
	again();
	s.pid = (uint32_t)getpid();
	s.pid_start_ticks = kvctl_start_ticks();
	assert_int_equal(pwrite(fd, &s, sizeof(s), 0), sizeof(s));
	close(fd);
	assert_int_equal(kvctl_run("verify"), 1);
	kvctl_one_sentence();
	kvctl_has(kvctl_err, "(protocol 1.1)");
	assert_int_equal(fake.asked_count, 0);
}

/* The child's side: kvctl with its stderr on that terminal. */
static void exec_on_terminal(const char *terminal, const char *option)
{
	int fd = open(terminal, O_RDWR | O_NOCTTY);

	dup2(fd, STDERR_FILENO);
	fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	dup2(fd, STDOUT_FILENO);
	execl(getenv("KVCTL_BIN"), "kvctl", "--socket", kvd.socket, "verify", option, (char *)NULL);
	_exit(127);
}

/* What it draws on a terminal. */
static void run_on_terminal(const char *option, char *text, size_t size)
{
	int status, fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	size_t used = 0;
	char name[64];
	ssize_t n;

	assert_true(fd >= 0 && grantpt(fd) == 0 && unlockpt(fd) == 0);
	assert_int_equal(ptsname_r(fd, name, sizeof(name)), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		exec_on_terminal(name, option);
	/* What it wrote stays in the terminal, which holds more than that; then EIO. */
	assert_int_equal(waitpid(pid, &status, 0), pid);
	while ((n = read(fd, text + used, size - 1 - used)) > 0)
		used += (size_t)n;
	text[used] = '\0';
	close(fd);
	assert_int_equal(status, 0);
}

static void test_progress(void **state)
{
	char text[4096];

	answer(0, 5, 3, 0, 0);
	answer(0, 0, 6, 0, 0);
	run_on_terminal(NULL, text, sizeof(text));
	kvctl_has(text, "\r\033[K[##########....................] 3 of 9 blocks, 3.00 MiB, ");
	kvctl_has(text, "[##############################] 9 of 9 blocks");
	kvctl_has(text, " s left");
	assert_string_equal(text + strlen(text) - 4, "\r\033[K");
	again();
	answer(0, 0, 9, 0, 0);
	run_on_terminal("--json", text, sizeof(text));
	assert_string_equal(text, "");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
TEST_MAIN(kvctl_verify, TEST(test_all_good), TEST(test_none_could_be_read), TEST(test_bad_ones),
	  TEST(test_refusals), TEST(test_broken_daemon), TEST(test_older), TEST(test_progress))
