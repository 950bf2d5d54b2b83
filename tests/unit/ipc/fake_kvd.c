/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_kvd.c: answers at once, or holds the request until the test says so. The thread owns the
 * server's ends; the lock covers the knobs and the server side of the ring, which a test also uses
 * to answer what was held.
 */
#include "tests/unit/ipc/fake_kvd.h"
#include <base/assert.h>
#include <base/atomic.h>
#include <base/bits.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define FAKE_CREDITS 64u
#define FAKE_IN_BYTES (1u << 20)
#define FAKE_OUT_BYTES (256u << 10)

static void fake_need(int r)
{
	ASSERT(r >= 0);
}

static struct kvd_handle fake_new_page(struct fake_kvd *f)
{
	return (struct kvd_handle){.page = f->next_page++, .generation = 1};
}

static bool fake_followed(const struct fake_kvd *f, uint32_t b)
{
	return b >= f->cached_blocks && b < f->cached_blocks + f->follow_blocks;
}

/* Handles of `count` blocks of the row from `first` on, as far as they fit. */
static void fake_handles(struct fake_kvd *f, uint32_t row, uint32_t first, uint32_t count,
			 const struct kvd_req *req, struct kvd_rep *rep, struct kvd_handle *out)
{
	uint32_t tail = f->tail_tokens && f->parts > 1 ? f->parts : 0;
	uint32_t room = req->out_bytes / (uint32_t)sizeof(*out) - tail;
	uint32_t at = 0;

	count = BITS_MIN(count, BITS_MIN(room / f->parts, f->reply_blocks_max));
	for (uint32_t b = first; b < first + count; b++)
		for (uint32_t part = 0; part < f->parts; part++) {
			struct kvd_handle *h = &f->blocks[row][b * f->parts + part];
			if (h->generation == 0)
				*h = fake_new_page(f);
			out[at++] = fake_followed(f, b) ? (struct kvd_handle){.page = KVD_PAGE_NONE}
							: *h;
		}
	rep->at.handle_count = at;
	rep->at.tail_tokens = req->op == KVD_OP_EXTEND ? 0 : f->tail_tokens;
	if (rep->at.tail_tokens) {
		rep->at.tail = fake_new_page(f);
		for (uint32_t part = 0; part < tail; part++)
			out[at++] = part ? fake_new_page(f) : rep->at.tail;
	}
	rep->out_bytes = at * (uint32_t)sizeof(*out);
}

static void fake_lease(struct fake_kvd *f, const struct kvd_req *req, struct kvd_rep *rep,
		       struct kvd_handle *out)
{
	uint32_t row = KVD_LEASE_ROW(req->lease), first = req->first, count = req->m;

	if (req->op != KVD_OP_EXTEND) {
		uint32_t tokens = req->op == KVD_OP_ACQUIRE ? req->n : f->claim_tokens;
		row = f->next_row++;
		ASSERT(row < FAKE_ROWS);
		first = 0;
		count = (tokens + f->page_tokens - 1) / f->page_tokens + req->arg32;
		rep->aux = (uint64_t)f->claim_tokens << 32 | 7;
		struct kvd_lease_row *r = (struct kvd_lease_row *)f->rows.map + row;
		*r = (struct kvd_lease_row){.generation = 5,
					    .state = KVD_LEASE_OK,
					    .ready_tokens = f->cached_blocks * f->page_tokens};
	}
	rep->lease = KVD_LEASE_ID(row, 5);
	rep->at.cached_tokens = f->cached_blocks * f->page_tokens;
	if (req->op == KVD_OP_EXTEND && f->cached_from_second)
		rep->at.cached_tokens = f->cached_from_second * f->page_tokens;
	rep->at.build_from = (f->cached_blocks + f->follow_blocks) * f->page_tokens;
	rep->at.event = f->follow_blocks ? KVD_EVENT_FOLLOW : KVD_EVENT_COMPUTE;
	fake_handles(f, row, first, count, req, rep, out);
}

static void fake_topup(struct fake_kvd *f, const struct kvd_req *req, struct kvd_rep *rep,
		       struct kvd_handle *out)
{
	for (uint32_t i = 0; i < req->n * f->parts; i++)
		out[i] = fake_new_page(f);
	rep->out_bytes = req->n * f->parts * (uint32_t)sizeof(*out);
}

/* With the lock. */
static void fake_answer(struct fake_kvd *f, const struct kvd_req *req)
{
	static struct kvd_handle out[2 * FAKE_BLOCKS];
	struct kvd_rep rep = {.op = req->op, .tag = req->tag, .result = f->results[req->op]};

	if (rep.result == KVD_FULL)
		rep.full = (struct kvd_rep_full){.needed_pages = 9, .free_pages = 2};
	else if (rep.result == 0 && (req->op == KVD_OP_ACQUIRE || req->op == KVD_OP_EXTEND ||
				     req->op == KVD_OP_FORK || req->op == KVD_OP_CLAIM))
		fake_lease(f, req, &rep, out);
	else if (rep.result == 0 && req->op == KVD_OP_TOPUP)
		fake_topup(f, req, &rep, out);
	else if (rep.result == 0 && req->op == KVD_OP_PIN)
		rep.at.cached_tokens = req->n;
	else if (req->op == KVD_OP_HANDOFF || req->op == KVD_OP_STAT || req->op == KVD_OP_WHY) {
		memset(out, 'k', req->out_bytes);
		rep.out_bytes = req->out_bytes;
	}
	fake_need(ring_put_reply(&f->ring, req, &rep, out));
	ring_bell_to_client(&f->ring);
}

void fake_answer_held(struct fake_kvd *f)
{
	pthread_mutex_lock(&f->lock);
	for (uint32_t i = 0; i < f->held_count; i++)
		fake_answer(f, &f->held[i]);
	f->held_count = 0;
	pthread_mutex_unlock(&f->lock);
}

static void fake_note(struct fake_kvd *f, const struct kvd_req *req)
{
	struct kvd_req head = *req;

	f->counts[req->op]++;
	f->last[req->op] = *req;
	head.in_bytes = BITS_MIN(req->in_bytes, (uint32_t)sizeof(f->payload[0]));
	fake_need(ring_copy_in(&f->ring, &head, f->payload[req->op]));
}

/* CANCEL ends the request that it names, then itself. */
static void fake_cancel(struct fake_kvd *f, const struct kvd_req *req)
{
	for (uint32_t i = 0; i < f->held_count; i++) {
		struct kvd_req held = f->held[i];
		if (held.tag != req->arg32)
			continue;
		int result = f->results[held.op];
		f->results[held.op] = -ECANCELED;
		f->held[i] = f->held[--f->held_count];
		fake_answer(f, &held);
		f->results[held.op] = result;
		return;
	}
}

static void fake_serve_ring(struct fake_kvd *f)
{
	struct kvd_req req;

	pthread_mutex_lock(&f->lock);
	while (f->ring.shared && ring_take_request(&f->ring, &req) > 0) {
		ASSERT(req.op < KVD_OP_COUNT && ring_request_ok(&f->ring, &req));
		fake_note(f, &req);
		if (req.op == KVD_OP_CANCEL)
			fake_cancel(f, &req);
		if (f->hold[req.op] && f->held_count < FAKE_HELD)
			f->held[f->held_count++] = req;
		else
			fake_answer(f, &req);
	}
	pthread_mutex_unlock(&f->lock);
}

static void fake_welcome(struct fake_kvd *f, struct kvd_rep *rep)
{
	struct kvd_welcome w = {.magic = KVD_ABI_MAGIC,
				.major = (uint16_t)f->welcome_major,
				.nonce = 77,
				.session = 3,
				.credits = FAKE_CREDITS,
				.leases_max = FAKE_ROWS,
				.in_area_bytes = FAKE_IN_BYTES,
				.out_area_bytes = FAKE_OUT_BYTES,
				.message = "the \x1b[1mfake\x1b[0m says no",
				.device_count = f->welcome_devices,
				.devices = {{.kind = KVD_SLAB_CUDA_IPC, .name = "a \x1b[1mGPU"},
					    {.kind = KVD_SLAB_CUDA_IPC, .index = 1}}};
	int fds[] = {f->rings.fd, f->rows.fd, f->client_bells[0], f->client_bells[1]};

	rep->result = f->results[KVD_OP_HELLO];
	rep->out_bytes = f->welcome_bytes ? f->welcome_bytes : sizeof(w);
	fake_need(sock_send(f->sock, rep, &w, rep->out_bytes, fds, rep->result ? 0 : 4));
}

static void fake_slab(struct fake_kvd *f, const struct kvd_req *req, struct kvd_rep *rep)
{
	uint32_t slab = req->arg32 / FAKE_SLAB_PAGES;
	struct kvd_slab_wire wire = {.slab = slab,
				     .first_page = slab * FAKE_SLAB_PAGES,
				     .page_count = FAKE_SLAB_PAGES,
				     .stride_bytes = FAKE_STRIDE,
				     .slab_bytes = FAKE_SLAB_PAGES * FAKE_STRIDE};

	rep->result = f->results[KVD_OP_SLAB];
	if (slab >= FAKE_SLABS)
		rep->result = -ENOENT;
	if (rep->result) {
		fake_need(sock_send(f->sock, rep, NULL, 0, NULL, 0));
		return;
	}
	if (!f->slabs[slab].map)
		fake_need(shm_create(&f->slabs[slab], "fake-slab", wire.slab_bytes, SHM_SEAL_SIZE));
	rep->out_bytes = sizeof(wire);
	fake_need(sock_send(f->sock, rep, &wire, sizeof(wire), &f->slabs[slab].fd, 1));
}

static void fake_format(struct fake_kvd *f, const struct sock_packet *p, struct kvd_rep *rep)
{
	struct kvd_format_wire wire;

	memcpy(&wire, p->payload, sizeof(wire));
	f->parts = wire.part_count;
	f->page_tokens = wire.page_tokens;
	rep->aux = 7;
	rep->result = f->results[KVD_OP_FORMAT];
	fake_need(sock_send(f->sock, rep, NULL, 0, NULL, 0));
}

/* 0 when the client hung up. */
static int fake_serve_socket(struct fake_kvd *f)
{
	static struct sock_packet p;
	struct kvd_req req;
	int r = sock_recv(f->sock, &p);

	if (r == -EAGAIN)
		return 1;
	if (r <= 0)
		return 0;
	memcpy(&req, p.head, sizeof(req));
	struct kvd_rep rep = {.op = req.op, .tag = req.tag};
	pthread_mutex_lock(&f->lock);
	f->counts[req.op]++;
	f->last[req.op] = req;
	if (f->hold[req.op])
		; /* never answered: only the ring's are kept */
	else if (req.op == KVD_OP_HELLO)
		fake_welcome(f, &rep);
	else if (req.op == KVD_OP_FORMAT)
		fake_format(f, &p, &rep);
	else if (req.op == KVD_OP_SLAB)
		fake_slab(f, &req, &rep);
	else {
		rep.result = f->results[req.op];
		rep.out_bytes = 5;
		fake_need(sock_send(f->sock, &rep, "admin", 5, NULL, 0));
	}
	pthread_mutex_unlock(&f->lock);
	return 1;
}

static void *fake_main(void *arg)
{
	struct fake_kvd *f = arg;

	for (;;) {
		struct pollfd fds[] = {{.fd = f->sock, .events = POLLIN},
				       {.fd = f->bells[0], .events = POLLIN},
				       {.fd = f->stop_fd, .events = POLLIN}};
		fake_serve_ring(f);
		if (ring_sleep_server(&f->ring))
			fake_need(poll(fds, 3, -1));
		ring_awake_server(&f->ring);
		if (fds[1].revents)
			ring_bell_clear(f->bells[0]);
		if (fds[2].revents)
			break;
		if (fds[0].revents && !fake_serve_socket(f))
			break;
	}
	fake_serve_ring(f);
	close(f->sock);
	return NULL;
}

struct fake_kvd *fake_start(void)
{
	struct fake_kvd *f = calloc(1, sizeof(*f));
	int fds[2];

	ASSERT(f);
	fake_need(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds));
	f->sock = fds[0];
	f->client_fd = fds[1];
	f->stop_fd = eventfd(0, EFD_CLOEXEC);
	pthread_mutex_init(&f->lock, NULL);
	fake_need(ring_bell_new(&f->client_bells[0], &f->bells[0]));
	fake_need(ring_bell_new(&f->bells[1], &f->client_bells[1]));
	fake_need(shm_create(&f->rings, "fake-rings",
			     ring_bytes(FAKE_CREDITS, FAKE_IN_BYTES, FAKE_OUT_BYTES),
			     SHM_SEAL_SIZE));
	fake_need(shm_create(&f->rows, "fake-rows", FAKE_ROWS * sizeof(struct kvd_lease_row),
			     SHM_SEAL_READ_ONLY));
	ring_init_server(&f->ring, f->rings.map, FAKE_CREDITS, FAKE_IN_BYTES, FAKE_OUT_BYTES);
	f->ring.bell_to_client = f->bells[1];
	f->next_row = 1;
	f->welcome_major = KVD_ABI_MAJOR;
	f->reply_blocks_max = UINT32_MAX;
	fake_need(-pthread_create(&f->thread, NULL, fake_main, f));
	return f;
}

static void fake_join(struct fake_kvd *f)
{
	const uint64_t one = 1;

	if (!f->thread)
		return;
	fake_need((int)write(f->stop_fd, &one, sizeof(one)));
	pthread_join(f->thread, NULL);
	f->thread = 0;
}

void fake_die(struct fake_kvd *f)
{
	fake_join(f);
}

void fake_stop(struct fake_kvd *f)
{
	fake_join(f);
	for (uint32_t i = 0; i < FAKE_SLABS; i++)
		shm_fini(&f->slabs[i]);
	shm_fini(&f->rings);
	shm_fini(&f->rows);
	for (int i = 0; i < 2; i++) {
		close(f->bells[i]);
		close(f->client_bells[i]);
	}
	close(f->stop_fd);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

struct kvd *fake_open(struct fake_kvd *f, uint32_t parts, uint32_t *out_format)
{
	struct kvd_options o = {.socket_fd = f->client_fd, .timeout_ns = 20000000000ull};
	struct kvd_format_args args = {
		.page_tokens = 16, .part_count = parts, .layout = "test", .description = "a test"};
	struct kvd *k = NULL;

	for (uint32_t i = 0; i < parts; i++)
		args.parts[i] = (struct kvd_part_wire){.page_bytes = FAKE_STRIDE, .align = 64};
	fake_need(kvd_open(&o, &k));
	fake_need(-kvd_format(k, &args, out_format));
	return k;
}

void fake_set(struct fake_kvd *f, uint32_t *knob, uint32_t value)
{
	pthread_mutex_lock(&f->lock);
	*knob = value;
	pthread_mutex_unlock(&f->lock);
}

void fake_result(struct fake_kvd *f, uint16_t op, int result)
{
	pthread_mutex_lock(&f->lock);
	f->results[op] = result;
	pthread_mutex_unlock(&f->lock);
}

void fake_hold(struct fake_kvd *f, uint16_t op, bool on)
{
	pthread_mutex_lock(&f->lock);
	f->hold[op] = on;
	pthread_mutex_unlock(&f->lock);
}

void fake_row(struct fake_kvd *f, uint32_t row, uint32_t state, uint32_t ready, uint32_t seq)
{
	struct kvd_lease_row *r = (struct kvd_lease_row *)f->rows.map + row;

	atomic_store_release(&r->event_seq, seq);
	atomic_store_release(&r->state, state);
	atomic_store_release(&r->ready_tokens, ready);
	ring_bell_to_client(&f->ring);
}

void fake_session_row(struct fake_kvd *f, const struct kvd_session_row *row)
{
	struct kvd_session_row *r = f->rows.map;

	atomic_store_release(&r->want_back_pages, row->want_back_pages);
	atomic_store_release(&r->retiring_slab, row->retiring_slab);
	atomic_store_release(&r->draining, row->draining);
	ring_bell_to_client(&f->ring);
}

uint32_t fake_count(struct fake_kvd *f, uint16_t op, struct kvd_req *out)
{
	pthread_mutex_lock(&f->lock);
	uint32_t count = f->counts[op];
	if (out)
		*out = f->last[op];
	pthread_mutex_unlock(&f->lock);
	return count;
}

uint8_t *fake_page(struct fake_kvd *f, uint32_t page)
{
	return (uint8_t *)f->slabs[page / FAKE_SLAB_PAGES].map +
	       (size_t)(page % FAKE_SLAB_PAGES) * FAKE_STRIDE;
}
