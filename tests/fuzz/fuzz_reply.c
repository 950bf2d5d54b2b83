/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_reply.c: a client library whose daemon says anything. All on one thread: the answers on the
 * socket are queued before they are asked for, and the input is a program of calls by the client
 * and of replies, rows and slabs by the daemon.
 */
#include <base/assert.h>
#include <base/bits.h>
#include <base/bytes.h>
#include <ipc/ring.h>
#include <ipc/shm.h>
#include <ipc/sock.h>
#include <kvd.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	CREDITS = 32,
	IN_BYTES = 16384,
	OUT_BYTES = 4096,
	ROWS = 8,
	SLABS = 4,
	SLAB_PAGES = 8,
	STRIDE = 4096,
	LEASES = 8,
	FORMAT = 7
};

struct fuzz {
	struct bytes in;
	struct kvd *k;
	int sock;
	int client;
	struct shm rings;
	struct shm rows;
	struct shm slab;
	struct ring_side ring;
	struct kvd_req asked[CREDITS]; /* not answered yet */
	uint32_t asked_count;
	struct kvd_lease *leases[LEASES];
	uint32_t lease_count;
	uint32_t slab_tag;
};

/* XORs bytes of the input over a structure: zeros leave it as it is. */
static void fuzz_bend(struct fuzz *f, void *what, size_t size)
{
	size_t count = bytes_u8(&f->in);
	size_t at = count ? bytes_u8(&f->in) % size : 0;

	count = BITS_MIN(count, size - at);
	const uint8_t *from = bytes_take(&f->in, count);
	for (size_t i = 0; from && i < count; i++)
		((uint8_t *)what)[at + i] ^= from[i];
}

static void fuzz_welcome(struct fuzz *f)
{
	struct kvd_rep rep = {
		.op = KVD_OP_HELLO, .tag = 1, .out_bytes = sizeof(struct kvd_welcome)};
	struct kvd_welcome w = {.magic = KVD_ABI_MAGIC,
				.major = KVD_ABI_MAJOR,
				.nonce = 1,
				.credits = CREDITS,
				.leases_max = ROWS,
				.in_area_bytes = IN_BYTES,
				.out_area_bytes = OUT_BYTES};
	int bells[4];
	int r = ring_bell_new(&bells[0], &bells[1]);

	ASSERT(r == 0 && ring_bell_new(&bells[2], &bells[3]) == 0);
	int fds[] = {f->rings.fd, f->rows.fd, bells[0], bells[3]};
	fuzz_bend(f, &w, sizeof(w));
	fuzz_bend(f, f->rings.map, sizeof(struct kvd_rings));
	r = sock_send(f->sock, &rep, &w, sizeof(w), fds, 4);
	ASSERT(r == 0);
	for (int i = 0; i < 4; i++)
		close(bells[i]);
}

static void fuzz_format(struct fuzz *f)
{
	struct kvd_rep rep = {.op = KVD_OP_FORMAT, .tag = 2, .aux = FORMAT};
	struct kvd_format_args args = {
		.page_tokens = 16, .part_count = 1 + bytes_u8(&f->in) % 3u, .layout = "fuzz"};
	uint32_t format;

	int r = sock_send(f->sock, &rep, NULL, 0, NULL, 0);
	ASSERT(r == 0);
	(void)kvd_format(f->k, &args, &format);
}

/* Queues the answer to the next SLAB question. */
static void fuzz_slab(struct fuzz *f)
{
	uint32_t slab = bytes_u8(&f->in) % SLABS;
	struct kvd_rep rep = {.op = KVD_OP_SLAB, .out_bytes = sizeof(struct kvd_slab_wire)};
	struct kvd_slab_wire wire = {.slab = slab,
				     .first_page = slab * SLAB_PAGES,
				     .page_count = SLAB_PAGES,
				     .stride_bytes = STRIDE,
				     .slab_bytes = SLAB_PAGES * STRIDE};

	rep.tag = f->slab_tag++;
	fuzz_bend(f, &wire, sizeof(wire));
	(void)sock_send(f->sock, &rep, &wire, sizeof(wire), &f->slab.fd, 1);
}

static void fuzz_take_requests(struct fuzz *f)
{
	struct kvd_req req;

	while (f->asked_count < CREDITS && ring_take_request(&f->ring, &req) == 1) {
		ASSERT(ring_request_ok(&f->ring, &req));
		f->asked[f->asked_count++] = req;
	}
}

/* Answers one request, plausibly but for what the input bends. */
static void fuzz_reply(struct fuzz *f)
{
	static struct kvd_handle payload[OUT_BYTES / sizeof(struct kvd_handle)];

	fuzz_take_requests(f);
	if (f->asked_count == 0)
		return;
	struct kvd_req req = f->asked[--f->asked_count];
	struct kvd_rep rep = {.op = req.op, .tag = req.tag, .lease = KVD_LEASE_ID(1, 1)};
	uint32_t room = req.out_bytes / (uint32_t)sizeof(payload[0]);
	rep.at.handle_count = bytes_u8(&f->in);
	rep.at.handle_count = BITS_MIN(rep.at.handle_count, room);
	rep.at.build_from = 16 * (bytes_u8(&f->in) % 4u);
	rep.out_bytes = req.out_bytes;
	for (uint32_t i = 0; i < room; i++)
		payload[i] = (struct kvd_handle){.page = i % (SLABS * SLAB_PAGES), .generation = 1};
	fuzz_bend(f, payload, 256);
	fuzz_bend(f, &rep, sizeof(rep));
	rep.out_bytes = BITS_MIN(rep.out_bytes, req.out_bytes);
	(void)ring_put_reply(&f->ring, &req, &rep, payload);
}

static struct kvd_lease *fuzz_lease(struct fuzz *f)
{
	return f->lease_count ? f->leases[bytes_u8(&f->in) % f->lease_count] : NULL;
}

static void fuzz_forget(struct fuzz *f, const struct kvd_lease *lease)
{
	for (uint32_t i = 0; i < f->lease_count; i++)
		if (f->leases[i] == lease)
			f->leases[i--] = f->leases[--f->lease_count];
}

static void fuzz_new_lease(struct fuzz *f)
{
	static const uint32_t tokens[256];
	static const uint8_t ticket[KVD_TICKET_BYTES];
	struct kvd_acquire_args args = {.format = FORMAT,
					.tokens = tokens,
					.token_count = bytes_u8(&f->in) + 1u,
					.decode_blocks = bytes_u8(&f->in) % 4u};
	struct kvd_lease *lease, *parent = fuzz_lease(f);
	uint8_t how = bytes_u8(&f->in) % 3;
	int r;

	if (f->lease_count == LEASES)
		return;
	if (how == 0)
		r = kvd_acquire(f->k, &args, &lease);
	else if (how == 1)
		r = kvd_claim(f->k, ticket, NULL, &lease);
	else
		r = kvd_fork(f->k, parent, bytes_u8(&f->in) % 20u, 1, NULL, &lease);
	if (r == 0)
		f->leases[f->lease_count++] = lease;
}

/* Without touching it: guard mode may have closed a page that was handed out twice. */
static bool fuzz_mapped(uint64_t address)
{
	return msync((void *)(uintptr_t)address, STRIDE, MS_ASYNC) == 0;
}

static void fuzz_look(struct fuzz *f, struct kvd_lease *lease)
{
	struct kvd_lease_info info;
	uint32_t count;

	if (!lease)
		return;
	kvd_lease_info(lease, &info);
	for (uint32_t part = 0; part < 3; part++) {
		const uint64_t *pages = kvd_lease_pages(lease, part, &count);
		for (uint32_t i = 0; i < count; i++)
			ASSERT(pages[i] == 0 || fuzz_mapped(pages[i]));
		(void)kvd_lease_tail(lease, part);
	}
}

static void fuzz_wait(struct fuzz *f)
{
	struct kvd_event events[4];
	int n = kvd_wait(f->k, 0, events, 4);

	for (int i = 0; i < n; i++) {
		if (events[i].kind != KVD_EV_LEASE || !events[i].lease)
			continue;
		fuzz_look(f, events[i].lease);
		struct kvd_lease_info info;
		kvd_lease_info(events[i].lease, &info);
		/* A lease that never came is dead after its event; an extend that failed is not. */
		if (events[i].result != 0)
			fuzz_forget(f, events[i].lease);
	}
}

static void fuzz_use_lease(struct fuzz *f)
{
	static const uint32_t tokens[256];
	struct kvd_lease *lease = fuzz_lease(f);
	uint8_t how = bytes_u8(&f->in) % 6, a = bytes_u8(&f->in), b = bytes_u8(&f->in);
	int r;

	switch (how) {
	case 0:
		(void)kvd_seal(f->k, lease, a % 8u, b % 8u, tokens, a);
		break;
	case 1:
		(void)kvd_extend(f->k, lease, a % 4u, b);
		break;
	case 2:
		(void)kvd_bind(f->k, lease);
		break;
	case 3:
		(void)kvd_cancel(f->k, lease);
		break;
	case 4:
		fuzz_look(f, lease);
		break;
	default:
		r = kvd_release(f->k, lease, a % 16u, tokens, b);
		if (r == 0 || r == KVD_GONE)
			fuzz_forget(f, lease);
	}
}

static void fuzz_step(struct fuzz *f)
{
	switch (bytes_u8(&f->in) % 9) {
	case 0:
	case 1:
		fuzz_new_lease(f);
		break;
	case 2:
	case 3:
		fuzz_reply(f);
		break;
	case 4:
		fuzz_wait(f);
		break;
	case 5:
		fuzz_use_lease(f);
		break;
	case 6:
		(void)kvd_topup(f->k, FORMAT, bytes_u8(&f->in), 0);
		break;
	case 7:
		(void)kvd_return(f->k, FORMAT, bytes_u8(&f->in));
		(void)kvd_slabs_quiet(f->k);
		break;
	default:
		fuzz_bend(f, f->rows.map, ROWS * sizeof(struct kvd_lease_row));
	}
}

static void fuzz_open(struct fuzz *f)
{
	int fds[2];
	int r = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds);

	ASSERT(r == 0);
	f->sock = fds[0];
	f->client = fds[1];
	r = shm_create(&f->rings, "fuzz", ring_bytes(CREDITS, IN_BYTES, OUT_BYTES), SHM_SEAL_SIZE);
	ASSERT(r == 0);
	r = shm_create(&f->rows, "fuzz", ROWS * sizeof(struct kvd_lease_row), SHM_SEAL_READ_ONLY);
	ASSERT(r == 0);
	r = shm_create(&f->slab, "fuzz", SLAB_PAGES * STRIDE, SHM_SEAL_SIZE);
	ASSERT(r == 0);
	ring_init_server(&f->ring, f->rings.map, CREDITS, IN_BYTES, OUT_BYTES);
	f->slab_tag = 3;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz f = {.in = bytes_over(data, size)};
	struct kvd_options options = {.timeout_ns = 1};

	fuzz_open(&f);
	fuzz_welcome(&f);
	options.socket_fd = f.client;
	if (kvd_open(&options, &f.k) == 0) {
		fuzz_format(&f);
		for (uint8_t slabs = bytes_u8(&f.in) % 8; slabs; slabs--)
			fuzz_slab(&f);
		while (bytes_left(&f.in))
			fuzz_step(&f);
		fuzz_take_requests(&f);
		kvd_close(f.k);
	}
	close(f.sock);
	shm_fini(&f.rings);
	shm_fini(&f.rows);
	shm_fini(&f.slab);
	return 0;
}
