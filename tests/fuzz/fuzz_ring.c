/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_ring.c: a peer that writes whatever it likes into the shared memory, at any time. The input
 * is a program of writes and of calls by either side; the memory is exactly as large as the rings,
 * so that a sanitizer sees every access beyond it.
 */
#include <base/assert.h>
#include <base/bits.h>
#include <base/bytes.h>
#include <ipc/ring.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CREDITS = 32, IN_BYTES = 512, OUT_BYTES = 256 };

struct fuzz {
	uint8_t *map;
	size_t bytes;
	struct ring_side server;
	struct ring_side client;
	bool client_ok;
};

/* Writes bytes of the input anywhere. */
static void fuzz_write(struct fuzz *f, struct bytes *b)
{
	size_t at = bytes_u16(b) % f->bytes;
	size_t count = bytes_u8(b);

	count = BITS_MIN(count, f->bytes - at);
	const uint8_t *from = bytes_take(b, count);

	if (from)
		memcpy(f->map + at, from, count);
}

static void fuzz_serve(struct fuzz *f, struct bytes *b)
{
	struct kvd_rep rep = {.out_bytes = bytes_u8(b)};
	static const uint8_t payload[OUT_BYTES];
	struct kvd_req req;

	if (ring_take_request(&f->server, &req) != 1)
		return;
	uint8_t *copy = malloc(BITS_MIN(req.in_bytes, 4096u) + 1);
	ASSERT(copy);
	if (req.in_bytes <= 4096 && ring_copy_in(&f->server, &req, copy) == 0)
		ASSERT(req.in_bytes <= IN_BYTES);
	free(copy);
	if (!ring_request_ok(&f->server, &req))
		return;
	rep.out_bytes = BITS_MIN(rep.out_bytes, req.out_bytes);
	(void)ring_put_reply(&f->server, &req, &rep, payload);
}

static void fuzz_ask(struct fuzz *f, struct bytes *b)
{
	const uint8_t *from = bytes_take(b, sizeof(struct kvd_req));
	struct kvd_req req;

	if (!from || !f->client_ok)
		return;
	memcpy(&req, from, sizeof(req));
	(void)ring_put_request(&f->client, &req);
}

static void fuzz_attach(struct fuzz *f)
{
	struct kvd_welcome w = {
		.credits = CREDITS, .in_area_bytes = IN_BYTES, .out_area_bytes = OUT_BYTES};

	f->client_ok = ring_init_client(&f->client, f->map, f->bytes, &w) == 0;
	if (!f->client_ok)
		return;
	/* Whatever the header said: the areas lie in the map. */
	memset(f->client.in, 1, IN_BYTES);
	memset(f->client.out, 2, OUT_BYTES);
	ASSERT((uint8_t *)(f->client.reqs + CREDITS) <= f->map + f->bytes);
	ASSERT((uint8_t *)(f->client.reps + CREDITS) <= f->map + f->bytes);
}

static void fuzz_step(struct fuzz *f, struct bytes *b)
{
	struct kvd_rep rep;

	switch (bytes_u8(b) % 6) {
	case 0:
		fuzz_write(f, b);
		break;
	case 1:
		fuzz_serve(f, b);
		break;
	case 2:
		fuzz_ask(f, b);
		break;
	case 3:
		if (f->client_ok)
			(void)ring_take_reply(&f->client, &rep);
		break;
	case 4:
		fuzz_attach(f);
		break;
	default:
		(void)ring_sleep_server(&f->server);
		ring_awake_server(&f->server);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes b = bytes_over(data, size);
	struct fuzz f = {.bytes = ring_bytes(CREDITS, IN_BYTES, OUT_BYTES)};

	f.map = aligned_alloc(64, f.bytes);
	ASSERT(f.map);
	memset(f.map, 0, f.bytes);
	ring_init_server(&f.server, f.map, CREDITS, IN_BYTES, OUT_BYTES);
	fuzz_attach(&f);
	while (bytes_left(&b))
		fuzz_step(&f, &b);
	free(f.map);
	return 0;
}
