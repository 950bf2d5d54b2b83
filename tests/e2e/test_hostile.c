/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients that break every rule. Each loses its own session, with a word in the log and an errno in
 * its ring; a well-behaved client that works beside them all the time notices nothing, and the
 * daemon holds nothing of theirs afterwards.
 */
#include "base/atomic.h"
#include "base/bits.h"
#include "tests/e2e/harness.h"
#include "tests/e2e/raw.h"
#include "tests/test.h"
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

static struct harness_kvd kvd;
static struct harness_client good;

static int setup(void **state)
{
	harness_init(&kvd);
	harness_start(&kvd, (const char *[]){"--handshake-timeout=300ms", NULL});
	harness_client(&good, &kvd, NULL, NULL);
	return 0;
}

static int teardown(void **state)
{
	harness_client_end(&good, SIGKILL);
	harness_fini(&kvd);
	return 0;
}

/* The good client still works, and nothing is left of the others. */
static void nobody_noticed(void)
{
	static unsigned int seed = 1000;

	harness_ask(&good, "acquire x %u:150", seed++);
	assert_true(harness_is(&good, "ok"));
	harness_ask(&good, "run x");
	assert_true(harness_is(&good, "ok"));
	harness_ask(&good, "verify x");
	assert_int_equal(harness_field(&good, "wrong"), 0);
	assert_int_equal(harness_field(&good, "tokens"), 150);
	harness_ask(&good, "release x");
	harness_quiet(&kvd, 1);
}

static void test_hello_cut_at_every_byte(void **state)
{
	struct kvd_hello hello = raw_hello();
	struct kvd_req req = {.op = KVD_OP_HELLO, .in_bytes = sizeof(hello)};

	for (size_t n = 1; n < sizeof(req) + sizeof(hello); n++) {
		int sock = raw_connect(kvd.socket);
		size_t head = BITS_MIN(n, sizeof(req));
		assert_int_equal(raw_send(sock, &req, head, &hello, n - head), 0);
		if (n % 2) {
			static struct sock_packet p;
			while (raw_recv(sock, &p))
				continue;
		}
		close(sock);
	}
	nobody_noticed();
}

static void test_hello_of_random_bytes(void **state)
{
	uint64_t seed = 42;
	struct kvd_welcome w;

	print_message("seed %llu\n", (unsigned long long)seed);
	for (int i = 0; i < 300; i++) {
		struct kvd_hello hello = raw_hello();
		uint8_t *bytes = (uint8_t *)&hello;
		for (int flips = 1 + i % 8; flips > 0; flips--)
			bytes[test_random(&seed) % sizeof(hello)] = (uint8_t)test_random(&seed);
		int sock = raw_connect(kvd.socket);
		(void)raw_say(sock, &hello, &w);
		close(sock);
	}
	nobody_noticed();
}

static void test_other_version(void **state)
{
	struct kvd_hello hello = raw_hello();
	struct kvd_welcome w;
	int sock = raw_connect(kvd.socket);

	hello.major = KVD_ABI_MAJOR + 1;
	assert_true(raw_say(sock, &hello, &w) < 0);
	assert_int_equal(w.major, KVD_ABI_MAJOR);
	assert_non_null(strstr(w.message, "speaks protocol"));
	assert_non_null(strstr(w.message, "libkvd"));
	close(sock);
	nobody_noticed();
}

static void test_says_nothing(void **state)
{
	int socks[8];
	static struct sock_packet p;

	for (int i = 0; i < 8; i++)
		socks[i] = raw_connect(kvd.socket);
	for (int i = 0; i < 8; i++) {
		assert_int_equal(raw_recv(socks[i], &p), 0);
		close(socks[i]);
	}
	assert_true(harness_log_gets(&kvd, "said no HELLO within"));
	nobody_noticed();
}

/* The daemon slept for longer than the timeout: a newcomer's time begins when it comes. */
static void test_comes_after_a_long_silence(void **state)
{
	struct raw r;

	usleep(700000);
	raw_open(&r, kvd.socket);
	raw_close(&r);
	nobody_noticed();
}

/* More silent connections than there is room for: they are turned away, the good one is not. */
static void test_crowd(void **state)
{
	int socks[64];

	for (int i = 0; i < 64; i++)
		socks[i] = raw_connect(kvd.socket);
	nobody_noticed();
	for (int i = 0; i < 64; i++)
		close(socks[i]);
	nobody_noticed();
}

static void test_descriptors_that_nobody_asked_for(void **state)
{
	struct kvd_hello hello = raw_hello();
	struct kvd_req req = {.op = KVD_OP_HELLO, .in_bytes = sizeof(hello)};
	int fds[64];

	for (uint32_t n = 1; n <= 64; n *= 2) {
		char control[CMSG_SPACE(sizeof(fds))] = {0};
		struct iovec iov[2] = {{&req, sizeof(req)}, {&hello, sizeof(hello)}};
		struct msghdr msg = {.msg_iov = iov,
				     .msg_iovlen = 2,
				     .msg_control = control,
				     .msg_controllen = CMSG_SPACE(n * sizeof(int))};
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
		static struct sock_packet p;
		for (uint32_t i = 0; i < n; i++)
			fds[i] = STDOUT_FILENO;
		*c = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
				      .cmsg_type = SCM_RIGHTS,
				      .cmsg_len = CMSG_LEN(n * sizeof(int))};
		memcpy(CMSG_DATA(c), fds, n * sizeof(int));
		int sock = raw_connect(kvd.socket);
		assert_true(sendmsg(sock, &msg, MSG_NOSIGNAL) > 0);
		while (raw_recv(sock, &p))
			continue;
		close(sock);
	}
	nobody_noticed();
}

static void ring(struct raw *r)
{
	uint64_t one = 1;

	assert_int_equal(write(r->ring.bell_to_kvd, &one, sizeof(one)), sizeof(one));
}

static void assert_closed(struct raw *r, int error)
{
	assert_true(raw_hung_up(r));
	assert_int_equal(atomic_load_acquire(&r->ring.shared->closed), error);
	raw_close(r);
}

static void test_impossible_index(void **state)
{
	struct raw r;

	raw_open(&r, kvd.socket);
	atomic_store_release(&r.ring.shared->req_head, r.welcome.credits + 1);
	ring(&r);
	assert_closed(&r, EPROTO);
	assert_true(harness_log_gets(&kvd, "impossible numbers"));
	raw_open(&r, kvd.socket);
	atomic_store_release(&r.ring.shared->req_head, UINT32_MAX);
	ring(&r);
	assert_closed(&r, EPROTO);
	nobody_noticed();
}

/* Payload outside of the areas, misaligned, wrapping around. */
static void test_payload_elsewhere(void **state)
{
	static const struct kvd_req bad[] = {
		{.op = KVD_OP_ACQUIRE, .n = 16, .in_off = 0xfffffff0, .in_bytes = 64},
		{.op = KVD_OP_ACQUIRE, .n = 16, .in_off = 1 << 20, .in_bytes = 64},
		{.op = KVD_OP_ACQUIRE, .n = 16, .in_off = UINT32_MAX, .in_bytes = 64},
		{.op = KVD_OP_ACQUIRE, .n = 16, .in_off = 2, .in_bytes = 64},
		{.op = KVD_OP_STAT, .out_off = 1 << 20, .out_bytes = 256},
		{.op = KVD_OP_STAT, .out_off = 0xfffffff8, .out_bytes = 256},
		{.op = KVD_OP_STAT, .out_off = 4, .out_bytes = 256},
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct raw r;
		raw_open(&r, kvd.socket);
		assert_int_equal(ring_put_request(&r.ring, &bad[i]), 0);
		ring(&r);
		assert_closed(&r, EPROTO);
	}
	nobody_noticed();
}

static void test_requests_of_random_bytes(void **state)
{
	uint64_t seed = 7;

	print_message("seed %llu\n", (unsigned long long)seed);
	for (int i = 0; i < 200; i++) {
		struct raw r;
		struct kvd_req req;
		raw_open(&r, kvd.socket);
		for (int n = 0; n < 20; n++) {
			for (size_t b = 0; b < sizeof(req); b++)
				((uint8_t *)&req)[b] = (uint8_t)test_random(&seed);
			req.op = (uint16_t)(test_random(&seed) % (KVD_OP_COUNT + 2));
			if (n % 2) {
				req.flags = 0;
				req.in_off = req.out_off = 0;
				req.n = (uint32_t)(test_random(&seed) % 64);
				req.in_bytes = req.n * 4;
				req.out_bytes = 4096;
				req.first = req.m = req.arg32 = 0;
			}
			(void)ring_put_request(&r.ring, &req);
		}
		ring(&r);
		if (i % 4 == 0)
			(void)raw_hung_up(&r);
		raw_close(&r);
	}
	nobody_noticed();
}

/* Every slot asks for an answer, none is ever read: legal, but never more than the credits. */
static void test_never_reads_replies(void **state)
{
	struct kvd_req req = {.op = KVD_OP_STAT, .out_bytes = 256};
	struct raw r;

	raw_open(&r, kvd.socket);
	for (uint32_t i = 0; i < r.welcome.credits; i++) {
		req.tag = i;
		assert_int_equal(ring_put_request(&r.ring, &req), 0);
	}
	ring(&r);
	while (atomic_load_acquire(&r.ring.shared->rep_head) != r.welcome.credits)
		usleep(1000);
	/* One more than it has room for. */
	while (ring_put_request(&r.ring, &req) != 0)
		usleep(1000);
	ring(&r);
	assert_closed(&r, EPROTO);
	nobody_noticed();
}

/* More tokens than one turn may have: each request is held for its turn, and all are answered. */
static void test_work_of_many_turns(void **state)
{
	struct kvd_req req = {.op = KVD_OP_WHY, .format = 12345, .n = 200000, .in_bytes = 800000};
	struct kvd_rep rep;
	struct raw r;

	raw_open(&r, kvd.socket);
	for (req.tag = 0; req.tag < 20; req.tag++)
		assert_int_equal(ring_put_request(&r.ring, &req), 0);
	ring(&r);
	for (uint32_t n = 0; n < 20;) {
		int got = ring_take_reply(&r.ring, &rep);
		assert_true(got >= 0);
		if (got)
			assert_int_equal(rep.tag, n++);
		else
			usleep(1000);
	}
	raw_close(&r);
	nobody_noticed();
}

static void test_socket_requests(void **state)
{
	static const struct kvd_req bad[] = {
		{.op = KVD_OP_HELLO},
		{.op = 0},
		{.op = 999},
		{.op = KVD_OP_FORMAT},
		{.op = KVD_OP_STAT, .flags = 0xffff},
		{.op = KVD_OP_STAT, .in_bytes = 8},
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct raw r;
		raw_open(&r, kvd.socket);
		assert_int_equal(raw_send(r.sock, &bad[i], sizeof(bad[i]), NULL, 0), 0);
		assert_closed(&r, EPROTO);
	}
	nobody_noticed();
}

/* What is asked in the wrong place is answered, and changes nothing. */
static void test_not_for_everybody(void **state)
{
	static const uint16_t ops[] = {KVD_OP_EVICT, KVD_OP_LIST, KVD_OP_CHECK, KVD_OP_DRAIN};
	static struct sock_packet p;
	struct raw r;

	raw_open(&r, kvd.socket);
	for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
		struct kvd_req req = {.op = ops[i], .arg32 = 1};
		struct kvd_rep rep;
		assert_int_equal(raw_send(r.sock, &req, sizeof(req), NULL, 0), 0);
		assert_int_equal(raw_recv(r.sock, &p), 1);
		memcpy(&rep, p.head, sizeof(rep));
		assert_int_equal(rep.result, -EPERM);
	}
	struct kvd_req slab = {.op = KVD_OP_SLAB, .arg32 = 12345};
	assert_int_equal(raw_send(r.sock, &slab, sizeof(slab), NULL, 0), 0);
	assert_int_equal(raw_recv(r.sock, &p), 1);
	assert_int_equal(p.fd_count, 0);
	raw_close(&r);
	nobody_noticed();
}

/* Sends questions and never reads an answer: the daemon does not wait for it. */
static void test_never_reads_the_socket(void **state)
{
	struct kvd_req req = {.op = KVD_OP_STAT, .out_bytes = 256};
	struct raw r;

	raw_open(&r, kvd.socket);
	for (int i = 0; i < 5000; i++)
		if (send(r.sock, &req, sizeof(req), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
			break;
	raw_close(&r);
	nobody_noticed();
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
TEST_MAIN(hostile, TEST(test_hello_cut_at_every_byte), TEST(test_hello_of_random_bytes),
	  TEST(test_other_version), TEST(test_says_nothing), TEST(test_comes_after_a_long_silence),
	  TEST(test_crowd), TEST(test_descriptors_that_nobody_asked_for),
	  TEST(test_impossible_index), TEST(test_payload_elsewhere),
	  TEST(test_requests_of_random_bytes), TEST(test_never_reads_replies),
	  TEST(test_work_of_many_turns), TEST(test_socket_requests), TEST(test_not_for_everybody),
	  TEST(test_never_reads_the_socket))
