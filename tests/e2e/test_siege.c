/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients that take all that there is, or that things happen to: every session, lease, format and
 * descriptor, memory that changes while kvd looks at it, a process that stops for long. The others
 * go on, what was taken comes back, and the log says what happened. See test_hostile.c for those
 * that break the protocol.
 */
#include "base/atomic.h"
#include "base/bits.h"
#include "base/units.h"
#include "tests/e2e/harness.h"
#include "tests/e2e/raw.h"
#include "tests/test.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534
#define SESSIONS 64
#define WAIT_NS (20 * UNITS_NS_PER_S)

static struct harness_kvd kvd;
static struct harness_client good, other;

static int setup(void **state)
{
	harness_init(&kvd);
	return 0;
}

static int teardown(void **state)
{
	harness_client_end(&good, SIGKILL);
	harness_client_end(&other, SIGKILL);
	harness_fini(&kvd);
	return 0;
}

static void start(const char *const options[])
{
	harness_start(&kvd, options);
	harness_client(&good, &kvd, NULL, NULL);
}

static void good_works(void)
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
	assert_true(harness_is(&good, "ok"));
}

/* The good client still works, and nothing is left of the others. */
static void nobody_noticed(void)
{
	good_works();
	harness_quiet(&kvd, 1);
}

/* Lines are written soon after what they are about. */
static void log_says(const char *text)
{
	uint64_t end_ns = units_now_ns() + WAIT_NS;

	while (!harness_log_has(&kvd, text) && units_now_ns() < end_ns)
		usleep(1000);
	if (!harness_log_has(&kvd, text))
		fail_msg("the log does not say '%s'", text);
}

/* --- a raw session and its requests --------------------------------------------------------- */

static void ring(struct raw *r)
{
	uint64_t one = 1;

	(void)!write(r->ring.bell_to_kvd, &one, sizeof(one));
}

static void put(struct raw *r, const struct kvd_req *req)
{
	assert_int_equal(ring_put_request(&r->ring, req), 0);
	ring(r);
}

/* The next reply. False: the session is over. */
static bool take(struct raw *r, struct kvd_rep *rep)
{
	uint64_t end_ns = units_now_ns() + WAIT_NS;

	while (units_now_ns() < end_ns) {
		int got = ring_take_reply(&r->ring, rep);
		if (got)
			return got == 1;
		if (atomic_load_acquire(&r->ring.shared->closed))
			return false;
		usleep(200);
	}
	fail_msg("no reply");
	return false;
}

static int ask(struct raw *r, const struct kvd_req *req, struct kvd_rep *rep)
{
	put(r, req);
	return take(r, rep) ? rep->result : -EPIPE;
}

/* Leaves with a BYE, so that nothing of it needs quarantine. */
static void leave(struct raw *r)
{
	struct kvd_req req = {.op = KVD_OP_BYE};
	struct kvd_rep rep;

	assert_int_equal(ask(r, &req, &rep), 0);
	raw_close(r);
}

/* By the socket, with a payload. */
static int say(struct raw *r, const struct kvd_req *req, const void *payload, struct kvd_rep *rep)
{
	static struct sock_packet p;

	if (raw_send(r->sock, req, sizeof(*req), payload, req->in_bytes) < 0 ||
	    !raw_recv(r->sock, &p))
		return -EPIPE;
	memcpy(rep, p.head, sizeof(*rep));
	return rep->result;
}

/* A format with this number as its identity: its id, or what went wrong. */
static int64_t format(struct raw *r, uint64_t identity, uint32_t parts, uint64_t page_bytes)
{
	struct kvd_format_wire f = {.page_tokens = 16, .part_count = parts, .layout = "siege"};
	struct kvd_req req = {.op = KVD_OP_FORMAT, .in_bytes = sizeof(f)};
	struct kvd_rep rep;

	memcpy(f.identity, &identity, sizeof(identity));
	for (uint32_t i = 0; i < parts; i++)
		f.parts[i] =
			(struct kvd_part_wire){.page_bytes = page_bytes + i * 4096ull, .align = 64};
	int result = say(r, &req, &f, &rep);
	return result ? result : (int64_t)rep.aux;
}

/* n tokens from in_off on, all new if `seed` is. */
static struct kvd_req prompt(struct raw *r, uint32_t of_format, uint32_t n, uint32_t seed)
{
	uint32_t *tokens = (uint32_t *)(void *)r->ring.in;

	for (uint32_t i = 0; i < n; i++)
		tokens[i] = seed * 7919u + i;
	return (struct kvd_req){.op = KVD_OP_ACQUIRE,
				.format = of_format,
				.n = n,
				.in_bytes = n * (uint32_t)sizeof(*tokens),
				.out_bytes = bits_align_up((n / 16 + 1) * 8, 8)};
}

/* --- bells and headers ---------------------------------------------------------------------- */

/* A bell that would block whoever rings it, and a client that is always asleep. */
static void test_bells_that_block(void **state)
{
	struct kvd_req req = {.op = KVD_OP_STAT, .out_bytes = 256};
	uint64_t much = UINT64_MAX - 1;
	struct kvd_rep rep;
	struct raw r;

	start(NULL);
	raw_open(&r, kvd.socket);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fcntl(r.bells[i], F_SETFL, O_NONBLOCK), 0);
		for (int n = 0; n < 10000 && write(r.bells[i], &much, sizeof(much)) > 0; n++)
			continue;
		assert_int_equal(fcntl(r.bells[i], F_SETFL, 0), 0);
	}
	atomic_store_release(&r.ring.shared->client_sleeps, 1u);
	for (int n = 0; n < 300; n++) {
		atomic_store_release(&r.ring.shared->client_sleeps, 1u);
		assert_int_equal(ring_put_request(&r.ring, &req), 0);
		assert_true(take(&r, &rep));
	}
	good_works();
	raw_close(&r);
	nobody_noticed();
}

/* Every word of the header with garbage in it: kvd keeps its own copies. */
static void test_garbage_in_the_header(void **state)
{
	const size_t client_words[] = {offsetof(struct kvd_rings, req_head) / 4,
				       offsetof(struct kvd_rings, rep_tail) / 4,
				       offsetof(struct kvd_rings, client_sleeps) / 4};
	static const uint32_t garbage[] = {0, 1, 63, 64, 65, 0x7fffffff, UINT32_MAX, 0xdeadbeef};
	struct kvd_req req = {.op = KVD_OP_STAT, .out_bytes = 256};

	start(NULL);
	for (size_t word = 0; word < sizeof(struct kvd_rings) / 4; word++) {
		bool ours = false;
		for (size_t i = 0; i < ARRAY_LEN(client_words); i++)
			ours |= client_words[i] == word;
		for (size_t g = 0; g < ARRAY_LEN(garbage); g++) {
			struct raw r;
			raw_open(&r, kvd.socket);
			req.tag = 12345;
			assert_int_equal(ring_put_request(&r.ring, &req), 0);
			atomic_store_release((uint32_t *)r.ring.shared + word, garbage[g]);
			ring(&r);
			uint64_t end_ns = units_now_ns() + WAIT_NS;
			while (!ours && atomic_load_acquire(&r.ring.reps[0].tag) != req.tag &&
			       units_now_ns() < end_ns)
				usleep(100);
			if (!ours)
				assert_int_equal(r.ring.reps[0].tag, req.tag);
			raw_close(&r);
		}
	}
	nobody_noticed();
}

static bool storm_ends;

static void *storm(void *map)
{
	uint32_t *words = map;
	uint64_t seed = 99;

	while (!atomic_load_relaxed(&storm_ends)) {
		uint64_t x = test_random(&seed);
		atomic_store_relaxed(&words[x % (sizeof(struct kvd_rings) / 4)],
				     (uint32_t)(x >> 32) % 80);
	}
	return NULL;
}

/* A header that changes all the time, under a client that works. */
static void test_storm_in_the_header(void **state)
{
	struct kvd_req req = {.op = KVD_OP_STAT, .out_bytes = 256};

	start(NULL);
	for (int i = 0; i < 20; i++) {
		pthread_t thread;
		struct raw r;
		raw_open(&r, kvd.socket);
		atomic_store_relaxed(&storm_ends, false);
		assert_int_equal(pthread_create(&thread, NULL, storm, r.map), 0);
		for (int n = 0; n < 50; n++) {
			(void)ring_put_request(&r.ring, &req);
			ring(&r);
			usleep(100);
		}
		good_works();
		atomic_store_relaxed(&storm_ends, true);
		pthread_join(thread, NULL);
		raw_close(&r);
	}
	nobody_noticed();
}

/* --- payloads ------------------------------------------------------------------------------- */

/* Requests whose payloads lie on each other, and replies too: each is answered for itself. */
static void test_overlapping_payloads(void **state)
{
	struct kvd_rep rep;
	struct raw r;

	start(NULL);
	raw_open(&r, kvd.socket);
	int64_t f = format(&r, 1, 1, 4096);
	assert_true(f >= 0);
	struct kvd_req req = prompt(&r, (uint32_t)f, 160, 1);
	req.deadline_ms = 20000;
	for (req.tag = 0; req.tag < 20; req.tag++) {
		req.in_off = req.tag * 4;
		req.out_off = req.tag * 8;
		put(&r, &req);
	}
	for (uint32_t n = 0; n < 20; n++) {
		assert_true(take(&r, &rep));
		assert_int_equal(rep.tag, n);
		assert_int_equal(rep.result, 0);
	}
	good_works();
	leave(&r);
	nobody_noticed();
}

/* As many tokens as a request may have, and one more, again and again. */
static void test_a_million_tokens(void **state)
{
	static struct sock_packet p;
	struct kvd_hello hello = raw_hello();
	struct kvd_rep rep;
	struct raw r;

	start(NULL);
	hello.in_area_bytes = 8 << 20;
	raw_open_as(&r, kvd.socket, &hello);
	int64_t f = format(&r, 1, 1, 4096);
	struct kvd_req req = prompt(&r, (uint32_t)f, KVD_REQUEST_TOKENS_MAX, 1);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(ask(&r, &req, &rep), -E2BIG);
		req.op = KVD_OP_WHY;
		req.out_bytes = sizeof(struct kvd_why);
		assert_int_equal(ask(&r, &req, &rep), 0);
		req.op = KVD_OP_ACQUIRE;
	}
	good_works();
	req.n++;
	req.in_bytes += 4;
	assert_int_equal(ask(&r, &req, &rep), -E2BIG);
	req.n = UINT32_MAX;
	assert_int_equal(ask(&r, &req, &rep), -E2BIG);
	raw_close(&r);
	nobody_noticed();
	(void)p;
}

static void *scribble(void *map)
{
	uint32_t *words = map;
	uint64_t seed = 5;

	while (!atomic_load_relaxed(&storm_ends)) {
		uint64_t x = test_random(&seed);
		atomic_store_relaxed(&words[x % 512], (uint32_t)(x >> 32) % 200);
	}
	return NULL;
}

/* Tokens and extras that change while kvd reads them, and while the request waits. */
static void test_payload_that_changes(void **state)
{
	struct kvd_rep rep;
	pthread_t thread;
	struct raw r;

	start((const char *[]){"--session-share=90", NULL});
	harness_ask(&good, "acquire big 77:52000");
	assert_true(harness_is(&good, "ok"));
	raw_open(&r, kvd.socket);
	int64_t f = format(&r, 1, 1, 4096);
	struct kvd_req req = prompt(&r, (uint32_t)f, 400, 3);
	req.m = 8;
	req.in_bytes += req.m * (uint32_t)sizeof(struct kvd_extra);
	memset(r.ring.in + 1600, 0, req.m * sizeof(struct kvd_extra));
	for (uint32_t i = 0; i < req.m; i++)
		((struct kvd_extra *)(void *)(r.ring.in + 1600))[i].token_pos = i * 20;
	req.arg32 = 1000;
	req.deadline_ms = 60000;
	for (req.tag = 1; req.tag <= 8; req.tag++)
		put(&r, &req);
	atomic_store_relaxed(&storm_ends, false);
	assert_int_equal(pthread_create(&thread, NULL, scribble, r.ring.in), 0);
	for (int i = 0; i < 300; i++) {
		harness_ask(&good, "acquire x %d:40", i + 1);
		harness_ask(&good, "release x");
	}
	harness_ask(&good, "release big");
	for (int i = 0; i < 8; i++)
		assert_true(take(&r, &rep));
	for (int i = 0; i < 2000; i++) {
		req.deadline_ms = req.arg32 = 0;
		assert_true(ask(&r, &req, &rep) != -EPIPE);
		if (rep.result == 0) {
			struct kvd_req gone = {.op = KVD_OP_RELEASE, .lease = rep.lease};
			assert_int_equal(ask(&r, &gone, &rep), 0);
		}
	}
	harness_check(&kvd);
	atomic_store_relaxed(&storm_ends, true);
	pthread_join(thread, NULL);
	leave(&r);
	nobody_noticed();
}

/* --- all that there is ---------------------------------------------------------------------- */

static void test_every_session(void **state)
{
	static struct raw r[SESSIONS];
	struct kvd_hello hello = raw_hello();
	struct kvd_welcome w;

	start(NULL);
	for (int i = 0; i < SESSIONS - 1; i++)
		raw_open(&r[i], kvd.socket);
	int sock = raw_connect(kvd.socket);
	assert_int_equal(raw_say(sock, &hello, &w), -EUSERS);
	assert_non_null(strstr(w.message, "--sessions-max"));
	close(sock);
	log_says("--sessions-max allows no more");
	good_works();
	harness_check(&kvd);
	for (int i = 0; i < SESSIONS - 1; i++)
		raw_close(&r[i]);
	nobody_noticed();
}

/* All leases of its table and of its namespace's part; the other namespace has its own part. */
static void test_every_lease(void **state)
{
	static struct raw r[4];
	struct kvd_hello hello = raw_hello();
	struct kvd_rep rep = {0};
	uint32_t taken = 0;

	start((const char *[]){"--namespace=default", "--namespace=crowd", "--leases-max=200",
			       "--pool-bytes=32MiB", NULL});
	strcpy(hello.space, "crowd");
	for (uint32_t i = 0; i < ARRAY_LEN(r); i++) {
		raw_open_as(&r[i], kvd.socket, &hello);
		int64_t f = format(&r[i], 1, 1, 4096);
		assert_true(f >= 0);
		for (uint32_t n = 0; n < 70; n++) {
			struct kvd_req req = prompt(&r[i], (uint32_t)f, 16, i * 100 + n);
			int result = ask(&r[i], &req, &rep);
			if (result != 0)
				assert_int_equal(result, -ENOSPC);
			taken += result == 0;
		}
		assert_int_equal(rep.result, -ENOSPC);
	}
	assert_int_equal(taken, 100);
	good_works();
	for (uint32_t i = 0; i < ARRAY_LEN(r); i++)
		leave(&r[i]);
	nobody_noticed();
}

/* All formats, and all sizes of page, that a namespace can have. */
static void test_every_format(void **state)
{
	struct kvd_hello hello = raw_hello();
	struct raw r;

	start((const char *[]){"--namespace=default", "--namespace=crowd", "--formats-max=64",
			       "--pool-bytes=64MiB", NULL});
	strcpy(hello.space, "crowd");
	raw_open_as(&r, kvd.socket, &hello);
	int64_t f = 0;
	uint64_t made = 0;
	while ((f = format(&r, made, 16, 4096 + made * 65536)) >= 0)
		assert_in_range(++made, 1, 64);
	assert_int_equal(f, -ENOSPC);
	/* One that needs no new size of page. */
	while ((f = format(&r, ++made + 1000, 1, 4096)) >= 0)
		assert_in_range(made, 1, 64);
	assert_int_equal(f, -ENOSPC);
	assert_true(format(&r, 0, 16, 4096) >= 0);
	harness_client_sized(&other, &kvd, NULL, NULL, 32, 12345);
	harness_ask(&other, "acquire x 3:64");
	assert_true(harness_is(&other, "ok"));
	harness_client_end(&other, SIGKILL);
	good_works();
	raw_close(&r);
	nobody_noticed();
}

/* Names with control characters stay names. */
static void test_unprintable(void **state)
{
	struct kvd_hello hello = raw_hello();
	char payload[sizeof(struct kvd_format_wire) + 64];
	struct kvd_format_wire f = {.page_tokens = 16,
				    .part_count = 1,
				    .layout = "a\nb\033[2J",
				    .description_bytes = 64,
				    .parts = {{.page_bytes = 4096, .align = 64}}};
	struct kvd_req req = {.op = KVD_OP_FORMAT, .in_bytes = sizeof(payload)};
	static struct kvd_status s;
	struct kvd_rep rep;
	struct raw r;
	char line[4096];

	start(NULL);
	strcpy(hello.name, "evil\n\033]0;x\007\"\\\x7f\xff");
	raw_open_as(&r, kvd.socket, &hello);
	memset(payload, '\n', sizeof(payload));
	memcpy(payload, &f, sizeof(f));
	payload[sizeof(payload) - 1] = '\0';
	assert_int_equal(say(&r, &req, payload, &rep), 0);
	/* Without its end it is no description. */
	payload[sizeof(payload) - 1] = 'x';
	assert_int_equal(say(&r, &req, payload, &rep), -EPIPE);
	raw_close(&r);
	strcpy(hello.space, "no\nsuch\033");
	int sock = raw_connect(kvd.socket);
	struct kvd_welcome w;
	assert_int_equal(raw_say(sock, &hello, &w), -EACCES);
	close(sock);
	harness_status(&kvd, &s);
	FILE *log = fopen(kvd.log, "re");
	assert_non_null(log);
	while (fgets(line, sizeof(line), log))
		for (const char *c = line; *c && *c != '\n'; c++)
			assert_in_range((unsigned char)*c, ' ', '~');
	fclose(log);
	nobody_noticed();
}

/* Guesses: all refused with the same words, and few lines in the log. */
static void test_wrong_secrets(void **state)
{
	char option[160], path[128], first[sizeof(((struct kvd_welcome *)0)->message)] = "";
	struct kvd_hello hello = raw_hello();
	struct kvd_welcome w;
	struct stat before, after;

	snprintf(path, sizeof(path), "%s/secret", kvd.dir);
	FILE *f = fopen(path, "we");
	fputs("open sesame", f);
	fclose(f);
	assert_int_equal(chmod(path, 0600), 0);
	snprintf(option, sizeof(option), "--namespace=vault,secret-file=%s", path);
	start((const char *[]){"--namespace=default", option, "--log-level=info", NULL});
	strcpy(hello.space, "vault");
	assert_int_equal(stat(kvd.log, &before), 0);
	for (uint32_t i = 0; i < 1000; i++) {
		int sock = raw_connect(kvd.socket);
		hello.secret_bytes = i % 65;
		memset(hello.secret, (int)i, sizeof(hello.secret));
		assert_int_equal(raw_say(sock, &hello, &w), -EACCES);
		if (i == 0)
			strcpy(first, w.message);
		assert_string_equal(w.message, first);
		close(sock);
	}
	assert_int_equal(stat(kvd.log, &after), 0);
	assert_in_range(after.st_size - before.st_size, 1, 40000);
	harness_client(&other, &kvd, "vault", "open sesame");
	harness_ask(&other, "acquire x 3:64");
	assert_true(harness_is(&other, "ok"));
	harness_client_bye(&other);
	nobody_noticed();
}

/* Silent connections without end; who speaks gets in all the same. */
static void test_flood_of_connections(void **state)
{
	static int socks[200];

	start(NULL);
	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < 200; i++)
			while (sock_connect(kvd.socket, &socks[i]) == -EAGAIN)
				usleep(100);
		harness_client(&other, &kvd, NULL, NULL);
		harness_client_bye(&other);
		good_works();
		for (int i = 0; i < 200; i++)
			close(socks[i]);
	}
	log_says("too many connections have not said HELLO");
	nobody_noticed();
}

/* Opens sessions until one is refused; the number of those that were not. */
static int sessions_of_nobody(void)
{
	static struct raw r[SESSIONS];
	struct kvd_hello hello = raw_hello();
	struct kvd_welcome w;
	int opened = 0, result;

	if (setgid(NOBODY) < 0 || setuid(NOBODY) < 0)
		return 255;
	do {
		r[opened].sock = raw_connect(kvd.socket);
		result = raw_say(r[opened].sock, &hello, &w);
		opened += result == 0;
	} while (result == 0 && opened < SESSIONS);
	return result == -EUSERS && strstr(w.message, "--uid-sessions-max") ? opened : 254;
}

/* One user cannot have all sessions. */
static void test_sessions_of_one_user(void **state)
{
	int status;

	if (geteuid() != 0)
		skip();
	assert_int_equal(chmod(kvd.dir, 0711), 0);
	start((const char *[]){"--mode=0666", "--uid-sessions-max=5", NULL});
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(sessions_of_nobody());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), 5);
	log_says("--uid-sessions-max allows no more");
	nobody_noticed();
}

/* Breaks sessions that have a page open until no more can be had. */
static int debts_of_nobody(void)
{
	struct kvd_hello hello = raw_hello();
	struct kvd_welcome w;
	int result = 0;

	if (setgid(NOBODY) < 0 || setuid(NOBODY) < 0)
		return 255;
	for (uint32_t i = 0; i < 1000 && result == 0; i++) {
		int sock = raw_connect(kvd.socket);
		result = raw_say(sock, &hello, &w);
		close(sock);
		if (result == 0) {
			struct raw r;
			struct kvd_rep rep;
			raw_open(&r, kvd.socket);
			int64_t f = format(&r, 1, 1, 4096);
			struct kvd_req req = prompt(&r, (uint32_t)f, 16, i);
			req.deadline_ms = 10000;
			(void)ask(&r, &req, &rep);
			raw_close(&r);
		}
	}
	return result == -EUSERS ? 0 : 254;
}

/* It lives on, and what it had open cannot be given to others. They come in all the same. */
static void test_debts_of_one_user(void **state)
{
	int ready[2], status;
	char byte;

	if (geteuid() != 0)
		skip();
	assert_int_equal(chmod(kvd.dir, 0711), 0);
	start((const char *[]){"--mode=0666", "--log-level=info", NULL});
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		byte = (char)debts_of_nobody();
		(void)!write(ready[1], &byte, 1);
		pause();
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(byte, 0);
	log_says("no session is free");
	harness_client(&other, &kvd, NULL, NULL);
	harness_client_bye(&other);
	good_works();
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	close(ready[0]);
	close(ready[1]);
	nobody_noticed();
}

/* The daemon runs out of descriptors: who is there stays, and later others come again. */
static void test_no_descriptors_left(void **state)
{
	static struct raw r[SESSIONS];
	struct kvd_hello hello = raw_hello();
	struct kvd_welcome w;
	struct rlimit few = {60, 60};
	int opened = 0, result;

	start(NULL);
	good_works();
	assert_int_equal(prlimit(kvd.pid, RLIMIT_NOFILE, &few, NULL), 0);
	do {
		r[opened].sock = raw_connect(kvd.socket);
		(void)fcntl(r[opened].sock, F_SETFL, O_NONBLOCK);
		result = raw_try(r[opened].sock, &hello, &w, 3000);
		opened++;
	} while (result == 0 && opened < SESSIONS);
	assert_in_range(opened, 3, SESSIONS - 1);
	good_works();
	log_says("descriptors");
	for (int i = 0; i < opened; i++)
		close(r[i].sock);
	harness_client(&other, &kvd, NULL, NULL);
	harness_client_bye(&other);
	nobody_noticed();
}

/* --- time ----------------------------------------------------------------------------------- */

/* It stops for longer than kvd waits for a slab that others need: it is expelled, and learns so. */
static void test_stopped_for_long(void **state)
{
	start((const char *[]){"--session-share=90", NULL});
	harness_client(&other, &kvd, NULL, NULL);
	harness_ask(&other, "acquire x 5:24000");
	assert_true(harness_is(&other, "ok"));
	harness_ask(&other, "run x");
	assert_true(harness_is(&other, "ok"));
	harness_ask(&other, "release x");
	kill(other.pid, SIGSTOP);
	harness_client_end(&good, SIGKILL);
	harness_client_sized(&good, &kvd, NULL, NULL, 16, 65536);
	/* So much that every slab of small pages must go. */
	harness_ask(&good, "acquire y 6:3000 1 15000");
	assert_true(harness_is(&good, "ok"));
	log_says("kept a slab mapped that kvd took back");
	harness_ask(&good, "run y");
	harness_ask(&good, "verify y");
	assert_int_equal(harness_field(&good, "wrong"), 0);
	harness_ask(&good, "release y");
	kill(other.pid, SIGCONT);
	harness_ask(&other, "gone");
	assert_int_equal(harness_field(&other, "gone"), 1);
	harness_client_end(&other, SIGKILL);
	nobody_noticed();
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
TEST_MAIN(siege, TEST(test_bells_that_block), TEST(test_garbage_in_the_header),
	  TEST(test_storm_in_the_header), TEST(test_overlapping_payloads),
	  TEST(test_a_million_tokens), TEST(test_payload_that_changes), TEST(test_every_session),
	  TEST(test_every_lease), TEST(test_every_format), TEST(test_unprintable),
	  TEST(test_wrong_secrets), TEST(test_flood_of_connections),
	  TEST(test_sessions_of_one_user), TEST(test_debts_of_one_user),
	  TEST(test_no_descriptors_left), TEST(test_stopped_for_long))
