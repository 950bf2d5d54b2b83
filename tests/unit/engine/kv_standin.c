/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See kv_standin.h. Nodes are found by comparing whole prefixes: slow, and beyond doubt. A lease
 * holds one reference on every node of its path; a page belongs to a node (sealed or building with
 * the builder's page), to a lease (open), or to the magazine, or is free.
 */
#include "tests/unit/engine/kv_standin.h"
#include "base/assert.h"
#include "base/bits.h"
#include "base/units.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define NODES_MAX 4096
#define BLOCKS_MAX 256
#define LEASES_MAX 128
#define EVENTS_MAX 512
#define TAIL_MIN 8u

struct node {
	bool used;
	bool sealed;
	bool partial;
	uint32_t token_count; /* of the whole prefix */
	uint32_t *tokens;
	uint32_t refs;
	uint64_t page;
	struct kvd_lease *builder;
	uint64_t touched;
};

struct kvd_lease {
	struct kv *kv;
	bool used;
	bool cold;
	bool waits; /* its ACQUIRE does */
	void *owner;
	uint32_t *tokens;
	uint32_t token_count;
	uint32_t promised_blocks;
	uint32_t build_from;
	uint32_t block_count;
	uint32_t path; /* nodes held, from block 0 */
	struct node *node[BLOCKS_MAX];
	uint64_t pages[BLOCKS_MAX];
	bool own[BLOCKS_MAX]; /* an open page of this lease, not a node's */
	struct node *tail;
	uint32_t tail_tokens;
	bool calls;
	bool revoked;
	bool loads; /* its blocks come from a tier */
};

struct kv {
	struct kvd_layout layout;
	uint64_t page_bytes;
	const struct kernel_ops *device; /* whose memory it is; NULL: the host's */
	char *memory;
	void *ones; /* page_bytes */
	uint64_t *free_page;
	uint32_t free_count;
	uint32_t page_count;
	uint64_t magazine[BLOCKS_MAX];
	uint32_t magazine_count;
	uint32_t magazine_max;
	struct node nodes[NODES_MAX];
	struct kvd_lease leases[LEASES_MAX];
	struct kv_event events[EVENTS_MAX];
	uint32_t event_count;
	struct standin_counts counts;
	uint64_t clock;
	uint64_t reconnects;
	bool lost;
	bool holds_acquires;

	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool woken;
	bool dies;
	bool comes_back;
};

static uint32_t setup_pages = 64;
static uint32_t setup_magazine_max = UINT32_MAX;
static const struct kernel_ops *setup_device;
static struct kv *latest;

void standin_setup(uint32_t pages, uint32_t magazine_max)
{
	setup_pages = pages;
	setup_magazine_max = magazine_max;
}

void standin_device(const struct kernel_ops *ops)
{
	setup_device = ops;
}

void standin_revoke(struct kvd_lease *lease)
{
	lease->revoked = true;
}

struct kv *standin_latest(void)
{
	return latest;
}

/* --- pages and nodes ----------------------------------------------------------------------------
 */

static void post(struct kv *kv, struct kv_event ev)
{
	ASSERT(kv->event_count < EVENTS_MAX);
	kv->events[kv->event_count++] = ev;
}

static void give_page(struct kv *kv, uint64_t page)
{
	/* Whoever reads a page that he does not own shall notice. */
	if (kv->device)
		(void)kv->device->memory_write(kv->device, (void *)page, kv->ones, kv->page_bytes);
	else
		memset((void *)page, 0xff, kv->page_bytes);
	kv->free_page[kv->free_count++] = page;
}

static void drop_node(struct kv *kv, struct node *n)
{
	if (n->page)
		give_page(kv, n->page);
	free(n->tokens);
	*n = (struct node){0};
}

static bool has_child(struct kv *kv, const struct node *n)
{
	for (uint32_t i = 0; i < NODES_MAX; i++) {
		const struct node *c = &kv->nodes[i];

		if (c->used && c != n && c->token_count > n->token_count &&
		    memcmp(c->tokens, n->tokens, n->token_count * 4) == 0)
			return true;
	}
	return false;
}

/* The least recently used leaf without references. */
static bool evict_one(struct kv *kv)
{
	struct node *worst = NULL;

	for (uint32_t i = 0; i < NODES_MAX; i++) {
		struct node *n = &kv->nodes[i];

		if (n->used && n->sealed && n->refs == 0 && !has_child(kv, n) &&
		    (!worst || n->touched < worst->touched))
			worst = n;
	}
	if (!worst)
		return false;
	drop_node(kv, worst);
	return true;
}

static bool make_room(struct kv *kv, uint32_t pages)
{
	while (kv->free_count < pages) {
		if (!evict_one(kv))
			return false;
	}
	return true;
}

static struct node *find_node(struct kv *kv, const uint32_t *tokens, uint32_t count)
{
	for (uint32_t i = 0; i < NODES_MAX; i++) {
		struct node *n = &kv->nodes[i];

		if (n->used && !n->partial && n->token_count == count &&
		    memcmp(n->tokens, tokens, count * 4) == 0)
			return n;
	}
	return NULL;
}

static struct node *new_node(struct kv *kv, const uint32_t *tokens, uint32_t count)
{
	for (uint32_t i = 0; i < NODES_MAX; i++) {
		struct node *n = &kv->nodes[i];

		if (n->used)
			continue;
		*n = (struct node){.used = true, .token_count = count};
		n->tokens = malloc(count * 4);
		memcpy(n->tokens, tokens, count * 4);
		return n;
	}
	abort();
}

/* The node, full or partial, that shares the longest run after `from` whole tokens. */
static struct node *find_tail(struct kv *kv, const struct kvd_lease *l, uint32_t from,
			      uint32_t *out_run)
{
	struct node *best = NULL;

	*out_run = 0;
	for (uint32_t i = 0; i < NODES_MAX; i++) {
		struct node *n = &kv->nodes[i];
		uint32_t run = 0;

		if (!n->used || !n->sealed || n->token_count <= from ||
		    n->token_count > from + kv->layout.page_tokens ||
		    memcmp(n->tokens, l->tokens, from * 4) != 0)
			continue;
		while (from + run < n->token_count && from + run < l->token_count &&
		       n->tokens[from + run] == l->tokens[from + run])
			run++;
		if (run >= TAIL_MIN && run > *out_run) {
			best = n;
			*out_run = run;
		}
	}
	return best;
}

/* --- leases -------------------------------------------------------------------------------------
 */

static uint32_t ready_tokens(const struct kvd_lease *l)
{
	uint32_t b = 0;

	while (b < l->path && l->node[b]->sealed)
		b++;
	return b * l->kv->layout.page_tokens;
}

static void own_page(struct kv *kv, struct kvd_lease *l, uint32_t block)
{
	l->pages[block] = kv->free_page[--kv->free_count];
	l->own[block] = true;
	l->block_count = BITS_MAX(l->block_count, block + 1);
}

static void hold(struct kv *kv, struct kvd_lease *l, uint32_t block, struct node *n)
{
	l->node[block] = n;
	l->path = block + 1;
	n->refs++;
	n->touched = ++kv->clock;
}

/* Blocks [from, promised) are this lease's to compute. */
static void build(struct kv *kv, struct kvd_lease *l, uint32_t from)
{
	uint32_t pt = kv->layout.page_tokens;

	for (uint32_t b = from; b < l->promised_blocks; b++) {
		own_page(kv, l, b);
		if (l->cold || (b + 1) * pt > l->token_count)
			continue;
		struct node *n = b < l->path ? l->node[b] : NULL;

		if (!n) {
			n = find_node(kv, l->tokens, (b + 1) * pt);
			if (!n)
				n = new_node(kv, l->tokens, (b + 1) * pt);
			hold(kv, l, b, n);
		}
		if (!n->sealed)
			n->builder = l;
	}
	l->build_from = from * pt;
}

static void find_prefix(struct kv *kv, struct kvd_lease *l)
{
	uint32_t pt = kv->layout.page_tokens;

	for (uint32_t b = 0; (b + 1) * pt <= l->token_count && !l->cold; b++) {
		struct node *n = find_node(kv, l->tokens, (b + 1) * pt);

		if (!n || (!n->sealed && !n->builder))
			break;
		hold(kv, l, b, n);
		l->pages[b] = n->sealed ? n->page : 0;
		l->block_count = b + 1;
	}
	l->tail = l->cold ? NULL : find_tail(kv, l, l->path * pt, &l->tail_tokens);
	if (l->tail)
		l->tail->refs++;
}

static void unhold(struct kv *kv, struct kvd_lease *l)
{
	for (uint32_t b = 0; b < l->path; b++) {
		struct node *n = l->node[b];

		n->refs--;
		if (n->builder == l) {
			n->builder = NULL;
			for (uint32_t i = 0; i < LEASES_MAX; i++) {
				struct kvd_lease *f = &kv->leases[i];

				if (f != l && f->used && b < f->path && f->node[b] == n)
					f->calls = true;
			}
		}
		if (n->refs == 0 && !n->sealed)
			drop_node(kv, n);
	}
	if (l->tail)
		l->tail->refs--;
}

static void end_lease(struct kv *kv, struct kvd_lease *l)
{
	unhold(kv, l);
	for (uint32_t b = 0; b < l->block_count; b++) {
		if (l->own[b])
			give_page(kv, l->pages[b]);
	}
	free(l->tokens);
	*l = (struct kvd_lease){0};
	kv->counts.leases--;
}

static struct kvd_lease *new_lease(struct kv *kv, const struct kv_acquire *a)
{
	struct kvd_lease *l = kv->leases;

	while (l->used)
		l++;
	ASSERT(l < kv->leases + LEASES_MAX);
	*l = (struct kvd_lease){.kv = kv, .used = true, .cold = a->cold, .owner = a->owner};
	l->tokens = malloc(BLOCKS_MAX * 128 * 4);
	memcpy(l->tokens, a->tokens, a->token_count * 4);
	l->token_count = a->token_count;
	l->promised_blocks =
		(uint32_t)bits_div_ceil(a->token_count, kv->layout.page_tokens) + a->decode_blocks;
	kv->counts.leases++;
	kv->counts.acquires++;
	return l;
}

static bool someone_waits(const struct kv *kv)
{
	for (uint32_t i = 0; i < LEASES_MAX; i++) {
		if (kv->leases[i].used && kv->leases[i].waits)
			return true;
	}
	return false;
}

/* false: there is no memory; the lease holds nothing then. */
static bool grant(struct kv *kv, struct kvd_lease *l)
{
	find_prefix(kv, l);
	if (make_room(kv, l->promised_blocks - l->path)) {
		build(kv, l, l->path);
		l->waits = false;
		post(kv, (struct kv_event){.kind = KV_EV_LEASE, .owner = l->owner});
		return true;
	}
	unhold(kv, l);
	l->path = l->block_count = l->tail_tokens = 0;
	l->tail = NULL;
	return false;
}

static void refuse(struct kv *kv, struct kvd_lease *l, int result)
{
	post(kv, (struct kv_event){.kind = KV_EV_LEASE,
				   .result = result,
				   .owner = l->owner,
				   .needed_pages = l->promised_blocks,
				   .free_pages = kv->free_count});
	end_lease(kv, l);
}

static void grant_waiting(struct kv *kv)
{
	for (uint32_t i = 0; i < LEASES_MAX; i++) {
		if (kv->leases[i].used && kv->leases[i].waits)
			(void)grant(kv, &kv->leases[i]);
	}
}

int kv_acquire(struct kv *kv, const struct kv_acquire *a, struct kvd_lease **out)
{
	if (kv->lost)
		return KV_GONE;
	struct kvd_lease *l = new_lease(kv, a);

	*out = l;
	if (l->promised_blocks > kv->page_count)
		refuse(kv, l, -E2BIG);
	else if (someone_waits(kv) || !grant(kv, l))
		l->waits = true;
	if (l->waits && !kv->holds_acquires)
		refuse(kv, l, KV_FULL);
	return KV_OK;
}

void kv_prefetch(struct kv *kv, const uint32_t *tokens, uint32_t token_count)
{
	kv->counts.prefetches++;
	kv->counts.prefetch_tokens = token_count;
}

void kv_cancel(struct kv *kv, struct kvd_lease *lease)
{
	if (lease->used && lease->waits)
		refuse(kv, lease, -ECANCELED);
}

void kv_lease(struct kvd_lease *l, struct kv_lease *out)
{
	uint32_t ready = ready_tokens(l);

	*out = (struct kv_lease){.token_count = l->token_count,
				 .build_from = l->build_from,
				 .ready_tokens = ready,
				 .block_count = l->block_count,
				 .tail_tokens = l->tail_tokens,
				 .call = l->revoked ? KV_LEASE_REVOKED
					 : l->calls ? KV_LEASE_CALLS
						    : KV_LEASE_QUIET};
	for (uint32_t b = ready / l->kv->layout.page_tokens; b < l->path && !out->follows_own; b++)
		out->follows_own = l->node[b]->builder && l->node[b]->builder->owner;
	uint32_t next = ready / l->kv->layout.page_tokens;
	out->loads = next < l->path && l->node[next]->builder && l->node[next]->builder->loads;
}

const uint64_t *kv_pages(struct kvd_lease *l, uint32_t *out_count)
{
	*out_count = l->block_count;
	return l->pages;
}

uint64_t kv_tail(struct kvd_lease *l)
{
	return l->tail ? l->tail->page : 0;
}

static void take_over(struct kv *kv, struct kvd_lease *l, bool by_force)
{
	uint32_t from = ready_tokens(l) / kv->layout.page_tokens;

	l->calls = false;
	if (from * kv->layout.page_tokens >= l->build_from)
		return;
	if (l->node[from]->builder && !by_force)
		return; /* somebody else has answered: follow him */
	/* The tail that was found is behind blocks that are now ours to compute. */
	l->tail_tokens = 0;
	for (uint32_t b = from; b < l->build_from / kv->layout.page_tokens; b++) {
		own_page(kv, l, b);
		l->node[b]->builder = l;
	}
	l->build_from = from * kv->layout.page_tokens;
}

int kv_extend(struct kv *kv, struct kvd_lease *l, enum kv_extend_kind kind, uint32_t deadline_ms)
{
	uint32_t end = l->build_from / kv->layout.page_tokens, result = KV_OK;

	if (kv->lost)
		return KV_GONE;
	kv->counts.extends++;
	kv->counts.takes += kind == KV_EXTEND_TAKE;
	kv->counts.answers += kind == KV_EXTEND_ANSWER;
	if (kind != KV_EXTEND_PAGES) {
		if (make_room(kv, end - ready_tokens(l) / kv->layout.page_tokens))
			take_over(kv, l, kind == KV_EXTEND_TAKE);
		else
			result = KV_FULL;
	}
	for (uint32_t b = 0; b < l->path; b++) {
		if (!l->pages[b] && l->node[b]->sealed)
			l->pages[b] = l->node[b]->page;
	}
	post(kv, (struct kv_event){.kind = KV_EV_LEASE, .result = (int)result, .owner = l->owner});
	return KV_OK;
}

int kv_bind(struct kv *kv, struct kvd_lease *l)
{
	if (kv->magazine_count == 0)
		return KV_FULL;
	l->pages[l->block_count] = kv->magazine[--kv->magazine_count];
	l->own[l->block_count++] = true;
	return KV_OK;
}

static void append(struct kvd_lease *l, const uint32_t *tokens, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		l->tokens[l->token_count++] = tokens[i];
}

static void seal_one(struct kv *kv, struct kvd_lease *l, uint32_t b)
{
	uint32_t pt = kv->layout.page_tokens;
	struct node *n = b < l->path ? l->node[b] : find_node(kv, l->tokens, (b + 1) * pt);

	ASSERT((b + 1) * pt <= l->token_count && l->own[b]);
	if (!n)
		n = new_node(kv, l->tokens, (b + 1) * pt);
	if (b >= l->path)
		hold(kv, l, b, n);
	kv->counts.sealed_blocks++;
	if (n->sealed)
		return; /* kept: somebody was faster */
	n->sealed = true;
	n->builder = NULL;
	n->page = l->pages[b];
	l->own[b] = false;
}

int kv_seal(struct kv *kv, struct kvd_lease *l, uint32_t first_block, uint32_t block_count,
	    const uint32_t *tokens, uint32_t token_count)
{
	if (kv->lost)
		return KV_GONE;
	append(l, tokens, token_count);
	for (uint32_t b = first_block; b < first_block + block_count; b++)
		seal_one(kv, l, b);
	return KV_OK;
}

static void keep_tail(struct kv *kv, struct kvd_lease *l, uint32_t tail_tokens)
{
	uint32_t b = l->token_count / kv->layout.page_tokens;

	ASSERT(l->token_count % kv->layout.page_tokens == tail_tokens && l->own[b]);
	struct node *n = new_node(kv, l->tokens, l->token_count);

	n->sealed = true;
	n->partial = true;
	n->page = l->pages[b];
	n->touched = ++kv->clock;
	l->own[b] = false;
}

int kv_release(struct kv *kv, struct kvd_lease *l, uint32_t tail_tokens, const uint32_t *tokens,
	       uint32_t token_count)
{
	append(l, tokens, token_count);
	if (tail_tokens > 0 && !kv->lost)
		keep_tail(kv, l, tail_tokens);
	kv->counts.releases++;
	end_lease(kv, l);
	return kv->lost ? KV_GONE : KV_OK;
}

/* --- magazine
 * -------------------------------------------------------------------------------------- */

int kv_topup(struct kv *kv, uint32_t block_count, uint32_t deadline_ms)
{
	if (kv->lost)
		return KV_GONE;
	kv->counts.topups++;
	bool fits =
		kv->magazine_count + block_count <= kv->magazine_max && make_room(kv, block_count);

	for (uint32_t i = 0; fits && i < block_count; i++)
		kv->magazine[kv->magazine_count++] = kv->free_page[--kv->free_count];
	post(kv, (struct kv_event){.kind = KV_EV_TOPUP,
				   .result = fits ? KV_OK : KV_FULL,
				   .free_pages = someone_waits(kv) ? 0 : kv->free_count});
	return KV_OK;
}

uint32_t kv_magazine(struct kv *kv)
{
	return kv->magazine_count;
}

void kv_return_all(struct kv *kv)
{
	while (kv->magazine_count > 0)
		give_page(kv, kv->magazine[--kv->magazine_count]);
}

void kv_rate(struct kv *kv, uint64_t tokens_per_s)
{
}

/* --- connection
 * ------------------------------------------------------------------------------------ */

int kv_open(const struct kv_config *config, struct kv **out, char *error, size_t size)
{
	struct kv *kv = calloc(1, sizeof(*kv));

	kv->layout = config->layout;
	kv->page_bytes = kvd_layout_page_bytes(&config->layout);
	kv->page_count = setup_pages;
	kv->magazine_max = setup_magazine_max;
	kv->device = setup_device;
	kv->memory = kv->device
			     ? kv->device->memory_new(kv->device, kv->page_bytes * setup_pages)
			     : aligned_alloc(64, bits_align_up(kv->page_bytes * setup_pages, 64));
	kv->ones = malloc(kv->page_bytes);
	memset(kv->ones, 0xff, kv->page_bytes);
	kv->free_page = calloc(setup_pages, sizeof(*kv->free_page));
	for (uint32_t i = 0; i < setup_pages; i++)
		give_page(kv, (uint64_t)(uintptr_t)(kv->memory + i * kv->page_bytes));
	pthread_mutex_init(&kv->lock, NULL);
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&kv->cond, &attr);
	pthread_condattr_destroy(&attr);
	latest = kv;
	*out = kv;
	return 0;
}

static void forget_all(struct kv *kv)
{
	for (uint32_t i = 0; i < LEASES_MAX; i++) {
		if (kv->leases[i].used)
			end_lease(kv, &kv->leases[i]);
	}
	kv_return_all(kv);
	standin_evict_all(kv);
	kv->event_count = 0;
}

void kv_close(struct kv *kv)
{
	if (!kv)
		return;
	forget_all(kv);
	ASSERT(kv->free_count == kv->page_count);
	pthread_mutex_destroy(&kv->lock);
	pthread_cond_destroy(&kv->cond);
	free(kv->free_page);
	if (kv->device)
		kv->device->memory_free(kv->device, kv->memory, kv->page_bytes * kv->page_count);
	else
		free(kv->memory);
	free(kv->ones);
	free(kv);
}

static void sleep_until_woken(struct kv *kv, uint64_t timeout_ns)
{
	uint64_t now_ns = units_now_ns();
	uint64_t until_ns = timeout_ns > 3600 * UNITS_NS_PER_S ? now_ns + 3600 * UNITS_NS_PER_S
							       : now_ns + timeout_ns;
	struct timespec at = {.tv_sec = (time_t)(until_ns / UNITS_NS_PER_S),
			      .tv_nsec = (long)(until_ns % UNITS_NS_PER_S)};

	while (!kv->woken && !kv->dies && !kv->comes_back) {
		if (pthread_cond_timedwait(&kv->cond, &kv->lock, &at) == ETIMEDOUT)
			break;
	}
	kv->woken = false;
}

static void live_and_die(struct kv *kv)
{
	if (kv->dies) {
		kv->dies = false;
		kv->lost = true;
		post(kv, (struct kv_event){.kind = KV_EV_LOST});
	} else if (kv->comes_back && !kv->lost) {
		kv->comes_back = false;
	} else if (kv->comes_back) {
		kv->comes_back = false;
		kv->lost = false;
		kv->reconnects++;
		forget_all(kv);
		post(kv, (struct kv_event){.kind = KV_EV_BACK});
	}
}

uint32_t kv_wait(struct kv *kv, uint64_t timeout_ns, struct kv_event *events, uint32_t max)
{
	pthread_mutex_lock(&kv->lock);
	if (kv->event_count == 0 && timeout_ns > 0)
		sleep_until_woken(kv, timeout_ns);
	if (kv->event_count == 0)
		live_and_die(kv);
	pthread_mutex_unlock(&kv->lock);
	grant_waiting(kv);
	uint32_t count = BITS_MIN(max, kv->event_count);

	memcpy(events, kv->events, count * sizeof(*events));
	memmove(kv->events, kv->events + count, (kv->event_count - count) * sizeof(*events));
	kv->event_count -= count;
	return count;
}

void kv_wake(struct kv *kv)
{
	pthread_mutex_lock(&kv->lock);
	kv->woken = true;
	pthread_cond_signal(&kv->cond);
	pthread_mutex_unlock(&kv->lock);
}

void kv_counts(struct kv *kv, struct kv_counts *out)
{
	*out = (struct kv_counts){.ready = !kv->lost,
				  .reconnects = kv->reconnects,
				  .magazine_blocks = kv->magazine_count};
}

/* --- the test's side ----------------------------------------------------------------------------
 */

void standin_counts(struct kv *kv, struct standin_counts *out)
{
	*out = kv->counts;
	out->free_pages = kv->free_count;
	out->node_pages = 0;
	for (uint32_t i = 0; i < NODES_MAX; i++)
		out->node_pages += kv->nodes[i].used && kv->nodes[i].sealed;
}

void standin_hold_acquires(struct kv *kv)
{
	kv->holds_acquires = true;
}

static void signal_flag(struct kv *kv, bool *flag)
{
	pthread_mutex_lock(&kv->lock);
	*flag = true;
	pthread_cond_signal(&kv->cond);
	pthread_mutex_unlock(&kv->lock);
}

void standin_die(struct kv *kv)
{
	signal_flag(kv, &kv->dies);
}

void standin_come_back(struct kv *kv)
{
	signal_flag(kv, &kv->comes_back);
}

void standin_evict_all(struct kv *kv)
{
	while (evict_one(kv))
		;
}

struct kvd_lease *standin_foreign_acquire(struct kv *kv, const uint32_t *tokens, uint32_t count)
{
	const struct kv_acquire a = {.tokens = tokens, .token_count = count};
	struct kvd_lease *l = NULL;

	ASSERT(kv_acquire(kv, &a, &l) == KV_OK);
	kv->event_count--;
	return l;
}

void standin_foreign_loads(struct kvd_lease *l)
{
	l->loads = true;
}

void standin_foreign_fill(struct kv *kv, struct kvd_lease *l, uint32_t block)
{
	(void)kv_seal(kv, l, block, 1, NULL, 0);
}

void standin_foreign_seal(struct kv *kv, struct kvd_lease *l, uint32_t blocks)
{
	(void)kv_seal(kv, l, 0, blocks, NULL, 0);
}

void standin_foreign_release(struct kv *kv, struct kvd_lease *l)
{
	(void)kv_release(kv, l, 0, NULL, 0);
}
