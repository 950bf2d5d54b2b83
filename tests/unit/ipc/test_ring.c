/* SPDX-License-Identifier: Apache-2.0 */
/* Both ends of the rings: order, limits, a hostile other side, and two threads at full speed. */
#include "tests/test.h"
#include <errno.h>
#include <ipc/ring.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

enum { CREDITS = 32, IN_BYTES = 4096, OUT_BYTES = 2048 };

struct rings {
	struct shm shm;
	struct ring_side server;
	struct ring_side client;
	struct kvd_welcome welcome;
	int bells[4];
};

static void rings_open(struct rings *r)
{
	r->welcome = (struct kvd_welcome){
		.credits = CREDITS, .in_area_bytes = IN_BYTES, .out_area_bytes = OUT_BYTES};
	assert_int_equal(shm_create(&r->shm, "test", ring_bytes(CREDITS, IN_BYTES, OUT_BYTES),
				    SHM_SEAL_SIZE),
			 0);
	ring_init_server(&r->server, r->shm.map, CREDITS, IN_BYTES, OUT_BYTES);
	assert_int_equal(ring_init_client(&r->client, r->shm.map, r->shm.bytes, &r->welcome), 0);
	assert_int_equal(ring_bell_new(&r->bells[0], &r->bells[1]), 0);
	assert_int_equal(ring_bell_new(&r->bells[2], &r->bells[3]), 0);
	r->client.bell_to_kvd = r->bells[0];
	r->server.bell_to_kvd = r->bells[1];
	r->server.bell_to_client = r->bells[2];
	r->client.bell_to_client = r->bells[3];
}

static void rings_close(struct rings *r)
{
	for (int i = 0; i < 4; i++)
		close(r->bells[i]);
	shm_fini(&r->shm);
}

static void ring_carries_requests_and_replies(void **state)
{
	struct rings r;
	struct kvd_req req = {.op = 3, .in_off = 8, .in_bytes = 4, .out_off = 16, .out_bytes = 8};
	struct kvd_req got;
	struct kvd_rep rep = {.op = 3, .out_bytes = 6}, back;
	char copy[4];

	rings_open(&r);
	assert_int_equal(ring_take_request(&r.server, &got), 0);
	assert_int_equal(ring_take_reply(&r.client, &back), 0);
	memcpy(r.client.in + 8, "abcd", 4);
	for (uint32_t i = 0; i < 3 * CREDITS; i++) {
		req.tag = rep.tag = i;
		assert_int_equal(ring_put_request(&r.client, &req), 0);
		assert_int_equal(ring_take_request(&r.server, &got), 1);
		assert_memory_equal(&got, &req, sizeof(req));
		assert_true(ring_request_ok(&r.server, &got));
		assert_int_equal(ring_copy_in(&r.server, &got, copy), 0);
		assert_memory_equal(copy, "abcd", 4);
		assert_int_equal(ring_put_reply(&r.server, &got, &rep, "reply!"), 0);
		assert_int_equal(ring_take_reply(&r.client, &back), 1);
		assert_memory_equal(&back, &rep, sizeof(rep));
		assert_memory_equal(r.client.out + 16, "reply!", 6);
	}
	rings_close(&r);
}

static void ring_knows_when_it_is_full(void **state)
{
	struct rings r;
	struct kvd_req req = {0}, got;
	struct kvd_rep rep = {0};

	rings_open(&r);
	for (int i = 0; i < CREDITS; i++)
		assert_int_equal(ring_put_request(&r.client, &req), 0);
	assert_int_equal(ring_put_request(&r.client, &req), -EAGAIN);
	assert_int_equal(ring_take_request(&r.server, &got), 1);
	assert_int_equal(ring_put_request(&r.client, &req), 0);
	for (int i = 0; i < CREDITS; i++)
		assert_int_equal(ring_put_reply(&r.server, &req, &rep, NULL), 0);
	assert_int_equal(ring_put_reply(&r.server, &req, &rep, NULL), -EPROTO);
	rings_close(&r);
}

static void ring_survives_garbage_indices(void **state)
{
	const uint32_t heads[] = {CREDITS + 1, 1u << 31, UINT32_MAX, UINT32_MAX - CREDITS};
	/* Ahead of the head, or further behind than the ring is long. */
	const uint32_t tails[] = {1, CREDITS + 1, 1u << 31, UINT32_MAX - CREDITS};
	struct kvd_req req = {0};
	struct kvd_rep rep = {0};

	for (int i = 0; i < 4; i++) {
		struct rings r;
		rings_open(&r);
		r.server.shared->req_head = heads[i];
		assert_int_equal(ring_take_request(&r.server, &req), -EPROTO);
		r.server.shared->rep_head = heads[i];
		assert_int_equal(ring_take_reply(&r.client, &rep), -EPROTO);
		r.server.shared->rep_tail = tails[i];
		assert_int_equal(ring_put_reply(&r.server, &req, &rep, NULL), -EPROTO);
		r.server.shared->req_tail = tails[i];
		assert_int_equal(ring_put_request(&r.client, &req), -EAGAIN);
		rings_close(&r);
	}
}

static void ring_keeps_its_own_indices(void **state)
{
	struct rings r;
	struct kvd_req req = {.tag = 1}, got;

	rings_open(&r);
	assert_int_equal(ring_put_request(&r.client, &req), 0);
	/* The client writes into kvd's line, and moves every offset: nothing changes. */
	r.client.shared->req_tail = 999;
	r.client.shared->req_off = 1u << 30;
	r.client.shared->credits = 1u << 30;
	r.client.shared->in_off = UINT64_MAX;
	assert_int_equal(ring_take_request(&r.server, &got), 1);
	assert_int_equal(got.tag, 1);
	assert_int_equal(r.server.shared->req_tail, 1);
	rings_close(&r);
}

static void ring_checks_ranges(void **state)
{
	const struct kvd_req bad[] = {
		{.in_off = IN_BYTES - 4, .in_bytes = 8},
		{.in_off = IN_BYTES + 4},
		{.in_off = 2, .in_bytes = 4},
		{.in_off = UINT32_MAX - 3, .in_bytes = UINT32_MAX},
		{.out_off = OUT_BYTES, .out_bytes = 1},
		{.out_off = 4, .out_bytes = 4},
		{.out_off = UINT32_MAX - 7, .out_bytes = 16},
	};
	const struct kvd_req good = {.in_off = IN_BYTES, .out_off = 0, .out_bytes = OUT_BYTES};
	char out[16];
	struct rings r;

	rings_open(&r);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(ring_request_ok(&r.server, &bad[i]));
	assert_true(ring_request_ok(&r.server, &good));
	assert_int_equal(ring_copy_in(&r.server, &bad[0], out), -EFAULT);
	assert_int_equal(ring_copy_in(&r.server, &bad[3], out), -EFAULT);
	assert_int_equal(ring_copy_in(&r.server, &good, out), 0);
	rings_close(&r);
}

static int rings_refuse(struct rings *r, size_t offset, uint64_t value, size_t size)
{
	struct ring_side side;
	uint8_t saved[8];
	uint8_t *at = (uint8_t *)r->shm.map + offset;

	memcpy(saved, at, size);
	memcpy(at, &value, size);
	int result = ring_init_client(&side, r->shm.map, r->shm.bytes, &r->welcome);
	memcpy(at, saved, size);
	return result;
}

#define REFUSE(field, value)                                                                       \
	assert_int_equal(rings_refuse(&r, offsetof(struct kvd_rings, field), (value),              \
				      sizeof(((struct kvd_rings *)0)->field)),                     \
			 -EPROTO)

static void ring_refuses_hostile_headers(void **state)
{
	struct ring_side side;
	struct rings r;

	rings_open(&r);
	REFUSE(magic, 1);
	REFUSE(major, KVD_ABI_MAJOR + 1);
	REFUSE(credits, 64);
	REFUSE(in_area_bytes, IN_BYTES + 64);
	REFUSE(out_area_bytes, OUT_BYTES * 2);
	REFUSE(req_off, 0);
	REFUSE(req_off, 196);
	REFUSE(rep_off, UINT32_MAX - 63);
	REFUSE(rep_off, 192);
	REFUSE(in_off, UINT64_MAX - 63);
	REFUSE(in_off, 256);
	REFUSE(out_off, UINT64_MAX - 63);
	REFUSE(out_off, 1u << 20);
	assert_int_equal(ring_init_client(&side, r.shm.map, 100, &r.welcome), -EPROTO);
	r.welcome.credits = 33;
	assert_int_equal(ring_init_client(&side, r.shm.map, r.shm.bytes, &r.welcome), -EPROTO);
	r.welcome.credits = KVD_CREDITS_MAX * 2;
	assert_int_equal(ring_init_client(&side, r.shm.map, r.shm.bytes, &r.welcome), -EPROTO);
	rings_close(&r);
}

static int rings_readable(int fd)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};

	return poll(&pfd, 1, 0);
}

static void ring_rings_only_sleepers(void **state)
{
	struct rings r;
	struct kvd_req req = {0};
	struct kvd_rep rep = {0};

	rings_open(&r);
	ring_bell_to_kvd(&r.client);
	assert_int_equal(rings_readable(r.bells[1]), 0);
	assert_true(ring_sleep_server(&r.server));
	assert_int_equal(ring_put_request(&r.client, &req), 0);
	ring_bell_to_kvd(&r.client);
	assert_int_equal(rings_readable(r.bells[1]), 1);
	ring_awake_server(&r.server);
	ring_bell_clear(r.bells[1]);
	assert_int_equal(rings_readable(r.bells[1]), 0);
	assert_false(ring_sleep_server(&r.server));
	assert_true(ring_sleep_client(&r.client));
	assert_int_equal(ring_put_reply(&r.server, &req, &rep, NULL), 0);
	assert_false(ring_sleep_client(&r.client));
	/* A sleeper that never reads fills its own bell, and blocks nobody. */
	for (int i = 0; i < 10000; i++)
		ring_bell_to_client(&r.server);
	close(r.bells[3]);
	ring_bell_to_client(&r.server);
	r.bells[3] = dup(r.bells[2]);
	rings_close(&r);
}

enum { STRESS = 200000 };

static void *ring_stress_server(void *arg)
{
	struct rings *r = arg;
	struct kvd_req req;
	uint32_t done = 0;

	while (done < STRESS) {
		int n = ring_take_request(&r->server, &req);
		if (n == 1) {
			uint32_t value;
			struct kvd_rep rep = {.tag = req.tag, .out_bytes = sizeof(value)};
			if (ring_copy_in(&r->server, &req, &value) < 0 ||
			    ring_put_reply(&r->server, &req, &rep, &value) < 0)
				return (void *)1;
			ring_bell_to_client(&r->server);
			done++;
		} else if (n < 0) {
			return (void *)2;
		} else {
			struct pollfd pfd = {.fd = r->bells[1], .events = POLLIN};
			if (ring_sleep_server(&r->server))
				poll(&pfd, 1, -1);
			ring_awake_server(&r->server);
			ring_bell_clear(r->bells[1]);
		}
	}
	return NULL;
}

static void ring_stress_client_sleep(struct rings *r)
{
	struct pollfd pfd = {.fd = r->bells[3], .events = POLLIN};

	if (ring_sleep_client(&r->client))
		poll(&pfd, 1, -1);
	ring_awake_client(&r->client);
	ring_bell_clear(r->bells[3]);
}

static void ring_two_threads(void **state)
{
	uint32_t sent = 0, got = 0;
	pthread_t thread;
	struct rings r;
	void *result;

	rings_open(&r);
	assert_int_equal(pthread_create(&thread, NULL, ring_stress_server, &r), 0);
	while (got < STRESS) {
		struct kvd_rep rep;
		uint32_t slot = sent % CREDITS;
		struct kvd_req req = {.tag = sent,
				      .in_off = slot * 4,
				      .in_bytes = 4,
				      .out_off = slot * 8,
				      .out_bytes = 8};
		bool moved = false;
		if (sent < STRESS && sent - got < CREDITS) {
			uint32_t value = sent * 2654435761u;
			memcpy(r.client.in + req.in_off, &value, 4);
			assert_int_equal(ring_put_request(&r.client, &req), 0);
			ring_bell_to_kvd(&r.client);
			sent++;
			moved = true;
		}
		int n = ring_take_reply(&r.client, &rep);
		assert_true(n >= 0);
		if (n == 1) {
			uint32_t value;
			assert_int_equal(rep.tag, got);
			memcpy(&value, r.client.out + got % CREDITS * 8, 4);
			assert_int_equal(value, got * 2654435761u);
			got++;
			moved = true;
		}
		if (!moved)
			ring_stress_client_sleep(&r);
	}
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_null(result);
	rings_close(&r);
}

TEST_MAIN(ring, cmocka_unit_test(ring_carries_requests_and_replies),
	  cmocka_unit_test(ring_knows_when_it_is_full),
	  cmocka_unit_test(ring_survives_garbage_indices),
	  cmocka_unit_test(ring_keeps_its_own_indices), cmocka_unit_test(ring_checks_ranges),
	  cmocka_unit_test(ring_refuses_hostile_headers),
	  cmocka_unit_test(ring_rings_only_sleepers), cmocka_unit_test(ring_two_threads))
