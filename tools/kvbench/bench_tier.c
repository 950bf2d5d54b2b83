/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See bench_tier.h. One thread. The client polls: a lease's progress is in shared memory and the
 * tier's in the status file, so that a wait costs nothing of what is measured beside it.
 */
#include "tools/kvbench/bench_tier.h"

#include <base/atomic.h>
#include <base/bits.h>
#include <base/units.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define TIER_WAIT_NS (300 * UNITS_NS_PER_S) /* what takes longer has failed */
#define TIER_DEADLINE_MS 60000u
#define TIER_EVENTS 64

static int bench_tier_say(const char *what, int r)
{
	fprintf(stderr, "kvbench: %s: %s\n", what, kvd_strresult(r));
	return r < 0 ? r : -EIO;
}

static void bench_tier_sleep(uint64_t ns)
{
	nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
}

uint64_t bench_tier_bytes(const struct bench_tier *t, uint64_t blocks)
{
	return blocks * (4096 + bits_align_up(t->args.page_bytes, 4096));
}

/* --- the daemon ---------------------------------------------------------------------------------
 */

static int bench_tier_spawn(struct bench_tier *t)
{
	const struct bench_tier_args *a = &t->args;
	char file[600], file_bytes[48], aio[48], pool[48], index[48], pages[48], tokens[48];
	const char *const options[] = {file,
				       file_bytes,
				       aio,
				       pool,
				       "--file-store=all",
				       "--session-share=100",
				       "--log-level=info",
				       "--spin-us=0",
				       a->blocks_max ? index : NULL,
				       pages,
				       tokens,
				       NULL};

	snprintf(file, sizeof(file), "--file=%s", t->file);
	snprintf(file_bytes, sizeof(file_bytes), "--file-bytes=%llu",
		 (unsigned long long)a->file_bytes);
	snprintf(aio, sizeof(aio), "--aio=%s", a->aio);
	snprintf(pool, sizeof(pool), "--pool-bytes=%llu", (unsigned long long)a->pool_bytes);
	snprintf(index, sizeof(index), "--index-max=%llu", (unsigned long long)a->blocks_max);
	snprintf(pages, sizeof(pages), "--pages-max=%llu", (unsigned long long)a->blocks_max);
	snprintf(tokens, sizeof(tokens), "--index-tokens-max=%llu",
		 (unsigned long long)a->blocks_max * a->page_tokens);
	return daemon_spawn(&t->daemon, a->program, options);
}

static int bench_tier_map_status(struct bench_tier *t)
{
	char path[100];

	snprintf(path, sizeof(path), "%s/kvd.status", t->daemon.dir);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	void *map = mmap(NULL, sizeof(*t->shared), PROT_READ, MAP_SHARED, fd, 0);
	int err = map == MAP_FAILED ? -errno : 0;
	close(fd);
	t->shared = err ? NULL : map;
	return err;
}

static int bench_tier_format(struct bench_tier *t, uint32_t number)
{
	struct kvd_format_args args = {.page_tokens = t->args.page_tokens,
				       .part_count = 1,
				       .parts = {{.page_bytes = t->args.page_bytes, .align = 64}},
				       .layout = "kvbench",
				       .description = "kvbench"};

	memcpy(args.identity, &number, sizeof(number));
	memcpy(args.identity + 8, &t->args.page_bytes, sizeof(t->args.page_bytes));
	int r = kvd_format(t->kvd, &args, &t->formats[number]);
	return r ? bench_tier_say("format", r) : 0;
}

static int bench_tier_connect(struct bench_tier *t)
{
	struct kvd_options options = {.socket_path = t->daemon.socket,
				      .name = "kvbench",
				      .leases_max = BENCH_TIER_CHAINS_MAX,
				      .timeout_ns = 20 * UNITS_NS_PER_S};
	int err = kvd_open(&options, &t->kvd);

	if (err)
		return bench_tier_say(kvd_last_error(), err);
	for (uint32_t i = 0; !err && i < t->args.formats; i++)
		err = bench_tier_format(t, i);
	if (!err && bench_tier_map_status(t) < 0)
		return bench_tier_say("the status file", -errno);
	return err;
}

int bench_tier_start(struct bench_tier *t, const struct bench_tier_args *args)
{
	*t = (struct bench_tier){.args = *args};
	t->args.formats = BITS_MAX(args->formats, 1u);
	t->status = malloc(sizeof(*t->status));
	t->tokens = malloc((size_t)KVD_REQUEST_TOKENS_MAX * sizeof(t->tokens[0]));
	if (!t->status || !t->tokens)
		return -ENOMEM;
	snprintf(t->file, sizeof(t->file), "%s", args->file);
	unlink(t->file);
	int err = daemon_init(&t->daemon);
	return err ? err : bench_tier_again(t, NULL);
}

int bench_tier_again(struct bench_tier *t, double *out_s)
{
	uint64_t start_ns = units_now_ns();
	int err = bench_tier_spawn(t);

	if (out_s)
		*out_s = (double)(units_now_ns() - start_ns) / 1e9;

	return err ? err : bench_tier_connect(t);
}

void bench_tier_end(struct bench_tier *t, int sig)
{
	if (sig != SIGTERM)
		daemon_end(&t->daemon, sig);
	kvd_close(t->kvd);
	t->kvd = NULL;
	daemon_end(&t->daemon, sig);
	if (t->shared)
		munmap((void *)(uintptr_t)t->shared, sizeof(*t->shared));
	t->shared = NULL;
}

void bench_tier_stop(struct bench_tier *t)
{
	bench_tier_end(t, SIGTERM);
	daemon_stop(&t->daemon);
	if (t->file[0])
		unlink(t->file);
	free(t->status);
	free(t->tokens);
	*t = (struct bench_tier){0};
}

const struct kvd_area_stat *bench_tier_area(struct bench_tier *t)
{
	static const struct kvd_area_stat none;
	uint32_t seq;

	do {
		seq = atomic_load_acquire(&t->shared->seq);
		memcpy(t->status, t->shared, sizeof(*t->status));
		atomic_fence_seq_cst();
	} while (seq & 1 || atomic_load_relaxed(&t->shared->seq) != seq);
	for (uint32_t i = 0; i < t->status->area_count; i++)
		if (t->status->areas[i].tier == KVD_TIER_FILE)
			return &t->status->areas[i];
	return &none;
}

double bench_tier_cpu_s(const struct bench_tier *t)
{
	struct timespec s = {0};
	clockid_t clock;

	if (clock_getcpuclockid(t->daemon.pid, &clock) != 0 || clock_gettime(clock, &s) < 0)
		return 0;
	return (double)s.tv_sec + (double)s.tv_nsec / 1e9;
}

/* --- what is in a chain -------------------------------------------------------------------------
 */

static uint64_t bench_tier_mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

static uint64_t bench_tier_key(const struct bench_set *s, uint32_t chain, uint32_t block)
{
	return bench_tier_mix(s->seed << 40 ^ (uint64_t)chain << 20 ^ block);
}

static uint32_t bench_tier_chain_tokens(struct bench_tier *t, const struct bench_set *s,
					uint32_t chain)
{
	uint32_t count = s->blocks * t->args.page_tokens;

	for (uint32_t i = 0; i < count; i++)
		t->tokens[i] =
			(uint32_t)bench_tier_mix(bench_tier_key(s, chain, UINT32_MAX) + i) >> 8;
	return count;
}

static void bench_tier_write(const struct bench_tier *t, uint64_t key, uint64_t *page)
{
	for (uint64_t i = 0; i < t->args.page_bytes / 8; i++)
		page[i] = (key + i) * 0x9e3779b97f4a7c15ull;
}

static bool bench_tier_is(const struct bench_tier *t, uint64_t key, const uint64_t *page)
{
	uint64_t wrong = 0;

	for (uint64_t i = 0; i < t->args.page_bytes / 8; i++)
		wrong |= page[i] ^ (key + i) * 0x9e3779b97f4a7c15ull;
	return wrong == 0;
}

/* --- leases -------------------------------------------------------------------------------------
 */

/* Takes `count` events of the kind, all of which must be good. */
static int bench_tier_await(struct bench_tier *t, uint32_t kind, uint32_t count)
{
	struct kvd_event events[TIER_EVENTS];
	uint64_t end_ns = units_now_ns() + TIER_WAIT_NS;

	while (count > 0) {
		int n = kvd_wait(t->kvd, UNITS_NS_PER_S, events, TIER_EVENTS);
		if (n < 0)
			return bench_tier_say("kvd", n);
		if (units_now_ns() > end_ns)
			return bench_tier_say("kvd does not answer", -ETIMEDOUT);
		for (int i = 0; i < n; i++) {
			if (events[i].kind == KVD_EV_GONE)
				return bench_tier_say("the daemon is gone", -EPIPE);
			if (events[i].kind != kind)
				continue;
			if (events[i].result != 0)
				return bench_tier_say("a request failed", events[i].result);
			count--;
		}
	}
	return 0;
}

/* Waits for something to come, so that there is room to send again. */
static int bench_tier_room(struct bench_tier *t)
{
	struct kvd_event event;
	int n = kvd_wait(t->kvd, UNITS_NS_PER_MS, &event, 1);

	return n < 0 ? n : 0;
}

static int bench_tier_acquire(struct bench_tier *t, struct bench_set *s)
{
	for (uint32_t i = 0; i < s->chains; i++) {
		struct kvd_acquire_args args = {.format = t->formats[i % t->args.formats],
						.tokens = t->tokens,
						.token_count = bench_tier_chain_tokens(t, s, i),
						.deadline_ms = TIER_DEADLINE_MS};
		int r = kvd_acquire(t->kvd, &args, &s->leases[i]);
		if (r == 0)
			r = bench_tier_await(t, KVD_EV_LEASE, 1);
		if (r != 0)
			return bench_tier_say("acquire", r);
	}
	return 0;
}

static int bench_tier_fill_chain(struct bench_tier *t, struct bench_set *s, uint32_t chain)
{
	struct kvd_lease *lease = s->leases[chain];
	struct kvd_lease_info info;
	uint32_t count, seals = 0;
	const uint64_t *pages = kvd_lease_pages(lease, 0, &count);
	int r = 0;

	kvd_lease_info(lease, &info);
	if (info.build_from != 0)
		return bench_tier_say("what should be new is cached", -EEXIST);
	for (uint32_t b = 0; b < s->blocks; b++) {
		if (b >= count || !pages[b]) {
			r = kvd_extend(t->kvd, lease, 0, TIER_DEADLINE_MS);
			r = r ? r : bench_tier_await(t, KVD_EV_LEASE, 1);
			pages = kvd_lease_pages(lease, 0, &count);
		}
		if (r || b >= count || !pages[b])
			return bench_tier_say("a page to write", r ? r : -ENODATA);
		bench_tier_write(t, bench_tier_key(s, chain, b), (uint64_t *)(uintptr_t)pages[b]);
	}
	for (uint32_t b = 0; b < s->blocks && r == 0; b += KVD_SEAL_BLOCKS_MAX, seals++)
		r = kvd_seal(t->kvd, lease, b, BITS_MIN(s->blocks - b, KVD_SEAL_BLOCKS_MAX), NULL,
			     0);
	return r ? bench_tier_say("seal", r) : bench_tier_await(t, KVD_EV_SEAL, seals);
}

int bench_tier_fill(struct bench_tier *t, struct bench_set *s)
{
	int r = bench_tier_acquire(t, s);

	for (uint32_t i = 0; i < s->chains && r == 0; i++)
		r = bench_tier_fill_chain(t, s, i);
	return r;
}

int bench_tier_release(struct bench_tier *t, struct bench_set *s)
{
	int r = 0;

	for (uint32_t i = 0; i < s->chains && r == 0; i++) {
		while ((r = kvd_release(t->kvd, s->leases[i], 0, NULL, 0)) == -EAGAIN)
			if ((r = bench_tier_room(t)) < 0)
				break;
		s->leases[i] = NULL;
	}
	return r ? bench_tier_say("release", r) : 0;
}

/* --- what it is all about -----------------------------------------------------------------------
 */

int bench_tier_stored(struct bench_tier *t, uint64_t stores, uint64_t start_ns, double *out_s)
{
	uint64_t end_ns = units_now_ns() + TIER_WAIT_NS, from_ns = start_ns, to_ns = start_ns;
	uint64_t from = bench_tier_area(t)->stores, to = from;
	const struct kvd_area_stat *a;

	for (;; bench_tier_sleep(UNITS_NS_PER_MS)) {
		a = bench_tier_area(t);
		if (a->stores >= stores)
			break;
		if (a->state != KVD_AREA_OK || units_now_ns() > end_ns)
			return bench_tier_say("the file does not take what it should", -ETIMEDOUT);
		if (t->status->updated_ns <= to_ns || a->stores == to)
			continue;
		if (from_ns == start_ns) {
			from_ns = t->status->updated_ns;
			from = a->stores;
		}
		to_ns = t->status->updated_ns;
		to = a->stores;
	}
	if (!out_s)
		return 0;
	double all_ns = (double)(t->status->updated_ns - start_ns);
	if (to > from)
		all_ns =
			BITS_MIN(all_ns, (double)(to_ns - start_ns) +
						 (double)(stores - to) * (double)(to_ns - from_ns) /
							 (double)(to - from));
	*out_s = all_ns / 1e9;
	return 0;
}

static int bench_tier_ready(struct bench_tier *t, const struct bench_set *s)
{
	uint64_t end_ns = units_now_ns() + TIER_WAIT_NS;
	uint32_t tokens = s->blocks * t->args.page_tokens;

	for (uint32_t i = 0; i < s->chains;) {
		struct kvd_lease_info info;
		kvd_lease_info(s->leases[i], &info);
		if (info.build_from != tokens || info.state != KVD_LEASE_OK)
			return bench_tier_say("what should be in the file is not", -ENODATA);
		if (info.ready_tokens >= tokens)
			i++;
		else if (units_now_ns() > end_ns)
			return bench_tier_say("the file does not give what it should", -ETIMEDOUT);
		else
			bench_tier_sleep(UNITS_NS_PER_MS);
	}
	return 0;
}

int bench_tier_load(struct bench_tier *t, struct bench_set *s, double *out_s)
{
	uint64_t start_ns = units_now_ns();
	int r = bench_tier_acquire(t, s);

	if (r == 0)
		r = bench_tier_ready(t, s);
	*out_s = (double)(units_now_ns() - start_ns) / 1e9;
	return r;
}

int bench_tier_check(struct bench_tier *t, const struct bench_set *s)
{
	for (uint32_t i = 0; i < s->chains; i++) {
		uint32_t count;
		int r = kvd_extend(t->kvd, s->leases[i], 0, TIER_DEADLINE_MS);
		if (r == 0)
			r = bench_tier_await(t, KVD_EV_LEASE, 1);
		if (r != 0)
			return bench_tier_say("extend", r);
		const uint64_t *pages = kvd_lease_pages(s->leases[i], 0, &count);
		for (uint32_t b = 0; b < s->blocks; b++)
			if (b >= count || !pages[b] ||
			    !bench_tier_is(t, bench_tier_key(s, i, b),
					   (const uint64_t *)(uintptr_t)pages[b]))
				return bench_tier_say("a page has other bytes than it should",
						      -EBADMSG);
	}
	return 0;
}

int bench_tier_evict(struct bench_tier *t, bool file)
{
	struct kvd_req req = {.op = KVD_OP_EVICT,
			      .flags = KVD_EVICT_ALL_SPACES | (file ? KVD_EVICT_TIERS : 0),
			      .arg64 = UINT32_MAX};
	struct kvd_rep rep;
	struct kvd_options options = {
		.socket_path = t->daemon.socket, .name = "kvbench", .hello_flags = KVD_HELLO_ADMIN};
	struct kvd *admin;
	int r = kvd_open(&options, &admin);

	if (r)
		return bench_tier_say(kvd_last_error(), r);
	do {
		r = kvd_call(admin, &req, NULL, &rep, NULL, 0);
		r = r ? r : rep.result;
	} while (r == 0 && rep.aux > 0);
	kvd_close(admin);
	return r ? bench_tier_say("evict", r) : 0;
}
