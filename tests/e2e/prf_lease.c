/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of calls that kvd.h asks of an engine, with prf.c in the place of a model. One thread.
 * `next` is the first token whose bytes this lease owes; everything below is either cached, or
 * written here, or being written by somebody who is followed.
 */
#include "tests/e2e/prf_lease.h"
#include "base/units.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

#define PRF_EVENTS 16
#define PRF_ANSWER_MS 20000u

static void prf_lease_event(struct prf_client *c, const struct kvd_event *e)
{
	for (int i = 0; i < PRF_LEASES_MAX; i++) {
		struct prf_lease *l = &c->leases[i];
		if (!l->lease || l->lease != e->lease)
			continue;
		l->answered = true;
		l->result = e->result;
		l->full = e->full;
	}
}

bool prf_pump(struct prf_client *c, uint32_t timeout_ms)
{
	struct kvd_event events[PRF_EVENTS];
	struct kvd_info info;
	int n = kvd_wait(c->k, timeout_ms * UNITS_NS_PER_MS, events, PRF_EVENTS);

	for (int i = 0; i < n; i++) {
		if (events[i].kind == KVD_EV_GONE)
			c->gone = true;
		else if (events[i].kind == KVD_EV_LEASE)
			prf_lease_event(c, &events[i]);
		else if (events[i].kind == KVD_EV_SEAL && events[i].result == KVD_KEPT)
			c->kept++;
		else if (events[i].kind == KVD_EV_TOPUP)
			c->topup_answered = true, c->topup_result = events[i].result;
	}
	c->gone |= n < 0;
	kvd_info(c->k, &info);
	if (info.retiring_slabs && !c->gone)
		(void)kvd_slabs_quiet(c->k);
	return !c->gone;
}

struct prf_lease *prf_find(struct prf_client *c, const char *name)
{
	for (int i = 0; i < PRF_LEASES_MAX; i++)
		if (c->leases[i].lease && strcmp(c->leases[i].name, name) == 0)
			return &c->leases[i];
	return NULL;
}

struct prf_lease *prf_place_for(struct prf_client *c, const char *name)
{
	for (int i = 0; i < PRF_LEASES_MAX; i++) {
		struct prf_lease *l = &c->leases[i];
		if (l->lease)
			continue;
		*l = (struct prf_lease){0};
		strncpy(l->name, name, sizeof(l->name) - 1);
		return l;
	}
	return NULL;
}

static void prf_forget(struct prf_lease *l)
{
	prf_fini(&l->seq);
	l->lease = NULL;
}

static void prf_where(struct prf_lease *l)
{
	struct kvd_lease_info info;

	kvd_lease_info(l->lease, &info);
	l->next = info.build_from;
}

/* Waits for the lease's answer; a lease that did not come is forgotten. */
static int prf_answer(struct prf_client *c, struct prf_lease *l, bool is_new)
{
	uint64_t end_ns = units_now_ns() + PRF_ANSWER_MS * UNITS_NS_PER_MS;

	while (!l->answered && !c->gone && units_now_ns() < end_ns)
		(void)prf_pump(c, 100);
	int r = l->answered ? l->result : c->gone ? KVD_GONE : -ETIMEDOUT;
	if (r != 0 && is_new)
		prf_forget(l);
	else if (r == 0)
		prf_where(l);
	return r;
}

int prf_acquire(struct prf_client *c, struct prf_lease *l, const char *text, uint32_t decode_blocks,
		uint32_t deadline_ms, uint32_t flags)
{
	int r;

	if (prf_append(&l->seq, text) < 0 || l->seq.count == 0)
		return -EINVAL;
	struct kvd_acquire_args args = {.format = c->format,
					.tokens = l->seq.tokens,
					.token_count = l->seq.count,
					.decode_blocks = decode_blocks,
					.deadline_ms = deadline_ms,
					.flags = flags};
	l->answered = false;
	while ((r = kvd_acquire(c->k, &args, &l->lease)) == -EAGAIN)
		(void)prf_pump(c, 100);
	if (r == 0)
		return prf_answer(c, l, true);
	prf_forget(l);
	return r;
}

int prf_extend(struct prf_client *c, struct prf_lease *l, uint32_t flags)
{
	int r;

	l->answered = false;
	while ((r = kvd_extend(c->k, l->lease, flags, 1000)) == -EAGAIN)
		(void)prf_pump(c, 100);
	return r ? r : prf_answer(c, l, false);
}

/* The page of a block, fetched by EXTEND if its handle has not come yet. */
static uint64_t prf_page_of(struct prf_client *c, struct prf_lease *l, uint32_t block)
{
	for (int attempt = 0; attempt < 2; attempt++) {
		uint32_t count;
		const uint64_t *pages = kvd_lease_pages(l->lease, 0, &count);
		if (block < count && pages[block])
			return pages[block];
		uint32_t next = l->next;
		if (attempt == 0 && prf_extend(c, l, 0) != 0)
			return 0;
		l->next = next;
	}
	return 0;
}

/* The kept tail of a sequence like ours saves the first tokens of the first block. */
static void prf_take_tail(struct prf_client *c, struct prf_lease *l, uint64_t page)
{
	struct kvd_lease_info info;
	uint64_t tail = kvd_lease_tail(l->lease, 0);

	kvd_lease_info(l->lease, &info);
	if (!tail || l->next != info.build_from)
		return;
	prf_gpu_copy(c->gpu, page, tail, c->page.bytes);
	l->next += info.tail_tokens;
}

static int prf_seal(struct prf_client *c, struct prf_lease *l, uint32_t block)
{
	struct kvd_lease_info info;
	uint32_t end = (block + 1) * c->page.tokens;
	int r;

	do {
		kvd_lease_info(l->lease, &info);
		uint32_t more = end > info.token_count ? end - info.token_count : 0;
		r = kvd_seal(c->k, l->lease, block, 1, l->seq.tokens + info.token_count, more);
	} while (r == -EAGAIN && prf_pump(c, 100));
	return r;
}

/* Writes tokens [next, end) of one block, and seals it if that completes it. */
static int prf_block(struct prf_client *c, struct prf_lease *l, uint32_t end)
{
	uint32_t block = l->next / c->page.tokens;
	uint64_t page = prf_page_of(c, l, block);

	if (!page)
		return c->gone ? KVD_GONE : -ENODATA;
	prf_take_tail(c, l, page);
	if (l->next < end)
		prf_gpu_write(c->gpu, &l->seq, c->page, l->next, end, page);
	l->next = end;
	return end % c->page.tokens == 0 ? prf_seal(c, l, block) : 0;
}

int prf_compute(struct prf_client *c, struct prf_lease *l, uint32_t blocks)
{
	int r = 0;

	for (uint32_t i = 0; i < blocks && r == 0 && l->next < l->seq.count; i++) {
		uint32_t end = (l->next / c->page.tokens + 1) * c->page.tokens;
		r = prf_block(c, l, end < l->seq.count ? end : l->seq.count);
		if (c->dawdle_us)
			usleep(c->dawdle_us);
		(void)prf_pump(c, 0);
	}
	return r;
}

int prf_run(struct prf_client *c, struct prf_lease *l)
{
	struct kvd_lease_info info;
	uint64_t since_ns = units_now_ns();
	uint32_t ready = 0;
	int r = 0;

	while (r == 0) {
		kvd_lease_info(l->lease, &info);
		if (info.ready_tokens != ready)
			since_ns = units_now_ns();
		ready = info.ready_tokens;
		if (info.state == KVD_LEASE_CALL) {
			r = prf_extend(c, l, KVD_EXTEND_CALL);
		} else if (info.state == KVD_LEASE_REVOKED) {
			r = -ECANCELED;
		} else if (info.ready_tokens >= info.build_from) {
			return prf_compute(c, l, UINT32_MAX);
		} else if (units_now_ns() - since_ns > c->patience_ms * UNITS_NS_PER_MS) {
			r = prf_extend(c, l, KVD_EXTEND_TAKE);
			since_ns = units_now_ns();
		} else if (!prf_pump(c, 50)) {
			r = KVD_GONE;
		}
	}
	return r;
}

static int prf_bind(struct prf_client *c, struct prf_lease *l)
{
	int r = kvd_bind(c->k, l->lease);

	if (r != KVD_FULL)
		return r;
	r = prf_topup(c, 2);
	return r ? r : kvd_bind(c->k, l->lease);
}

int prf_decode(struct prf_client *c, struct prf_lease *l, const char *text)
{
	uint32_t from = l->seq.count;
	int r = 0;

	if (prf_append(&l->seq, text) < 0)
		return -EINVAL;
	uint32_t end = l->seq.count;
	for (uint32_t t = from; t < end && r == 0; t++) {
		struct kvd_lease_info info;
		kvd_lease_info(l->lease, &info);
		l->seq.count = t + 1;
		if (t / c->page.tokens >= info.block_count)
			r = prf_bind(c, l);
		if (r == 0)
			r = prf_block(c, l, t + 1);
		if (r != 0)
			l->seq.count = t;
	}
	return r;
}

int prf_fork(struct prf_client *c, struct prf_lease *parent, struct prf_lease *l)
{
	uint32_t tail = parent->seq.count % c->page.tokens;
	int r;

	l->seq = prf_copy(&parent->seq, parent->seq.count);
	l->answered = false;
	while ((r = kvd_fork(c->k, parent->lease, tail, 1, NULL, &l->lease)) == -EAGAIN)
		(void)prf_pump(c, 100);
	if (r == 0)
		return prf_answer(c, l, true);
	prf_forget(l);
	return r;
}

int prf_release(struct prf_client *c, struct prf_lease *l, bool keep_tail)
{
	struct kvd_lease_info info;
	uint32_t tail = keep_tail ? l->next % c->page.tokens : 0;
	int r;

	kvd_lease_info(l->lease, &info);
	uint32_t more = l->next > info.token_count ? l->next - info.token_count : 0;
	const uint32_t *tokens = more ? l->seq.tokens + info.token_count : NULL;
	while ((r = kvd_release(c->k, l->lease, tail, tokens, more)) == -EAGAIN)
		(void)prf_pump(c, 100);
	prf_forget(l);
	return r;
}

int prf_topup(struct prf_client *c, uint32_t blocks)
{
	uint64_t end_ns = units_now_ns() + PRF_ANSWER_MS * UNITS_NS_PER_MS;
	int r;

	c->topup_answered = false;
	while ((r = kvd_topup(c->k, c->format, blocks, 1000)) == -EAGAIN)
		(void)prf_pump(c, 100);
	if (r != 0)
		return r;
	while (!c->topup_answered && !c->gone && units_now_ns() < end_ns)
		(void)prf_pump(c, 100);
	return c->topup_answered ? c->topup_result : c->gone ? KVD_GONE : -ETIMEDOUT;
}

uint32_t prf_verify(struct prf_client *c, struct prf_lease *l, uint32_t *out_wrong)
{
	struct kvd_lease_info info;
	uint32_t seen = 0, count;

	*out_wrong = 0;
	kvd_lease_info(l->lease, &info);
	uint32_t end = info.ready_tokens >= info.build_from ? l->next : info.ready_tokens;
	for (uint32_t t = 0; t < end; t += c->page.tokens) {
		uint32_t block_end = t + c->page.tokens < end ? t + c->page.tokens : end;
		uint64_t page = prf_page_of(c, l, t / c->page.tokens);
		if (!page)
			break;
		*out_wrong += prf_gpu_wrong(c->gpu, &l->seq, c->page, t, block_end, page);
		seen += block_end - t;
	}
	(void)kvd_lease_pages(l->lease, 0, &count);
	return seen;
}
