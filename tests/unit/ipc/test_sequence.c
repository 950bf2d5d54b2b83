/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a lease against the scripted daemon: what is asked, and what comes of the answers. */
#include "tests/test.h"
#include "tests/unit/ipc/fake_kvd.h"
#include <errno.h>
#include <unistd.h>

struct bed {
	struct fake_kvd *f;
	struct kvd *k;
	uint32_t format;
	uint32_t tokens[2048];
};

static struct bed bed_open(uint32_t parts)
{
	struct bed b = {.f = fake_start()};

	b.k = fake_open(b.f, parts, &b.format);
	for (uint32_t i = 0; i < 2048; i++)
		b.tokens[i] = i + 1;
	return b;
}

static void bed_close(struct bed *b)
{
	kvd_close(b->k);
	fake_stop(b->f);
}

static struct kvd_event wait_one(struct bed *b)
{
	struct kvd_event event = {0};
	int n;

	while ((n = kvd_wait(b->k, UINT64_MAX, &event, 1)) == 0)
		;
	assert_int_equal(n, 1);
	return event;
}

static struct kvd_lease *acquire(struct bed *b, uint32_t tokens, uint32_t decode)
{
	struct kvd_acquire_args args = {.format = b->format,
					.tokens = b->tokens,
					.token_count = tokens,
					.decode_blocks = decode,
					.user = b};
	struct kvd_lease *lease = NULL;

	assert_int_equal(kvd_acquire(b->k, &args, &lease), 0);
	struct kvd_event event = wait_one(b);
	assert_int_equal(event.kind, KVD_EV_LEASE);
	assert_int_equal(event.result, 0);
	assert_ptr_equal(event.lease, lease);
	return lease;
}

static bool writable(uint64_t address)
{
	char byte = 0;
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	assert_int_equal(write(fds[1], &byte, 1), 1);
	/* The kernel answers EFAULT where a store would fault. */
	bool ok = read(fds[0], (void *)(uintptr_t)address, 1) == 1;
	close(fds[0]);
	close(fds[1]);
	return ok;
}

static void sequence_gets_pages(void **state)
{
	struct bed b = bed_open(2);
	struct kvd_lease_info info;
	struct kvd_req req;
	uint32_t count;

	fake_set(b.f, &b.f->cached_blocks, 2);
	struct kvd_lease *l = acquire(&b, 70, 1);
	kvd_lease_info(l, &info);
	assert_ptr_equal(info.user, &b);
	assert_int_equal(info.token_count, 70);
	assert_int_equal(info.cached_tokens, 32);
	assert_int_equal(info.build_from, 32);
	assert_int_equal(info.ready_tokens, 32);
	assert_int_equal(info.state, KVD_LEASE_OK);
	assert_int_equal(info.block_count, 6);
	for (uint32_t part = 0; part < 2; part++) {
		const uint64_t *pages = kvd_lease_pages(l, part, &count);
		assert_int_equal(count, 6);
		for (uint32_t i = 0; i < count; i++) {
			uint32_t page = b.f->blocks[1][i * 2 + part].page;
			assert_true(pages[i] != 0);
			assert_int_equal(writable(pages[i]), i >= 2);
			*fake_page(b.f, page) = (uint8_t)(i + 1);
			assert_int_equal(*(uint8_t *)(uintptr_t)pages[i], i + 1);
		}
	}
	assert_null(kvd_lease_pages(l, 2, &count));
	fake_count(b.f, KVD_OP_ACQUIRE, &req);
	assert_int_equal(req.n, 70);
	assert_int_equal(req.arg32, 1);
	assert_memory_equal(b.f->payload[KVD_OP_ACQUIRE], b.tokens, 70 * 4);
	assert_int_equal(kvd_release(b.k, l, 0, NULL, 0), 0);
	bed_close(&b);
}

static void sequence_fetches_the_rest(void **state)
{
	struct bed b = bed_open(1);
	struct kvd_req req;
	uint32_t count;

	fake_set(b.f, &b.f->reply_blocks_max, 3);
	struct kvd_lease *l = acquire(&b, 160, 1);
	const uint64_t *pages = kvd_lease_pages(l, 0, &count);
	assert_int_equal(count, 11);
	for (uint32_t i = 0; i < count; i++)
		assert_true(pages[i] != 0);
	assert_int_equal(fake_count(b.f, KVD_OP_EXTEND, &req), 3);
	assert_int_equal(req.first, 9);
	assert_int_equal(req.m, 2);
	/* A daemon that has no more to give ends it. */
	fake_set(b.f, &b.f->reply_blocks_max, 0);
	l = acquire(&b, 160, 1);
	kvd_lease_pages(l, 0, &count);
	assert_int_equal(count, 0);
	bed_close(&b);
}

static void sequence_follows(void **state)
{
	struct bed b = bed_open(1);
	struct kvd_lease_info info;
	struct kvd_event event;
	struct kvd_req req;
	uint32_t count;

	fake_set(b.f, &b.f->cached_blocks, 1);
	fake_set(b.f, &b.f->follow_blocks, 2);
	struct kvd_lease *l = acquire(&b, 80, 0);
	const uint64_t *pages = kvd_lease_pages(l, 0, &count);
	assert_int_equal(count, 5);
	assert_true(pages[0] && !pages[1] && !pages[2] && pages[3] && pages[4]);
	kvd_lease_info(l, &info);
	assert_int_equal(info.ready_tokens, 16);
	assert_int_equal(info.build_from, 48);
	/* Growth below build_from ends a wait; each change once. */
	fake_row(b.f, 1, KVD_LEASE_OK, 48, 0);
	assert_int_equal(kvd_wait(b.k, UINT64_MAX, &event, 1), 0);
	assert_int_equal(kvd_wait(b.k, 0, &event, 1), 0);
	kvd_lease_info(l, &info);
	assert_int_equal(info.ready_tokens, 48);
	fake_set(b.f, &b.f->cached_blocks, 3);
	fake_set(b.f, &b.f->follow_blocks, 0);
	assert_int_equal(kvd_extend(b.k, l, 0, 0), 0);
	assert_int_equal(kvd_extend(b.k, l, 0, 0), -EBUSY);
	event = wait_one(&b);
	assert_int_equal(event.result, 0);
	fake_count(b.f, KVD_OP_EXTEND, &req);
	assert_int_equal(req.first, 1);
	assert_int_equal(req.m, 4);
	pages = kvd_lease_pages(l, 0, &count);
	assert_true(pages[1] && pages[2] && !writable(pages[1]) && writable(pages[3]));
	/* CALL: the state ends a wait, and its number is echoed. */
	fake_row(b.f, 1, KVD_LEASE_CALL, 48, 9);
	assert_int_equal(kvd_wait(b.k, UINT64_MAX, &event, 1), 0);
	assert_int_equal(kvd_extend(b.k, l, KVD_EXTEND_CALL, 5), 0);
	event = wait_one(&b);
	fake_count(b.f, KVD_OP_EXTEND, &req);
	assert_int_equal(req.flags, KVD_EXTEND_CALL);
	assert_int_equal(req.arg32, 9);
	assert_int_equal(req.deadline_ms, 5);
	bed_close(&b);
}

/* Somebody else published a block that this lease was to build: its page is not this lease's. */
static void sequence_never_writes_what_is_published(void **state)
{
	struct bed b = bed_open(1);
	uint32_t count;

	fake_set(b.f, &b.f->reply_blocks_max, 1);
	fake_set(b.f, &b.f->cached_from_second, 2);
	struct kvd_lease *l = acquire(&b, 48, 0);
	const uint64_t *pages = kvd_lease_pages(l, 0, &count);
	assert_int_equal(count, 3);
	assert_true(writable(pages[0]) && !writable(pages[1]) && writable(pages[2]));
	assert_int_equal(kvd_seal(b.k, l, 1, 1, NULL, 0), -EINVAL);
	bed_close(&b);
}

static void sequence_takes_over(void **state)
{
	struct bed b = bed_open(1);
	uint32_t count;

	fake_set(b.f, &b.f->follow_blocks, 2);
	struct kvd_lease *l = acquire(&b, 48, 0);
	const uint64_t *pages = kvd_lease_pages(l, 0, &count);
	assert_true(!pages[0] && !pages[1] && pages[2]);
	fake_set(b.f, &b.f->follow_blocks, 0);
	assert_int_equal(kvd_extend(b.k, l, KVD_EXTEND_TAKE, 0), 0);
	assert_int_equal(wait_one(&b).result, 0);
	pages = kvd_lease_pages(l, 0, &count);
	assert_true(writable(pages[0]) && writable(pages[1]) && writable(pages[2]));
	bed_close(&b);
}

static void sequence_has_a_tail(void **state)
{
	for (uint32_t parts = 1; parts <= 3; parts += 2) {
		struct bed b = bed_open(parts);
		struct kvd_lease_info info;

		fake_set(b.f, &b.f->cached_blocks, 1);
		fake_set(b.f, &b.f->tail_tokens, 9);
		struct kvd_lease *l = acquire(&b, 40, 0);
		kvd_lease_info(l, &info);
		assert_int_equal(info.tail_tokens, 9);
		for (uint32_t part = 0; part < parts; part++) {
			assert_true(kvd_lease_tail(l, part) != 0);
			assert_false(writable(kvd_lease_tail(l, part)));
			assert_true(part == 0 || kvd_lease_tail(l, part) != kvd_lease_tail(l, 0));
		}
		assert_int_equal(kvd_lease_tail(l, parts), 0);
		assert_int_equal(kvd_seal(b.k, l, 1, 1, NULL, 0), 0);
		kvd_lease_info(l, &info);
		assert_int_equal(info.tail_tokens, 0);
		assert_int_equal(kvd_lease_tail(l, 0), 0);
		bed_close(&b);
	}
}

static void sequence_seals(void **state)
{
	struct bed b = bed_open(1);
	struct kvd_event event;
	struct kvd_req req;
	uint32_t count;

	struct kvd_lease *l = acquire(&b, 40, 0);
	assert_int_equal(kvd_topup(b.k, b.format, 2, 0), 0);
	assert_int_equal(wait_one(&b).kind, KVD_EV_TOPUP);
	assert_int_equal(kvd_bind(b.k, l), 0);
	const uint64_t *pages = kvd_lease_pages(l, 0, &count);
	assert_int_equal(count, 4);
	uint64_t before = pages[3];
	assert_true(writable(before));
	assert_int_equal(kvd_seal(b.k, l, 0, KVD_SEAL_BLOCKS_MAX + 1, NULL, 0), -E2BIG);
	assert_int_equal(kvd_seal(b.k, l, 0, 0, NULL, 0), -EINVAL);
	assert_int_equal(kvd_seal(b.k, l, 3, 2, b.tokens, 60), -EINVAL);
	assert_int_equal(kvd_seal(b.k, l, UINT32_MAX, 2, b.tokens, 60), -EINVAL);
	assert_int_equal(kvd_seal(b.k, l, 2, 1, b.tokens, 7), -EINVAL);
	assert_int_equal(kvd_seal(b.k, l, 0, 2, NULL, 0), 0);
	event = wait_one(&b);
	assert_int_equal(event.kind, KVD_EV_SEAL);
	assert_ptr_equal(event.lease, l);
	assert_int_equal(kvd_seal(b.k, l, 0, 1, NULL, 0), -EINVAL);
	fake_result(b.f, KVD_OP_SEAL, KVD_KEPT);
	assert_int_equal(kvd_seal(b.k, l, 2, 2, b.tokens + 40, 25), 0);
	assert_int_equal(wait_one(&b).result, KVD_KEPT);
	fake_count(b.f, KVD_OP_SEAL, &req);
	assert_int_equal(req.first, 2);
	assert_int_equal(req.m, 2);
	assert_int_equal(req.n, 25);
	assert_int_equal(req.arg32, 1);
	assert_memory_equal(b.f->payload[KVD_OP_SEAL], b.tokens + 40, 100);
	struct kvd_handle h;
	memcpy(&h, b.f->payload[KVD_OP_SEAL] + 100, sizeof(h));
	assert_int_equal(h.generation, 1);
	assert_int_equal(h.page, b.f->next_page - 1);
	pages = kvd_lease_pages(l, 0, &count);
	assert_true(pages[3] != before && !writable(pages[3]));
	struct kvd_lease_info info;
	kvd_lease_info(l, &info);
	assert_int_equal(info.token_count, 65);
	assert_int_equal(kvd_magazine(b.k, b.format), 1);
	assert_int_equal(kvd_release(b.k, l, 0, NULL, 0), 0);
	assert_int_equal(kvd_magazine(b.k, b.format), 1);
	bed_close(&b);
}

static void sequence_keeps_a_tail_at_release(void **state)
{
	struct bed b = bed_open(1);
	struct kvd_req req;

	struct kvd_lease *l = acquire(&b, 16, 0);
	assert_int_equal(kvd_topup(b.k, b.format, 3, 0), 0);
	wait_one(&b);
	assert_int_equal(kvd_seal(b.k, l, 0, 1, NULL, 0), 0);
	wait_one(&b);
	assert_int_equal(kvd_bind(b.k, l), 0);
	assert_int_equal(kvd_bind(b.k, l), 0);
	assert_int_equal(kvd_magazine(b.k, b.format), 1);
	assert_int_equal(kvd_release(b.k, l, 16, b.tokens, 20), -EINVAL);
	assert_int_equal(kvd_release(b.k, l, 9, b.tokens, 8), -EINVAL);
	assert_int_equal(kvd_release(b.k, l, 9, b.tokens + 16, 10), 0);
	assert_int_equal(kvd_magazine(b.k, b.format), 2);
	assert_int_equal(kvd_magazine(b.k, 99), 0);
	kvd_close(b.k);
	assert_int_equal(fake_count(b.f, KVD_OP_RELEASE, &req), 1);
	assert_int_equal(req.flags, KVD_RELEASE_KEEP_TAIL);
	assert_int_equal(req.first, 1);
	assert_int_equal(req.m, 9);
	assert_int_equal(req.n, 10);
	assert_int_equal(req.arg64 >> 32, 1);
	assert_int_equal((uint32_t)req.arg64, b.f->next_page - 1);
	fake_stop(b.f);
}

static void sequence_forks(void **state)
{
	struct bed b = bed_open(1);
	struct kvd_lease_info info;
	struct kvd_lease *child, *other;
	struct kvd_req req;

	struct kvd_lease *l = acquire(&b, 40, 0);
	assert_int_equal(kvd_seal(b.k, l, 0, 2, NULL, 0), 0);
	wait_one(&b);
	assert_int_equal(kvd_fork(b.k, l, 16, 0, NULL, &child), -EINVAL);
	fake_set(b.f, &b.f->cached_blocks, 2);
	fake_set(b.f, &b.f->tail_tokens, 8);
	fake_set(b.f, &b.f->claim_tokens, 40);
	assert_int_equal(kvd_fork(b.k, l, 8, 1, &b, &child), 0);
	struct kvd_event event = wait_one(&b);
	assert_ptr_equal(event.lease, child);
	fake_count(b.f, KVD_OP_FORK, &req);
	assert_int_equal(KVD_LEASE_ROW(req.lease), 1);
	assert_int_equal(req.first, 2);
	assert_int_equal(req.m, 8);
	assert_int_equal(req.arg32, 1);
	kvd_lease_info(child, &info);
	assert_int_equal(info.token_count, 40);
	assert_int_equal(info.block_count, 4);
	/* Tokens that kvd does not know cannot be given. */
	assert_int_equal(kvd_fork(b.k, l, 15, 0, NULL, &other), 0);
	kvd_lease_info(other, &info);
	assert_int_equal(info.token_count, 40);
	assert_ptr_equal(wait_one(&b).lease, other);
	kvd_lease_info(child, &info);
	assert_int_equal(info.tail_tokens, 8);
	assert_int_equal(info.build_from, 32);
	bed_close(&b);
}

static void sequence_moves(void **state)
{
	struct bed b = bed_open(1);
	uint8_t ticket[KVD_TICKET_BYTES];
	struct kvd_lease_info info;
	struct kvd_lease *claimed;
	struct kvd_req req;

	struct kvd_lease *l = acquire(&b, 40, 0);
	fake_result(b.f, KVD_OP_HANDOFF, KVD_STALE);
	assert_int_equal(kvd_handoff(b.k, l, 100, ticket), KVD_STALE);
	fake_result(b.f, KVD_OP_HANDOFF, 0);
	assert_int_equal(kvd_handoff(b.k, l, 100, ticket), 0);
	assert_int_equal(ticket[15], 'k');
	fake_set(b.f, &b.f->claim_tokens, 33);
	fake_set(b.f, &b.f->cached_blocks, 3);
	assert_int_equal(kvd_claim(b.k, ticket, &b, &claimed), 0);
	assert_ptr_equal(wait_one(&b).lease, claimed);
	kvd_lease_info(claimed, &info);
	assert_int_equal(info.token_count, 33);
	assert_int_equal(info.format, b.format);
	assert_int_equal(info.block_count, 3);
	fake_count(b.f, KVD_OP_CLAIM, &req);
	assert_memory_equal(b.f->payload[KVD_OP_CLAIM], ticket, sizeof(ticket));
	bed_close(&b);
}

static void sequence_is_refused_with_numbers(void **state)
{
	struct bed b = bed_open(1);
	struct kvd_acquire_args args = {.format = b.format, .tokens = b.tokens, .token_count = 9};
	struct kvd_lease *l;

	fake_result(b.f, KVD_OP_ACQUIRE, KVD_FULL);
	assert_int_equal(kvd_acquire(b.k, &args, &l), 0);
	struct kvd_event event = wait_one(&b);
	assert_int_equal(event.result, KVD_FULL);
	assert_int_equal(event.full.needed_pages, 9);
	assert_int_equal(event.full.free_pages, 2);
	assert_int_equal(kvd_release(b.k, l, 0, NULL, 0), -EINVAL);
	args.token_count = 0;
	assert_int_equal(kvd_acquire(b.k, &args, &l), -EINVAL);
	args.token_count = KVD_REQUEST_TOKENS_MAX + 1;
	assert_int_equal(kvd_acquire(b.k, &args, &l), -EINVAL);
	args.token_count = 9;
	args.format = 99;
	assert_int_equal(kvd_acquire(b.k, &args, &l), -EINVAL);
	bed_close(&b);
}

/* The reply comes while something else waits: the lease lives until its event is delivered. */
static void sequence_that_failed_lives_until_told(void **state)
{
	struct bed b = bed_open(1);
	struct kvd_acquire_args args = {.format = b.format, .tokens = b.tokens, .token_count = 9};
	struct kvd_lease_info info;
	struct kvd_space_stat stat;
	struct kvd_lease *l[3];
	struct kvd_event event;

	fake_result(b.f, KVD_OP_ACQUIRE, KVD_FULL);
	for (int i = 0; i < 3; i++)
		assert_int_equal(kvd_acquire(b.k, &args, &l[i]), 0);
	assert_int_equal(kvd_stat(b.k, &stat), 0);
	for (int i = 0; i < 3; i++) {
		event = wait_one(&b);
		assert_ptr_equal(event.lease, l[i]);
		kvd_lease_info(event.lease, &info);
		assert_int_equal(info.token_count, 9);
	}
	bed_close(&b);
}

static void sequence_is_cancelled(void **state)
{
	struct bed b = bed_open(1);
	struct kvd_acquire_args args = {.format = b.format, .tokens = b.tokens, .token_count = 9};
	struct kvd_lease *l;

	fake_hold(b.f, KVD_OP_ACQUIRE, true);
	assert_int_equal(kvd_acquire(b.k, &args, &l), 0);
	assert_int_equal(kvd_release(b.k, l, 0, NULL, 0), -EINVAL);
	assert_int_equal(kvd_cancel(b.k, l), 0);
	struct kvd_event event = wait_one(&b);
	assert_ptr_equal(event.lease, l);
	assert_int_equal(event.result, -ECANCELED);
	bed_close(&b);
}

static void sequence_is_released_with_requests_in_flight(void **state)
{
	struct bed b = bed_open(1);

	struct kvd_lease *l = acquire(&b, 40, 0);
	fake_hold(b.f, KVD_OP_SEAL, true);
	fake_hold(b.f, KVD_OP_EXTEND, true);
	assert_int_equal(kvd_seal(b.k, l, 0, 1, NULL, 0), 0);
	assert_int_equal(kvd_extend(b.k, l, 0, 0), 0);
	assert_int_equal(kvd_release(b.k, l, 0, NULL, 0), 0);
	while (fake_count(b.f, KVD_OP_RELEASE, NULL) == 0)
		usleep(100);
	fake_answer_held(b.f);
	for (int i = 0; i < 2; i++)
		assert_null(wait_one(&b).lease);
	bed_close(&b);
}

/* Plain requests stop before the last credits and bytes, which ending things may use. */
static void sequence_keeps_room_to_end_things(void **state)
{
	struct bed b = bed_open(1);
	struct kvd_acquire_args args = {.format = b.format, .tokens = b.tokens, .token_count = 9};
	struct kvd_lease *held[64], *l = acquire(&b, 160, 0);
	uint32_t sent = 0;
	int r;

	fake_hold(b.f, KVD_OP_ACQUIRE, true);
	while ((r = kvd_acquire(b.k, &args, &held[sent])) == 0)
		sent++;
	assert_int_equal(r, -EAGAIN);
	assert_int_equal(sent, 64 - 16);
	assert_int_equal(kvd_topup(b.k, b.format, 1, 0), -EAGAIN);
	for (uint32_t i = 0; i < 10; i++)
		assert_int_equal(kvd_seal(b.k, l, i, 1, NULL, 0), 0);
	assert_int_equal(kvd_cancel(b.k, held[0]), 0);
	assert_int_equal(kvd_release(b.k, l, 0, NULL, 0), 0);
	/* Wait until the daemon has them all, then let go. */
	while (fake_count(b.f, KVD_OP_RELEASE, NULL) == 0)
		usleep(100);
	fake_hold(b.f, KVD_OP_ACQUIRE, false);
	fake_answer_held(b.f);
	for (uint32_t i = 0; i < sent + 10; i++)
		wait_one(&b);
	assert_int_equal(kvd_acquire(b.k, &args, &held[0]), 0);
	assert_int_equal(wait_one(&b).result, 0);
	bed_close(&b);
}

static void sequence_ends_on_a_reply_that_lies(void **state)
{
	struct bed b = bed_open(1);
	struct kvd_acquire_args args = {.format = b.format, .tokens = b.tokens, .token_count = 9};
	struct kvd_rep rep = {.op = KVD_OP_ACQUIRE, .tag = 12345};
	struct kvd_req req = {0};
	struct kvd_lease *l;

	fake_hold(b.f, KVD_OP_ACQUIRE, true);
	assert_int_equal(kvd_acquire(b.k, &args, &l), 0);
	while (fake_count(b.f, KVD_OP_ACQUIRE, NULL) == 0)
		usleep(100);
	pthread_mutex_lock(&b.f->lock);
	assert_int_equal(ring_put_reply(&b.f->ring, &req, &rep, NULL), 0);
	ring_bell_to_client(&b.f->ring);
	pthread_mutex_unlock(&b.f->lock);
	assert_int_equal(wait_one(&b).result, KVD_GONE);
	assert_int_equal(wait_one(&b).kind, KVD_EV_GONE);
	bed_close(&b);
}

/* A hint: it says what the prefix is, leaves nothing behind, and nobody hears of its end. */
static void sequence_is_announced(void **state)
{
	struct bed b = bed_open(1);
	const struct kvd_extra extra = {.token_pos = 5, .digest = {7}};
	struct kvd_acquire_args args = {.format = b.format,
					.tokens = b.tokens,
					.token_count = 40,
					.extras = &extra,
					.extra_count = 1,
					.decode_blocks = 3,
					.deadline_ms = 9};
	struct kvd_req want = {.op = KVD_OP_PREFETCH, .n = 40, .m = 1, .in_bytes = 40 * 4 + 24};
	struct kvd_event event;
	struct kvd_info info;
	struct kvd_req req;

	assert_int_equal(kvd_prefetch(b.k, &args), 0);
	while (fake_count(b.f, KVD_OP_PREFETCH, &req) == 0)
		usleep(100);
	want.format = req.format;
	want.tag = req.tag;
	want.in_off = req.in_off;
	want.out_off = req.out_off;
	assert_memory_equal(&req, &want, sizeof(req));
	assert_memory_equal(b.f->payload[KVD_OP_PREFETCH], b.tokens, 40 * 4);
	assert_memory_equal(b.f->payload[KVD_OP_PREFETCH] + 40 * 4, &extra, sizeof(extra));
	assert_int_equal(kvd_rate(b.k, b.format, 1), 0);
	while (fake_count(b.f, KVD_OP_RATE, NULL) == 0)
		usleep(100);
	assert_int_equal(kvd_wait(b.k, 0, &event, 1), 0);
	kvd_info(b.k, &info);
	assert_int_equal(info.requests, 2);

	args.token_count = 0;
	assert_int_equal(kvd_prefetch(b.k, &args), -EINVAL);
	args.token_count = 40;
	args.format = b.format + 1;
	assert_int_equal(kvd_prefetch(b.k, &args), -EINVAL);
	assert_int_equal(fake_count(b.f, KVD_OP_PREFETCH, NULL), 1);
	bed_close(&b);
}

/* Hints that nobody answers yet take what is free and no more; then there is room again. */
static void sequence_is_announced_within_limits(void **state)
{
	struct bed b = bed_open(1);
	struct kvd_acquire_args args = {
		.format = b.format, .tokens = b.tokens, .token_count = 2048};
	struct kvd_event event;
	uint32_t sent = 0;
	int r;

	fake_hold(b.f, KVD_OP_PREFETCH, true);
	while ((r = kvd_prefetch(b.k, &args)) == 0)
		sent++;
	assert_int_equal(r, -EAGAIN);
	assert_true(sent > 0);
	while (fake_count(b.f, KVD_OP_PREFETCH, NULL) < sent)
		usleep(100);
	fake_hold(b.f, KVD_OP_PREFETCH, false);
	fake_answer_held(b.f);
	while ((r = kvd_prefetch(b.k, &args)) == -EAGAIN)
		assert_int_equal(kvd_wait(b.k, 1000000, &event, 1), 0);
	assert_int_equal(r, 0);
	fake_die(b.f);
	assert_int_equal(wait_one(&b).kind, KVD_EV_GONE);
	assert_int_equal(kvd_prefetch(b.k, &args), KVD_GONE);
	bed_close(&b);
}

TEST_MAIN(sequence, cmocka_unit_test(sequence_gets_pages),
	  cmocka_unit_test(sequence_fetches_the_rest), cmocka_unit_test(sequence_follows),
	  cmocka_unit_test(sequence_never_writes_what_is_published),
	  cmocka_unit_test(sequence_takes_over), cmocka_unit_test(sequence_has_a_tail),
	  cmocka_unit_test(sequence_seals), cmocka_unit_test(sequence_keeps_a_tail_at_release),
	  cmocka_unit_test(sequence_forks), cmocka_unit_test(sequence_moves),
	  cmocka_unit_test(sequence_is_refused_with_numbers),
	  cmocka_unit_test(sequence_that_failed_lives_until_told),
	  cmocka_unit_test(sequence_is_cancelled),
	  cmocka_unit_test(sequence_is_released_with_requests_in_flight),
	  cmocka_unit_test(sequence_keeps_room_to_end_things),
	  cmocka_unit_test(sequence_ends_on_a_reply_that_lies),
	  cmocka_unit_test(sequence_is_announced),
	  cmocka_unit_test(sequence_is_announced_within_limits))
