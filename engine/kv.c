/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The only file of the engine that calls kvd.h: one connection, its death and its return.
 *
 * Finding kvd. A given socket, or `require`: that daemon or none. `private`: a child of our own.
 * `auto`: the daemon where there is one, a child where there is none (ENOENT, ECONNREFUSED); a
 * daemon that refuses us is an error, not a reason to go alone. What was found at the start is
 * what is looked for after a death.
 *
 * Death. The library ends what was in flight and then reports KVD_EV_GONE; from then on the old
 * handle is only kept for its maps, and kv_wait() tries to connect with growing pauses. When it
 * succeeds, between two steps, the old handle is closed, which frees all leases and unmaps all
 * slabs, and KV_EV_BACK says so.
 *
 * `lock` guards what kv_wake() may look at from other threads: which handle is in use, and `woken`.
 */
#include "engine/kv.h"
#include "base/assert.h"
#include "base/bits.h"
#include "base/log.h"
#include "base/units.h"
#include "base/uuid.h"
#include "engine/crash.h"
#include "engine/devmap.h"
#include "engine/private_kvd.h"
#include <errno.h>
#include <kvd.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define RAW_EVENTS_MAX 32u
#define BACKOFF_MIN_NS (10 * UNITS_NS_PER_MS)
#define BACKOFF_MAX_NS (500 * UNITS_NS_PER_MS)
#define RECONNECT_TIMEOUT_NS UNITS_NS_PER_S
#define PAGE_ALIGN 64u
#define CHILD_END_MS 5000u

struct kv {
	struct kv_config config;
	char *description;
	uint32_t format;
	uint64_t rate; /* of prefill, tokens per second; 0: not measured yet */
	bool is_private;
	struct private_kvd child;
	struct devmap *map; /* NULL: pages are host memory, which the library maps itself */
	bool lost;
	uint64_t backoff_ns;
	uint64_t next_try_ns;
	uint64_t reconnects;
	char refusal[256]; /* what a daemon that is back said last, since the loss */

	pthread_mutex_t lock;
	pthread_cond_t cond;
	struct kvd *k;
	bool woken;
};

/* --- connecting
 * ----------------------------------------------------------------------------------- */

static int register_format(struct kv *kv, struct kvd *k, uint32_t device, uint32_t *out_format)
{
	struct kvd_format_args args = {
		.page_tokens = kv->config.layout.page_tokens,
		.part_count = 1,
		.layout = kv->config.layout_name,
		.description = kv->description,
		.parts[0] = {.page_bytes = kvd_layout_page_bytes(&kv->config.layout),
			     .align = PAGE_ALIGN,
			     .device = device},
	};

	memcpy(args.identity, kv->config.identity, sizeof(args.identity));
	return kvd_format(k, &args, out_format);
}

static int open_handle(const struct engine_config *c, const struct devmap *map, int socket_fd,
		       uint64_t timeout_ns, uint32_t flags, struct kvd **out)
{
	struct kvd_options options = {.socket_path = c->kvd_socket,
				      .socket_fd = socket_fd,
				      .name = c->name,
				      .timeout_ns = timeout_ns,
				      .hello_flags = flags,
				      .map_ops = map ? devmap_ops(map) : NULL};

	/* A child has one namespace, and us as its only client. */
	if (socket_fd <= 0) {
		options.space = c->kvd_space;
		options.secret = c->kvd_secret;
		options.secret_bytes = c->kvd_secret_bytes;
	}
	return kvd_open(&options, out);
}

/* Pages must lie where the model computes. The number of kvd's device that does, or -errno. */
static int choose_device(struct kv *kv, struct kvd *k, char *error, size_t size)
{
	const uint8_t *uuid = kv->config.engine->model->ops->device_uuid;
	struct kvd_device devices[KVD_DEVICES_MAX];
	char why[256] = "";
	uint32_t count = kvd_devices(k, devices, KVD_DEVICES_MAX);
	int device = devmap_choose(devices, count, uuid, why, sizeof(why));

	if (device >= 0 && kv->map) {
		int r = devmap_open(kv->map, devices[device].kind, why, sizeof(why));
		device = r < 0 ? r : device;
	}
	if (device < 0)
		snprintf(error, size, "kvd: %s", why);
	return device;
}

/* Connects and registers the format; leaves kv as it is when that fails. */
static int attach(struct kv *kv, uint64_t timeout_ns, struct kvd **out, uint32_t *out_format,
		  char *error, size_t size)
{
	struct private_kvd child = {0};
	struct kvd *k = NULL;
	int fd = 0, r = 0, device = 0;

	if (kv->is_private)
		r = private_kvd_start(&child, kv->config.engine, &fd, error, size);
	if (r < 0)
		return r;
	r = open_handle(kv->config.engine, kv->map, fd, timeout_ns, 0, &k);
	if (r == 0)
		device = choose_device(kv, k, error, size);
	if (r == 0 && device >= 0)
		r = register_format(kv, k, (uint32_t)device, out_format);
	if (r == 0 && device >= 0) {
		kv->child = child;
		*out = k;
		return 0;
	}
	if (device < 0)
		r = device;
	else
		snprintf(error, size, "kvd: %s%s", k ? "the KV format was refused: " : "",
			 kvd_last_error());
	kvd_close(k);
	private_kvd_stop(&child, CHILD_END_MS);
	return r < 0 ? r : -EIO;
}

static bool may_go_alone(const struct engine_config *c)
{
	return c->kvd_mode != ENGINE_KVD_REQUIRE && !c->kvd_socket;
}

int kv_find(const struct engine_config *config, char *error, size_t size)
{
	struct kvd *k;

	if (may_go_alone(config))
		return 0;
	int r = open_handle(config, NULL, 0, 0, 0, &k);

	if (r < 0)
		snprintf(error, size, "kvd: %s", kvd_last_error());
	else
		kvd_close(k);
	return r;
}

static int connect_first(struct kv *kv, char *error, size_t size)
{
	const struct engine_config *c = kv->config.engine;

	kv->is_private = c->kvd_mode == ENGINE_KVD_PRIVATE;
	int r = attach(kv, 0, &kv->k, &kv->format, error, size);

	if (!may_go_alone(c) || kv->is_private || (r != -ENOENT && r != -ECONNREFUSED))
		return r;
	log_warn("kvd", "no daemon found: starting a private one; nothing is shared with other "
			"engines");
	kv->is_private = true;
	return attach(kv, 0, &kv->k, &kv->format, error, size);
}

static void init_wake(struct kv *kv)
{
	pthread_condattr_t attr;

	pthread_mutex_init(&kv->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&kv->cond, &attr);
	pthread_condattr_destroy(&attr);
}

int kv_open(const struct kv_config *config, struct kv **out, char *error, size_t size)
{
	struct kv *kv = calloc(1, sizeof(*kv));

	if (!kv)
		return -ENOMEM;
	init_wake(kv);
	kv->config = *config;
	kv->description = strdup(config->description ? config->description : "");
	kv->config.description = kv->description;
	const uint8_t *uuid = config->engine->model->ops->device_uuid;
	int r = kv->description ? 0 : -ENOMEM;

	if (r == 0 && !uuid_is_zero(uuid)) {
		kv->map = devmap_new(uuid);
		r = kv->map ? 0 : -ENOMEM;
	}
	if (r == 0)
		r = connect_first(kv, error, size);
	if (r < 0) {
		kv_close(kv);
		return r;
	}
	*out = kv;
	return 0;
}

void kv_close(struct kv *kv)
{
	if (!kv)
		return;
	CRASH_POINT("before_bye");
	kvd_close(kv->k);
	devmap_free(kv->map);
	private_kvd_stop(&kv->child, CHILD_END_MS);
	pthread_cond_destroy(&kv->cond);
	pthread_mutex_destroy(&kv->lock);
	free(kv->description);
	free(kv);
}

/* --- death and return
 * ------------------------------------------------------------------------------- */

static void lose(struct kv *kv)
{
	log_warn("kvd", "the daemon is gone; running requests go on with the pages they hold");
	pthread_mutex_lock(&kv->lock);
	kv->lost = true;
	pthread_mutex_unlock(&kv->lock);
	kv->backoff_ns = BACKOFF_MIN_NS;
	kv->refusal[0] = '\0';
	kv->next_try_ns = units_now_ns();
}

/* A daemon that is there and has other pages than we can use is a thing to be told, once. */
static void note_refusal(struct kv *kv, int r, const char *error)
{
	if (r == -ENOENT || r == -ECONNREFUSED || strcmp(kv->refusal, error) == 0)
		return;
	snprintf(kv->refusal, sizeof(kv->refusal), "%s", error);
	log_warn("kvd", "not back yet: %s", error);
}

/*
 * The daemon that ended our session still lives: it keeps the pages that we were writing, and each
 * slab that we mapped, until we die or say that this is over. In a session of its own, because the
 * word is given in a HELLO, and the new session had to be there before the old maps could go.
 */
static void say_quiet(struct kv *kv)
{
	struct kvd *k;

	if (open_handle(kv->config.engine, kv->map, 0, RECONNECT_TIMEOUT_NS, KVD_HELLO_QUIESCED,
			&k) < 0)
		log_warn("kvd", "pages of the last session stay out of use: %s", kvd_last_error());
	else
		kvd_close(k);
}

static bool reconnect(struct kv *kv)
{
	struct private_kvd dead = kv->child;
	struct kvd *old = kv->k, *fresh;
	struct kvd_info before, now;
	char error[sizeof(kv->refusal)];
	uint32_t format;
	int r = attach(kv, RECONNECT_TIMEOUT_NS, &fresh, &format, error, sizeof(error));

	if (r < 0) {
		note_refusal(kv, r, error);
		kv->next_try_ns = units_now_ns() + kv->backoff_ns;
		kv->backoff_ns = BITS_MIN(2 * kv->backoff_ns, BACKOFF_MAX_NS);
		return false;
	}
	pthread_mutex_lock(&kv->lock);
	kv->k = fresh;
	kv->lost = false;
	pthread_mutex_unlock(&kv->lock);
	kv->format = format;
	/* It knows of no speed, and we may compute nothing that would measure it for long. */
	if (kv->rate)
		(void)kvd_rate(fresh, format, kv->rate);
	kv->reconnects++;
	kvd_info(old, &before);
	kvd_info(fresh, &now);
	kvd_close(old);
	if (before.nonce == now.nonce)
		say_quiet(kv);
	private_kvd_stop(&dead, 0);
	log_info("kvd", "a daemon is back; requests take their leases anew");
	return true;
}

/* Sleeps until the time, or until kv_wake(). */
static void sleep_lost(struct kv *kv, uint64_t timeout_ns)
{
	uint64_t now_ns = units_now_ns();
	uint64_t until_ns = timeout_ns > UINT64_MAX - now_ns ? UINT64_MAX : now_ns + timeout_ns;

	until_ns = BITS_MIN(until_ns, kv->next_try_ns);
	struct timespec at = {.tv_sec = (time_t)(until_ns / UNITS_NS_PER_S),
			      .tv_nsec = (long)(until_ns % UNITS_NS_PER_S)};

	pthread_mutex_lock(&kv->lock);
	while (!kv->woken && pthread_cond_timedwait(&kv->cond, &kv->lock, &at) != ETIMEDOUT)
		;
	kv->woken = false;
	pthread_mutex_unlock(&kv->lock);
}

static uint32_t wait_lost(struct kv *kv, uint64_t timeout_ns, struct kv_event *events)
{
	if (units_now_ns() < kv->next_try_ns && timeout_ns > 0)
		sleep_lost(kv, timeout_ns);
	if (units_now_ns() < kv->next_try_ns || !reconnect(kv))
		return 0;
	events[0] = (struct kv_event){.kind = KV_EV_BACK};
	return 1;
}

/* --- events -------------------------------------------------------------------------------------
 */

static int translate(int r)
{
	switch (r) {
	case -EAGAIN:
		return KV_AGAIN;
	case KVD_OK:
	case KVD_KEPT: /* a block that stays ours: nothing to do */
		return KV_OK;
	case KVD_FULL:
		return KV_FULL;
	case KVD_BUSY:
		return KV_BUSY;
	case KVD_DRAINING:
		return KV_DRAINING;
	case KVD_GONE:
		return KV_GONE;
	case KVD_STALE:
		return -ESTALE;
	default:
		return r < 0 ? r : -EPROTO;
	}
}

/* false: nothing that the scheduler wants to know. */
static bool translate_event(struct kv *kv, const struct kvd_event *raw, struct kv_event *out)
{
	struct kvd_lease_info info;

	*out = (struct kv_event){.result = translate(raw->result),
				 .import = kv->map ? devmap_why(kv->map, raw->result) : NULL};
	if (out->result == KV_FULL) {
		out->needed_pages = raw->full.needed_pages;
		out->free_pages = raw->full.free_pages;
		out->evictable_pages = raw->full.evictable_pages;
	}
	switch (raw->kind) {
	case KVD_EV_LEASE:
		if (!raw->lease)
			return false;
		kvd_lease_info(raw->lease, &info);
		out->kind = KV_EV_LEASE;
		out->owner = info.user;
		return true;
	case KVD_EV_TOPUP:
		out->kind = KV_EV_TOPUP;
		return true;
	case KVD_EV_GONE:
		out->kind = KV_EV_LOST;
		lose(kv);
		return true;
	default:
		return false;
	}
}

/* Between two steps no kernel runs: the moment to give back what kvd asks for. */
static void give_back(struct kv *kv)
{
	struct kvd_info info;

	kvd_info(kv->k, &info);
	if (info.retiring_slabs > 0)
		(void)kvd_slabs_quiet(kv->k);
	if (info.want_back_pages > 0 && info.magazine_pages > 0)
		(void)kvd_return(kv->k, kv->format, info.want_back_pages);
}

uint32_t kv_wait(struct kv *kv, uint64_t timeout_ns, struct kv_event *events, uint32_t max)
{
	struct kvd_event raw[RAW_EVENTS_MAX];
	uint32_t count = 0;

	if (kv->lost)
		return wait_lost(kv, timeout_ns, events);
	give_back(kv);
	if (kv->map)
		devmap_forget(kv->map);
	int n = kvd_wait(kv->k, timeout_ns, raw, BITS_MIN(max, RAW_EVENTS_MAX));

	if (n < 0) {
		/* A connection that cannot be waited for is as good as gone. */
		log_warn("kvd", "waiting failed: %s", kvd_last_error());
		lose(kv);
		events[0] = (struct kv_event){.kind = KV_EV_LOST};
		return 1;
	}
	for (int i = 0; i < n; i++)
		count += translate_event(kv, &raw[i], &events[count]);
	return count;
}

void kv_wake(struct kv *kv)
{
	pthread_mutex_lock(&kv->lock);
	if (kv->lost) {
		kv->woken = true;
		pthread_cond_signal(&kv->cond);
	} else {
		kvd_wake(kv->k);
	}
	pthread_mutex_unlock(&kv->lock);
}

void kv_counts(struct kv *kv, struct kv_counts *out)
{
	*out = (struct kv_counts){.ready = !kv->lost,
				  .private_daemon = kv->is_private,
				  .reconnects = kv->reconnects,
				  .magazine_blocks = kv_magazine(kv)};
}

/* --- leases ----------------------------------------------------------------------------------- */

int kv_acquire(struct kv *kv, const struct kv_acquire *a, struct kvd_lease **out)
{
	const struct kvd_acquire_args args = {.format = kv->format,
					      .tokens = a->tokens,
					      .token_count = a->token_count,
					      .decode_blocks = a->decode_blocks,
					      .flags = a->cold ? KVD_ACQUIRE_NO_HIT : 0,
					      .deadline_ms = a->deadline_ms,
					      .user = a->owner};

	if (a->token_count > KVD_REQUEST_TOKENS_MAX)
		return -E2BIG;
	return kv->lost ? KV_GONE : translate(kvd_acquire(kv->k, &args, out));
}

void kv_prefetch(struct kv *kv, const uint32_t *tokens, uint32_t token_count)
{
	const struct kvd_acquire_args args = {
		.format = kv->format, .tokens = tokens, .token_count = token_count};

	if (!kv->lost)
		(void)kvd_prefetch(kv->k, &args);
}

void kv_cancel(struct kv *kv, struct kvd_lease *lease)
{
	/* If it cannot be sent, the lease comes and is released then. */
	if (!kv->lost)
		(void)kvd_cancel(kv->k, lease);
}

void kv_lease(struct kvd_lease *lease, struct kv_lease *out)
{
	struct kvd_lease_info info;

	kvd_lease_info(lease, &info);
	*out = (struct kv_lease){.token_count = info.token_count,
				 .build_from = info.build_from,
				 .ready_tokens = info.ready_tokens,
				 .block_count = info.block_count,
				 .tail_tokens = info.tail_tokens,
				 .follows_own = info.follows_own,
				 .loads = info.loads};
	if (info.state == KVD_LEASE_CALL)
		out->call = KV_LEASE_CALLS;
	else if (info.state == KVD_LEASE_REVOKED)
		out->call = KV_LEASE_REVOKED;
}

const uint64_t *kv_pages(struct kvd_lease *lease, uint32_t *out_count)
{
	return kvd_lease_pages(lease, 0, out_count);
}

uint64_t kv_tail(struct kvd_lease *lease)
{
	return kvd_lease_tail(lease, 0);
}

int kv_extend(struct kv *kv, struct kvd_lease *lease, enum kv_extend_kind kind,
	      uint32_t deadline_ms)
{
	uint32_t flags = 0;

	if (kv->lost)
		return KV_GONE;
	if (kind == KV_EXTEND_ANSWER)
		flags = KVD_EXTEND_CALL;
	else if (kind == KV_EXTEND_TAKE)
		flags = KVD_EXTEND_TAKE;
	return translate(kvd_extend(kv->k, lease, flags, deadline_ms));
}

int kv_bind(struct kv *kv, struct kvd_lease *lease)
{
	return kvd_bind(kv->k, lease) == 0 ? KV_OK : KV_FULL;
}

int kv_seal(struct kv *kv, struct kvd_lease *lease, uint32_t first_block, uint32_t block_count,
	    const uint32_t *tokens, uint32_t token_count)
{
	if (kv->lost)
		return KV_GONE;
	return translate(kvd_seal(kv->k, lease, first_block, block_count, tokens, token_count));
}

int kv_release(struct kv *kv, struct kvd_lease *lease, uint32_t tail_tokens, const uint32_t *tokens,
	       uint32_t token_count)
{
	int r = translate(kvd_release(kv->k, lease, tail_tokens, tokens, token_count));

	/* A tail that cannot be kept must not keep the lease. */
	return r < 0 && tail_tokens > 0 ? translate(kvd_release(kv->k, lease, 0, NULL, 0)) : r;
}

int kv_topup(struct kv *kv, uint32_t block_count, uint32_t deadline_ms)
{
	if (kv->lost)
		return KV_GONE;
	return translate(kvd_topup(kv->k, kv->format, block_count, deadline_ms));
}

uint32_t kv_magazine(struct kv *kv)
{
	return kvd_magazine(kv->k, kv->format);
}

void kv_return_all(struct kv *kv)
{
	if (!kv->lost && kv_magazine(kv) > 0)
		(void)kvd_return(kv->k, kv->format, UINT32_MAX);
}

void kv_rate(struct kv *kv, uint64_t tokens_per_s)
{
	kv->rate = tokens_per_s;
	if (!kv->lost)
		(void)kvd_rate(kv->k, kv->format, tokens_per_s);
}
