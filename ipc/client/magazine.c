/* SPDX-License-Identifier: Apache-2.0 */
/*
 * magazine.c: one stack of blocks a format.
 *
 * Room for a block is made before it is asked for, and kept while it is bound to a lease, so that
 * a block that comes, or comes back, always has a place: a page is never lost for lack of memory.
 */
#include "ipc/client/magazine.h"
#include "ipc/client/slabs.h"
#include <base/assert.h>
#include <base/bits.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAGAZINE_BLOCKS_MAX (1u << 16)
#define MAGAZINE_RETURN_BYTES (16u << 10) /* of one request: fits what is kept for it */

static size_t magazine_block_bytes(const struct format *f)
{
	return f->part_count * sizeof(struct kvd_handle);
}

static int magazine_reserve(struct format *f, uint32_t count)
{
	uint32_t total = f->block_count + f->block_owed;

	if (count > MAGAZINE_BLOCKS_MAX - total)
		return error_set(-EINVAL, "a magazine holds at most %u blocks",
				 MAGAZINE_BLOCKS_MAX);
	total += count;
	if (total > f->block_max) {
		struct kvd_handle *grown = reallocarray(f->blocks, total, magazine_block_bytes(f));
		if (!grown)
			return -ENOMEM;
		f->blocks = grown;
		f->block_max = total;
	}
	f->block_owed += count;
	return 0;
}

void magazine_push(struct format *f, const struct kvd_handle *handles)
{
	ASSERT(f->block_owed > 0 && f->block_count < f->block_max);
	memcpy(&f->blocks[(size_t)f->block_count * f->part_count], handles,
	       magazine_block_bytes(f));
	f->block_count++;
	f->block_owed--;
}

const struct kvd_handle *magazine_top(const struct format *f)
{
	return f->block_count ? &f->blocks[(size_t)(f->block_count - 1) * f->part_count] : NULL;
}

void magazine_pop(struct format *f)
{
	ASSERT(f->block_count > 0);
	f->block_count--;
	f->block_owed++;
}

void magazine_spent(struct format *f)
{
	ASSERT(f->block_owed > 0);
	f->block_owed--;
}

int kvd_topup(struct kvd *k, uint32_t format, uint32_t block_count, uint32_t deadline_ms)
{
	int r = client_enter_ring(k);

	if (r != 0)
		return r;
	struct format *f = client_format(k, format);
	if (!f || block_count == 0)
		return error_set(-EINVAL, "topup of %u blocks of format %u", block_count, format);
	struct request *rq = request_new(k, KVD_OP_TOPUP, REQUEST_PLAIN, REQUEST_EVENT);
	if (!rq)
		return -EAGAIN;
	uint64_t bytes = block_count * magazine_block_bytes(f);
	r = bytes > k->out.bytes ? error_set(-EINVAL, "topup of %u blocks at once", block_count)
	    : request_out(k, rq, (uint32_t)bytes, (uint32_t)bytes) ? 0
								   : -EAGAIN;
	if (r == 0)
		r = magazine_reserve(f, block_count);
	if (r < 0) {
		request_free(k, rq);
		return r;
	}
	rq->format = f;
	rq->event = (struct kvd_event){.kind = KVD_EV_TOPUP, .format = format};
	rq->req.format = format;
	rq->req.n = block_count;
	rq->req.deadline_ms = deadline_ms;
	request_send(k, rq);
	return 0;
}

void magazine_reply(struct kvd *k, struct request *rq, const uint8_t *payload)
{
	struct format *f = rq->format;
	struct kvd_handle handles[KVD_PARTS_MAX];

	if (rq->rep.result != 0) {
		f->block_owed -= rq->req.n;
		return;
	}
	if (rq->rep.out_bytes != rq->req.n * magazine_block_bytes(f)) {
		f->block_owed -= rq->req.n;
		rq->event.result = client_gone(k, "the daemon sent another number of pages");
		return;
	}
	for (uint32_t b = 0; b < rq->req.n; b++) {
		memcpy(handles, payload + b * magazine_block_bytes(f), magazine_block_bytes(f));
		/* Maps its slab now, so that decoding does not wait for it; kvd_bind() reports. */
		for (uint32_t part = 0; part < f->part_count; part++)
			(void)slabs_find(k, handles[part].page);
		magazine_push(f, handles);
	}
}

/* Sends the topmost blocks back, as many as one request takes. */
static int magazine_send_back(struct kvd *k, struct format *f, uint32_t block_count)
{
	uint32_t block_bytes = (uint32_t)magazine_block_bytes(f);
	uint32_t n = BITS_MIN(block_count, MAGAZINE_RETURN_BYTES / block_bytes);
	struct request *rq = request_new(k, KVD_OP_RETURN, REQUEST_KEPT, REQUEST_QUIET);

	if (!rq)
		return -EAGAIN;
	void *to = request_in(k, rq, n * block_bytes, REQUEST_KEPT);
	if (!to) {
		request_free(k, rq);
		return -EAGAIN;
	}
	f->block_count -= n;
	memcpy(to, &f->blocks[(size_t)f->block_count * f->part_count], n * block_bytes);
	rq->req.format = f->id;
	rq->req.n = n * f->part_count;
	request_send(k, rq);
	return 0;
}

int kvd_return(struct kvd *k, uint32_t format, uint32_t block_count)
{
	int r = client_enter_ring(k);

	if (r != 0)
		return r;
	struct format *f = client_format(k, format);
	if (!f)
		return error_set(-EINVAL, "format %u is not known here", format);
	uint32_t left = f->block_count - BITS_MIN(block_count, f->block_count);
	while (r == 0 && f->block_count > left)
		r = magazine_send_back(k, f, f->block_count - left);
	return r;
}

uint32_t kvd_magazine(struct kvd *k, uint32_t format)
{
	const struct format *f = k ? client_format(k, format) : NULL;

	return f ? f->block_count : 0;
}
