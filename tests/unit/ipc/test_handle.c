/* SPDX-License-Identifier: Apache-2.0 */
/* Opening, refusals, waiting and waking, a fork, the daemon's death, and questions that block. */
#include "tests/test.h"
#include "tests/unit/ipc/fake_kvd.h"
#include <dirent.h>
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

static int open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void handle_opens_and_says_bye(void **state)
{
	int before = open_fds();
	struct fake_kvd *f = fake_start();
	struct kvd_info info;
	uint32_t format;
	struct kvd *k = fake_open(f, 1, &format);

	kvd_info(k, &info);
	assert_int_equal(format, 7);
	assert_int_equal(info.nonce, 77);
	assert_int_equal(info.session, 3);
	assert_int_equal(info.pid, getpid());
	kvd_close(k);
	assert_int_equal(fake_count(f, KVD_OP_BYE, NULL), 1);
	fake_stop(f);
	kvd_close(NULL);
	assert_int_equal(open_fds(), before);
}

static void handle_is_refused_in_words(void **state)
{
	int before = open_fds();
	struct fake_kvd *f = fake_start();
	struct kvd_options o = {.socket_fd = f->client_fd};
	struct kvd *k = NULL;

	fake_result(f, KVD_OP_HELLO, -EACCES);
	assert_int_equal(kvd_open(&o, &k), -EACCES);
	assert_null(k);
	assert_string_equal(kvd_last_error(), "kvd refuses: the ?[1mfake?[0m says no");
	fake_stop(f);

	f = fake_start();
	o.socket_fd = f->client_fd;
	fake_result(f, KVD_OP_HELLO, -EBADMSG);
	fake_set(f, &f->welcome_major, KVD_ABI_MAJOR + 1);
	assert_int_equal(kvd_open(&o, &k), -EPROTO);
	assert_non_null(strstr(kvd_last_error(), "another version"));
	fake_stop(f);

	f = fake_start();
	o.socket_fd = f->client_fd;
	fake_set(f, &f->welcome_major, KVD_ABI_MAJOR + 1);
	assert_int_equal(kvd_open(&o, &k), -EPROTO);
	fake_stop(f);
	assert_int_equal(open_fds(), before);
}

static uint32_t devices_of(uint32_t welcome_bytes, uint32_t devices, struct kvd_device out[2])
{
	struct fake_kvd *f = fake_start();
	uint32_t format, count;

	fake_set(f, &f->welcome_bytes, welcome_bytes);
	fake_set(f, &f->welcome_devices, devices);
	struct kvd *k = fake_open(f, 1, &format);
	count = kvd_devices(k, out, 2);
	kvd_close(k);
	fake_stop(f);
	return count;
}

/* What a newer daemon says, what one of minor 0 does not, and what makes no sense. */
static void handle_knows_the_devices(void **state)
{
	struct kvd_device d[2];

	assert_int_equal(devices_of(0, 2, d), 2);
	assert_int_equal(d[0].kind, KVD_SLAB_CUDA_IPC);
	assert_string_equal(d[0].name, "a ?[1mGPU");
	assert_int_equal(d[1].index, 1);
	assert_int_equal(devices_of(0, 16, d), 16);
	assert_int_equal(devices_of(KVD_WELCOME_BYTES_MIN, 2, d), 1);
	assert_int_equal(d[0].kind, KVD_SLAB_HOST);
	assert_int_equal(devices_of(0, 0, d), 1);
	assert_int_equal(devices_of(0, KVD_DEVICES_MAX + 1, d), 1);
	assert_string_equal(d[0].name, "host");
}

static void handle_finds_nobody(void **state)
{
	struct kvd_options o = {.socket_path = "/nonexistent/kvd.sock"};
	struct kvd_options secret = {.socket_path = "/x", .secret = "s", .secret_bytes = 65};
	char path[64];
	struct kvd *k;

	assert_int_equal(kvd_open(&o, &k), -ENOENT);
	assert_non_null(strstr(kvd_last_error(), "/nonexistent/kvd.sock"));
	assert_int_equal(kvd_socket_path("/a/b", path, sizeof(path)), 0);
	assert_string_equal(path, "/a/b");
	assert_int_equal(kvd_socket_path("/a/b", path, 3), -ENAMETOOLONG);
	assert_int_equal(kvd_open(&secret, &k), -ENOENT);
}

static void handle_gives_up_on_silence(void **state)
{
	struct fake_kvd *f = fake_start();
	struct kvd_options o = {.socket_fd = f->client_fd, .timeout_ns = 1000000};
	struct kvd *k;

	fake_hold(f, KVD_OP_HELLO, true);
	assert_int_equal(kvd_open(&o, &k), -ETIMEDOUT);
	fake_stop(f);
}

static void *wake_later(void *arg)
{
	kvd_wake(arg);
	return NULL;
}

static void handle_wakes(void **state)
{
	struct fake_kvd *f = fake_start();
	uint32_t format;
	struct kvd *k = fake_open(f, 1, &format);
	struct kvd_event event;
	pthread_t thread;

	assert_int_equal(kvd_wait(k, 0, &event, 1), 0);
	kvd_wake(k);
	assert_int_equal(kvd_wait(k, UINT64_MAX, &event, 1), 0);
	assert_int_equal(pthread_create(&thread, NULL, wake_later, k), 0);
	assert_int_equal(kvd_wait(k, UINT64_MAX, &event, 1), 0);
	pthread_join(thread, NULL);
	assert_int_equal(kvd_wait(k, 1000000, &event, 1), 0);
	assert_int_equal(kvd_wait(k, 0, NULL, 1), -EINVAL);
	assert_int_equal(kvd_wait(NULL, 0, &event, 1), -EINVAL);
	kvd_close(k);
	fake_stop(f);
}

static void handle_tells_what_kvd_wants(void **state)
{
	struct fake_kvd *f = fake_start();
	uint32_t format;
	struct kvd *k = fake_open(f, 1, &format);
	struct kvd_session_row row = {.want_back_pages = 5, .draining = 1, .retiring_slab = 3};
	struct kvd_event event;
	struct kvd_info info;
	struct kvd_req req;

	fake_session_row(f, &row);
	assert_int_equal(kvd_wait(k, UINT64_MAX, &event, 1), 0);
	kvd_info(k, &info);
	assert_int_equal(info.want_back_pages, 5);
	assert_int_equal(info.draining, 1);
	assert_int_equal(info.retiring_slabs, 1);
	fake_hold(f, KVD_OP_SLAB_GONE, true);
	assert_int_equal(kvd_slabs_quiet(k), 0);
	kvd_info(k, &info);
	assert_int_equal(info.retiring_slabs, 0);
	assert_int_equal(kvd_slabs_quiet(k), 0);
	while (fake_count(f, KVD_OP_SLAB_GONE, &req) == 0)
		usleep(100);
	assert_int_equal(req.arg32, 2);
	assert_int_equal(fake_count(f, KVD_OP_SLAB_GONE, NULL), 1);
	row.retiring_slab = 0;
	fake_session_row(f, &row);
	fake_answer_held(f);
	kvd_close(k);
	fake_stop(f);
}

static void handle_is_not_inherited(void **state)
{
	struct fake_kvd *f = fake_start();
	uint32_t format, tokens[16] = {0};
	struct kvd *k = fake_open(f, 1, &format);
	struct kvd_acquire_args args = {.format = format, .tokens = tokens, .token_count = 16};
	struct kvd_lease *lease;
	struct kvd_event event;
	int status;

	assert_int_equal(kvd_acquire(k, &args, &lease), 0);
	assert_int_equal(kvd_wait(k, UINT64_MAX, &event, 1), 1);
	pid_t pid = fork();
	if (pid == 0) {
		struct kvd_lease_info info;
		struct kvd_lease *other;
		int bad = kvd_wait(k, 0, &event, 1) != -ECHILD;
		bad |= (kvd_acquire(k, &args, &other) != -ECHILD) << 1;
		bad |= (kvd_release(k, lease, 0, NULL, 0) != -ECHILD) << 2;
		kvd_lease_info(lease, &info);
		bad |= (info.id != 0) << 3;
		kvd_wake(k);
		kvd_close(k);
		_exit(bad);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	/* And the parent's still works. */
	assert_int_equal(kvd_release(k, lease, 0, NULL, 0), 0);
	kvd_close(k);
	assert_int_equal(fake_count(f, KVD_OP_BYE, NULL), 1);
	fake_stop(f);
}

static void handle_outlives_the_daemon(void **state)
{
	struct fake_kvd *f = fake_start();
	uint32_t format, tokens[32] = {0}, count;
	struct kvd *k = fake_open(f, 1, &format);
	struct kvd_acquire_args args = {.format = format, .tokens = tokens, .token_count = 32};
	struct kvd_lease *a, *b;
	struct kvd_event events[4];
	struct kvd_space_stat stat;

	assert_int_equal(kvd_acquire(k, &args, &a), 0);
	assert_int_equal(kvd_wait(k, UINT64_MAX, events, 4), 1);
	assert_int_equal(events[0].result, 0);
	fake_hold(f, KVD_OP_ACQUIRE, true);
	fake_hold(f, KVD_OP_TOPUP, true);
	assert_int_equal(kvd_acquire(k, &args, &b), 0);
	assert_int_equal(kvd_topup(k, format, 2, 100), 0);
	fake_die(f);
	int n = kvd_wait(k, UINT64_MAX, events, 4);
	assert_int_equal(n, 3);
	uint32_t leases = 0, topups = 0;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(events[i].result, KVD_GONE);
		leases += events[i].kind == KVD_EV_LEASE && events[i].lease == b;
		topups += events[i].kind == KVD_EV_TOPUP && events[i].format == format;
	}
	assert_int_equal(leases, 1);
	assert_int_equal(topups, 1);
	assert_int_equal(events[2].kind, KVD_EV_GONE);
	assert_int_equal(kvd_wait(k, UINT64_MAX, events, 4), -EPIPE);
	assert_int_equal(kvd_acquire(k, &args, &b), KVD_GONE);
	assert_int_equal(kvd_stat(k, &stat), KVD_GONE);
	assert_int_equal(kvd_seal(k, a, 0, 1, NULL, 0), KVD_GONE);
	/* What runs may still write its pages. */
	const uint64_t *pages = kvd_lease_pages(a, 0, &count);
	assert_int_equal(count, 2);
	memset((void *)(uintptr_t)pages[1], 1, FAKE_STRIDE);
	assert_int_equal(kvd_release(k, a, 0, NULL, 0), KVD_GONE);
	kvd_close(k);
	fake_stop(f);
}

static void handle_is_ended_by_the_daemon(void **state)
{
	struct fake_kvd *f = fake_start();
	uint32_t format;
	struct kvd *k = fake_open(f, 1, &format);
	struct kvd_event event;

	((struct kvd_rings *)f->rings.map)->closed = EPROTO;
	assert_int_equal(kvd_wait(k, UINT64_MAX, &event, 1), 1);
	assert_int_equal(event.kind, KVD_EV_GONE);
	assert_non_null(strstr(kvd_last_error(), strerror(EPROTO)));
	kvd_close(k);
	fake_stop(f);
}

static void handle_asks(void **state)
{
	struct fake_kvd *f = fake_start();
	uint32_t format, tokens[40] = {1, 2, 3}, pinned;
	struct kvd *k = fake_open(f, 1, &format);
	struct kvd_space_stat stat;
	struct kvd_why why;
	struct kvd_req req = {.op = KVD_OP_CHECK};
	struct kvd_rep rep;
	char text[16];

	assert_int_equal(kvd_stat(k, &stat), 0);
	assert_int_equal(stat.space, 0x6b6b6b6b);
	assert_int_equal(stat.name[KVD_NAME_MAX - 1], 0);
	assert_int_equal(kvd_why(k, format, tokens, 40, &why), 0);
	assert_int_equal(strlen(why.text), sizeof(why.text) - 1);
	assert_int_equal(kvd_pin(k, format, tokens, 40, &pinned), 0);
	assert_int_equal(pinned, 40);
	fake_count(f, KVD_OP_PIN, &req);
	assert_int_equal(req.n, 40);
	assert_memory_equal(f->payload[KVD_OP_PIN], tokens, sizeof(tokens));
	fake_result(f, KVD_OP_UNPIN, KVD_MISS);
	assert_int_equal(kvd_unpin(k, format, tokens, 40), KVD_MISS);
	assert_int_equal(kvd_unpin(k, format, tokens, 0), -EINVAL);
	req = (struct kvd_req){.op = KVD_OP_CHECK};
	assert_int_equal(kvd_call(k, &req, NULL, &rep, text, sizeof(text)), 0);
	assert_int_equal(rep.result, 0);
	assert_int_equal(rep.out_bytes, 5);
	assert_memory_equal(text, "admin", 5);
	assert_int_equal(kvd_call(k, &req, NULL, &rep, text, 3), 0);
	assert_int_equal(rep.out_bytes, 3);
	assert_int_equal(kvd_rate(k, format, 1000), 0);
	kvd_close(k);
	assert_int_equal(fake_count(f, KVD_OP_RATE, &req), 1);
	assert_int_equal(req.arg64, 1000);
	fake_stop(f);
}

static void handle_for_admins_has_no_rings(void **state)
{
	struct fake_kvd *f = fake_start();
	struct kvd_options o = {.socket_fd = f->client_fd, .hello_flags = KVD_HELLO_ADMIN};
	struct kvd_acquire_args args = {0};
	struct kvd_req req = {.op = KVD_OP_LIST};
	struct kvd_lease *lease;
	struct kvd_event event;
	struct kvd_rep rep;
	struct kvd *k;

	assert_int_equal(kvd_open(&o, &k), 0);
	assert_int_equal(kvd_acquire(k, &args, &lease), -EOPNOTSUPP);
	assert_int_equal(kvd_call(k, &req, NULL, &rep, NULL, 0), 0);
	assert_int_equal(kvd_wait(k, 0, &event, 1), 0);
	fake_die(f);
	assert_int_equal(kvd_wait(k, UINT64_MAX, &event, 1), 1);
	assert_int_equal(event.kind, KVD_EV_GONE);
	assert_int_equal(kvd_call(k, &req, NULL, &rep, NULL, 0), KVD_GONE);
	kvd_close(k);
	fake_stop(f);
}

static void handle_names_results(void **state)
{
	assert_string_equal(kvd_strresult(0), "ok");
	assert_string_equal(kvd_strresult(KVD_FULL), "full");
	assert_string_equal(kvd_strresult(-ENOENT), "ENOENT");
	assert_string_equal(kvd_strresult(-99999), "unknown");
	assert_string_equal(kvd_strresult(99), "unknown");
	assert_string_equal(kvd_version(), KVD_VERSION);
}

TEST_MAIN(handle, cmocka_unit_test(handle_opens_and_says_bye),
	  cmocka_unit_test(handle_is_refused_in_words), cmocka_unit_test(handle_finds_nobody),
	  cmocka_unit_test(handle_knows_the_devices), cmocka_unit_test(handle_gives_up_on_silence),
	  cmocka_unit_test(handle_wakes), cmocka_unit_test(handle_tells_what_kvd_wants),
	  cmocka_unit_test(handle_is_not_inherited), cmocka_unit_test(handle_outlives_the_daemon),
	  cmocka_unit_test(handle_is_ended_by_the_daemon), cmocka_unit_test(handle_asks),
	  cmocka_unit_test(handle_for_admins_has_no_rings), cmocka_unit_test(handle_names_results))
