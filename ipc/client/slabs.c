/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slabs.c: the table of mapped slabs, sorted by page number.
 *
 * A page of a slab that is not in the table makes the library ask SLAB(page) on the socket and
 * wait for the answer, before the reply that named the page becomes an event: so the order of
 * descriptors and of ring messages never matters, and a caller never sees a page it cannot touch.
 * What the daemon says about a slab is checked before it is mapped, and may overlap nothing.
 *
 * Guard mode (KVD_GUARD=1, always in sanitizer builds) works through the library's own map
 * operations: the write view has no rights at all, and gets them page by page.
 */
#include "ipc/client/slabs.h"
#include "ipc/client/ask.h"
#include "ipc/client/hold.h"
#include "ipc/client/request.h"
#include <base/bits.h>
#include <errno.h>
#include <ipc/shm.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SLABS_MAX 4096u
#define SLABS_POISON 0xff /* a NaN in every floating point format of a page */

struct slab {
	struct kvd_slab_wire wire;
	uint64_t read;
	uint64_t write;
};

static int slabs_map(void *ctx, const struct kvd_slab_wire *wire, int fd, uint64_t *out_read,
		     uint64_t *out_write)
{
	const struct kvd *k = ctx;
	void *read, *write;

	if (wire->kind != KVD_SLAB_HOST || fd < 0)
		return -EPROTO;
	int r = shm_map(fd, wire->slab_bytes, 0, &read);
	if (r < 0)
		return r;
	r = shm_map(fd, wire->slab_bytes, 1, &write);
	if (r == 0 && k->guard && mprotect(write, wire->slab_bytes, PROT_NONE) < 0) {
		r = -errno;
		shm_unmap(write, wire->slab_bytes);
	}
	if (r < 0) {
		shm_unmap(read, wire->slab_bytes);
		return r;
	}
	*out_read = (uintptr_t)read;
	*out_write = (uintptr_t)write;
	return 0;
}

static void slabs_unmap(void *ctx, const struct kvd_slab_wire *wire, uint64_t read, uint64_t write)
{
	shm_unmap((void *)(uintptr_t)read, wire->slab_bytes);
	shm_unmap((void *)(uintptr_t)write, wire->slab_bytes);
}

static void slabs_poison(void *ctx, uint64_t write, uint64_t bytes)
{
	memset((void *)(uintptr_t)write, SLABS_POISON, bytes);
}

static bool slabs_wanted(const char *name)
{
	const char *value = getenv(name);

	return value && strcmp(value, "1") == 0;
}

void slabs_init(struct kvd *k, const struct kvd_map_ops *ops)
{
#ifndef NDEBUG
	k->poison = slabs_wanted("KVD_POISON");
#endif
	if (ops) {
		k->map_ops = *ops;
		return;
	}
	k->map_ops = (struct kvd_map_ops){
		.map = slabs_map, .unmap = slabs_unmap, .ctx = k, .poison = slabs_poison};
#ifdef KVD_SANITIZED
	k->guard = true;
#else
	k->guard = slabs_wanted("KVD_GUARD");
#endif
}

static void slabs_drop(struct kvd *k, uint32_t i)
{
	const struct slab *s = &k->slabs[i];

	k->map_ops.unmap(k->map_ops.ctx, &s->wire, s->read, s->write);
	k->slab_count--;
	memmove(&k->slabs[i], &k->slabs[i + 1], (k->slab_count - i) * sizeof(*k->slabs));
	k->slab_hit = 0;
}

void slabs_fini(struct kvd *k, bool mapped)
{
	while (mapped && k->slab_count)
		slabs_drop(k, k->slab_count - 1);
	free(k->slabs);
	k->slabs = NULL;
	k->slab_count = k->slab_max = 0;
}

static bool slabs_holds(const struct slab *s, uint32_t page)
{
	return page - s->wire.first_page < s->wire.page_count;
}

/* The first slab that ends beyond the page: the one that holds it, or where it belongs. */
static uint32_t slabs_place(const struct kvd *k, uint32_t page)
{
	uint32_t low = 0, high = k->slab_count;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;
		if (k->slabs[mid].wire.first_page + k->slabs[mid].wire.page_count <= page)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static bool slabs_wire_ok(const struct kvd_slab_wire *w, uint32_t page)
{
	uint64_t os_page = (uint64_t)sysconf(_SC_PAGESIZE);

	return w->page_count > 0 && w->first_page <= page && page - w->first_page < w->page_count &&
	       w->page_count <= UINT32_MAX - w->first_page && w->stride_bytes > 0 &&
	       w->stride_bytes % os_page == 0 && w->base_offset % os_page == 0 &&
	       w->base_offset <= w->slab_bytes &&
	       w->stride_bytes <= (w->slab_bytes - w->base_offset) / w->page_count;
}

static int slabs_insert(struct kvd *k, const struct slab *s)
{
	uint32_t at = slabs_place(k, s->wire.first_page);

	if (k->slab_count == k->slab_max) {
		uint32_t max = k->slab_max ? 2 * k->slab_max : 16;
		struct slab *grown =
			max > SLABS_MAX ? NULL : reallocarray(k->slabs, max, sizeof(*k->slabs));
		if (!grown)
			return -ENOMEM;
		k->slabs = grown;
		k->slab_max = max;
	}
	memmove(&k->slabs[at + 1], &k->slabs[at], (k->slab_count - at) * sizeof(*k->slabs));
	k->slabs[at] = *s;
	k->slab_count++;
	return 0;
}

static const char *slabs_why(const struct kvd *k, int r)
{
	const char *words = k->map_ops.failure ? k->map_ops.failure(k->map_ops.ctx) : NULL;

	return words && words[0] ? words : strerrordesc_np(-r);
}

static int slabs_add(struct kvd *k, const struct kvd_slab_wire *wire, uint32_t page, int fd)
{
	struct slab s = {.wire = *wire};

	if (!slabs_wire_ok(wire, page))
		return client_gone(k, "the daemon described a slab that cannot be"), -EPROTO;
	uint32_t at = slabs_place(k, wire->first_page);
	if (at < k->slab_count &&
	    k->slabs[at].wire.first_page < wire->first_page + wire->page_count)
		return client_gone(k, "the daemon described two slabs with one page"), -EPROTO;
	int r = k->map_ops.map(k->map_ops.ctx, wire, fd, &s.read, &s.write);
	if (r < 0)
		return error_set(r, "cannot map slab %u of %llu bytes: %s", wire->slab,
				 (unsigned long long)wire->slab_bytes, slabs_why(k, r));
	r = slabs_insert(k, &s);
	if (r < 0)
		k->map_ops.unmap(k->map_ops.ctx, wire, s.read, s.write);
	return r;
}

static int slabs_ask(struct kvd *k, uint32_t page)
{
	struct kvd_req req = {
		.op = KVD_OP_SLAB, .arg32 = page, .out_bytes = sizeof(struct kvd_slab_wire)};
	struct kvd_slab_wire wire;
	struct kvd_rep rep;
	int fds[KVD_FDS_MAX];

	if (k->slabs_ended)
		return -ESHUTDOWN;
	int r = ask_socket(k, &req, NULL, &rep, &wire, sizeof(wire), fds);
	if (r != 0)
		return r < 0 ? r : -EPIPE;
	if (rep.result == -ENOTSUP)
		r = error_set(-ENOTSUP, "kvd's pages lie on a GPU, and this program has no map "
					"operations for them");
	else if (rep.result < 0)
		r = rep.result;
	else if (rep.result > 0 || rep.out_bytes < sizeof(wire))
		r = -EPROTO;
	else
		r = slabs_add(k, &wire, page, fds[0]);
	for (uint32_t i = 0; i < KVD_FDS_MAX; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	return r;
}

static int slabs_get(struct kvd *k, uint32_t page, struct slab **out)
{
	if (k->slab_hit >= k->slab_count || !slabs_holds(&k->slabs[k->slab_hit], page)) {
		uint32_t at = slabs_place(k, page);
		if (at >= k->slab_count || !slabs_holds(&k->slabs[at], page)) {
			int r = slabs_ask(k, page);
			if (r < 0)
				return r;
			at = slabs_place(k, page);
		}
		k->slab_hit = at;
	}
	*out = &k->slabs[k->slab_hit];
	return 0;
}

static uint64_t slabs_offset(const struct slab *s, uint32_t page)
{
	return s->wire.base_offset + (page - s->wire.first_page) * s->wire.stride_bytes;
}

int slabs_find(struct kvd *k, uint32_t page)
{
	struct slab *s;

	return slabs_get(k, page, &s);
}

int slabs_read(struct kvd *k, uint32_t page, uint64_t *out_address)
{
	struct slab *s;
	int r = slabs_get(k, page, &s);

	if (r == 0)
		*out_address = s->read + slabs_offset(s, page);
	return r;
}

int slabs_open(struct kvd *k, uint32_t page, uint64_t *out_address)
{
	struct slab *s;
	int r = slabs_get(k, page, &s);

	if (r < 0)
		return r;
	uint64_t address = s->write + slabs_offset(s, page);
	void *at = (void *)(uintptr_t)address;
	if (k->guard && mprotect(at, s->wire.stride_bytes, PROT_READ | PROT_WRITE) < 0)
		return -errno;
	if (k->poison && k->map_ops.poison)
		k->map_ops.poison(k->map_ops.ctx, address, s->wire.stride_bytes);
	*out_address = address;
	return 0;
}

void slabs_shut(struct kvd *k, uint32_t page)
{
	uint32_t at = slabs_place(k, page);

	if (!k->guard || at >= k->slab_count || !slabs_holds(&k->slabs[at], page))
		return;
	const struct slab *s = &k->slabs[at];
	void *address = (void *)(uintptr_t)(s->write + slabs_offset(s, page));
	/* Fails only where maps are used up; the page is then open for longer than it should. */
	(void)mprotect(address, s->wire.stride_bytes, PROT_NONE);
}

/* A lease or a magazine block lies there: kvd should not ask, and gets no answer. */
static bool slabs_in_use(const struct kvd *k, const struct slab *s)
{
	LIST_FOR_EACH (link, &k->leases) {
		const struct kvd_lease *l = CONTAINER_OF(link, struct kvd_lease, link);
		if (hold_touches(l, s->read, s->wire.slab_bytes) ||
		    hold_touches(l, s->write, s->wire.slab_bytes))
			return true;
	}
	for (uint32_t i = 0; i < k->format_count; i++) {
		const struct format *f = &k->formats[i];
		for (uint32_t h = 0; h < f->block_count * f->part_count; h++)
			if (slabs_holds(s, f->blocks[h].page))
				return true;
	}
	return false;
}

static uint32_t slabs_by_id(const struct kvd *k, uint32_t id)
{
	uint32_t i = 0;

	while (i < k->slab_count && k->slabs[i].wire.slab != id)
		i++;
	return i;
}

int kvd_slabs_quiet(struct kvd *k)
{
	struct kvd_info info;
	int r = client_enter_ring(k);

	if (r != 0)
		return r;
	kvd_info(k, &info);
	if (info.retiring_slabs == 0)
		return 0;
	struct request *rq = request_new(k, KVD_OP_SLAB_GONE, REQUEST_KEPT, REQUEST_QUIET);
	if (!rq)
		return -EAGAIN;
	uint32_t id = k->row_seen.retiring_slab - 1, at = slabs_by_id(k, id);
	if (at < k->slab_count && slabs_in_use(k, &k->slabs[at])) {
		request_free(k, rq);
		return 0;
	}
	if (at < k->slab_count)
		slabs_drop(k, at);
	rq->req.arg32 = id;
	k->slab_gone_sent = true;
	request_send(k, rq);
	return 0;
}
