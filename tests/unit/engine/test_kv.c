/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv.c over a client library that the test plays: which kvd is looked for, what a death does, how
 * results are told. The private child is a script that ends when its socket hangs up.
 */
#include "base/units.h"
#include "engine/kv.h"
#include "engine/private_kvd.h"
#include "kernels/mem/device.h"
#include "tests/test.h"
#include <errno.h>
#include <kvd.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct kvd {
	int fd;
	uint64_t nonce;
};

struct kvd_lease {
	struct kvd_lease_info info;
};

/* What the library does next, and what it was asked. */
static struct {
	int open_result[8]; /* of the next opens; the last one stays */
	int open_count;
	int opens, closes, wakes;
	bool private_open;
	bool same_daemon; /* answers every open; else each is another's */
	uint32_t hello_flags;
	int closes_before_open;
	const char *last_space;
	int format_result;
	struct kvd_event events[8];
	int event_count;
	int wait_result;
	struct kvd_info info;
	uint32_t returned, quiet;
	int release_result, release_calls;
	uint32_t release_tail;
	int acquire_result;
	struct kvd_acquire_args acquired;
	uint64_t rate, rate_nonce; /* and to which daemon */
	int prefetches;
	struct kvd_acquire_args announced;
	uint32_t extend_flags;
	struct kvd_device devices[2];
	uint32_t device_count;
	const struct kvd_map_ops *map_ops;
	uint32_t format_device;
} lib;

int kvd_open(const struct kvd_options *o, struct kvd **out)
{
	int i = lib.opens < lib.open_count ? lib.opens : lib.open_count;

	lib.opens++;
	lib.private_open = o->socket_fd > 0;
	lib.last_space = o->space;
	lib.hello_flags = o->hello_flags;
	lib.closes_before_open = lib.closes;
	lib.map_ops = o->map_ops;
	/* A private child is there at once. */
	if (!lib.private_open && lib.open_result[i] < 0)
		return lib.open_result[i];
	*out = calloc(1, sizeof(**out));
	(*out)->fd = o->socket_fd;
	(*out)->nonce = lib.same_daemon ? 1 : (uint64_t)lib.opens + 1;
	return 0;
}

void kvd_close(struct kvd *k)
{
	if (!k)
		return;
	lib.closes++;
	if (k->fd > 0)
		close(k->fd);
	free(k);
}

const char *kvd_last_error(void)
{
	return "words for a person";
}

int kvd_format(struct kvd *k, const struct kvd_format_args *args, uint32_t *out_format)
{
	*out_format = 3;
	lib.format_device = args->parts[0].device;
	return lib.format_result;
}

uint32_t kvd_devices(const struct kvd *k, struct kvd_device *out, uint32_t max)
{
	memcpy(out, lib.devices, lib.device_count * sizeof(*out));
	return lib.device_count;
}

void kvd_info(struct kvd *k, struct kvd_info *out)
{
	*out = lib.info;
	out->nonce = k->nonce;
}

int kvd_wait(struct kvd *k, uint64_t timeout_ns, struct kvd_event *events, uint32_t max)
{
	int n = lib.event_count;

	memcpy(events, lib.events, (size_t)n * sizeof(*events));
	lib.event_count = 0;
	return lib.wait_result < 0 ? lib.wait_result : n;
}

void kvd_wake(struct kvd *k)
{
	lib.wakes++;
}

int kvd_acquire(struct kvd *k, const struct kvd_acquire_args *args, struct kvd_lease **out)
{
	lib.acquired = *args;
	return lib.acquire_result;
}

int kvd_prefetch(struct kvd *k, const struct kvd_acquire_args *args)
{
	lib.prefetches++;
	lib.announced = *args;
	return -EAGAIN;
}

int kvd_cancel(struct kvd *k, struct kvd_lease *lease)
{
	return 0;
}

void kvd_lease_info(struct kvd_lease *lease, struct kvd_lease_info *out)
{
	*out = lease->info;
}

const uint64_t *kvd_lease_pages(struct kvd_lease *lease, uint32_t part, uint32_t *out_count)
{
	*out_count = 0;
	return NULL;
}

uint64_t kvd_lease_tail(struct kvd_lease *lease, uint32_t part)
{
	return 0;
}

int kvd_extend(struct kvd *k, struct kvd_lease *lease, uint32_t flags, uint32_t deadline_ms)
{
	lib.extend_flags = flags;
	return 0;
}

int kvd_bind(struct kvd *k, struct kvd_lease *lease)
{
	return KVD_FULL;
}

int kvd_seal(struct kvd *k, struct kvd_lease *lease, uint32_t first_block, uint32_t block_count,
	     const uint32_t *tokens, uint32_t token_count)
{
	return -EAGAIN;
}

int kvd_release(struct kvd *k, struct kvd_lease *lease, uint32_t tail_tokens,
		const uint32_t *tokens, uint32_t token_count)
{
	lib.release_calls++;
	lib.release_tail = tail_tokens;
	return tail_tokens ? lib.release_result : 0;
}

int kvd_topup(struct kvd *k, uint32_t format, uint32_t block_count, uint32_t deadline_ms)
{
	return 0;
}

int kvd_return(struct kvd *k, uint32_t format, uint32_t block_count)
{
	lib.returned += block_count;
	return 0;
}

uint32_t kvd_magazine(struct kvd *k, uint32_t format)
{
	return 2;
}

int kvd_rate(struct kvd *k, uint32_t format, uint64_t tokens_per_s)
{
	lib.rate = tokens_per_s;
	lib.rate_nonce = k->nonce;
	return 0;
}

int kvd_slabs_quiet(struct kvd *k)
{
	lib.quiet++;
	return 0;
}

/* --- GPUs that the test plays: two, whose uuids are all 1 and all 2 -----------------------------
 */

static struct {
	int opened; /* ordinal, or -1 */
	int closed, imported, unmapped;
	const char *missing; /* words of a module that is not there */
} gpu;

static int gpu_count(char *words, size_t size)
{
	return 2;
}

static int gpu_describe(uint32_t index, struct device_info *out, char *words, size_t size)
{
	*out = (struct device_info){.name = "toy"};
	memset(out->uuid, (int)index + 1, sizeof(out->uuid));
	return 0;
}

static int gpu_open(uint32_t index, struct device **out, char *words, size_t size)
{
	gpu.opened = (int)index;
	*out = (struct device *)(uintptr_t)0x10;
	return 0;
}

static void gpu_close(struct device *dev)
{
	gpu.closed++;
}

static const char *gpu_failure(const struct device *dev)
{
	return "the toy does not like it";
}

static int gpu_import(struct device *dev, const struct kvd_slab_wire *wire, int fd,
		      struct device_view *out)
{
	if (wire->slab == 13)
		return -ESTALE;
	gpu.imported++;
	*out = (struct device_view){.read = 0x1000, .write = 0x2000, .bytes = wire->slab_bytes};
	return 0;
}

static void gpu_unmap(struct device *dev, struct device_view *view)
{
	gpu.unmapped += view->read == 0x1000 && view->write == 0x2000;
}

const struct device_ops *device_find(const char *name, char *words, size_t size)
{
	static struct device_ops toy = {.count = gpu_count,
					.describe = gpu_describe,
					.open = gpu_open,
					.close = gpu_close,
					.failure = gpu_failure,
					.slab_import = gpu_import,
					.slab_unmap = gpu_unmap};

	toy.name = name;
	snprintf(words, size, "%s", gpu.missing ? gpu.missing : "");
	return gpu.missing ? NULL : &toy;
}

/* --- the tests -----------------------------------------------------------------------------------
 */

static char program[64];
static struct kernel_ops ops;
static const struct model model = {.ops = &ops};
static struct engine_config engine;
static struct kv_config config;
static char error[256];

static int setup(void **state)
{
	memset(&lib, 0, sizeof(lib));
	strcpy(program, "/tmp/kvd-script-XXXXXX");
	int fd = mkstemp(program);

	dprintf(fd, "#!/bin/sh\nexec cat <&3\n");
	fchmod(fd, 0700);
	close(fd);
	ops = (struct kernel_ops){.name = "toy"};
	lib.device_count = 1;
	lib.devices[0] = (struct kvd_device){.kind = KVD_SLAB_HOST, .name = "host"};
	memset(&gpu, 0, sizeof(gpu));
	gpu.opened = -1;
	engine = (struct engine_config){
		.model = &model, .kvd_program = program, .kvd_space = "tenant"};
	config = (struct kv_config){.engine = &engine,
				    .layout = {1, 1, 16, 16, 2},
				    .layout_name = "l",
				    .description = "d"};
	error[0] = '\0';
	return 0;
}

static int teardown(void **state)
{
	unlink(program);
	return 0;
}

static int open_kv(struct kv **out)
{
	*out = NULL;
	return kv_open(&config, out, error, sizeof(error));
}

static void auto_takes_the_daemon(void **state)
{
	struct kv_counts counts;
	struct kv *kv;

	assert_int_equal(open_kv(&kv), 0);
	kv_counts(kv, &counts);
	assert_true(counts.ready && !counts.private_daemon);
	assert_string_equal(lib.last_space, "tenant");
	kv_close(kv);
	assert_int_equal(lib.closes, 1);
}

static void auto_goes_alone_where_there_is_none(void **state)
{
	static const int none[] = {-ENOENT, -ECONNREFUSED};

	for (int i = 0; i < 2; i++) {
		struct kv_counts counts;
		struct kv *kv;

		lib.open_result[0] = none[i];
		lib.open_count = 0;
		assert_int_equal(open_kv(&kv), 0);
		kv_counts(kv, &counts);
		assert_true(counts.private_daemon && lib.private_open);
		assert_null(lib.last_space);
		kv_close(kv);
		/* The child was waited for. */
		assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	}
}

static void a_refusal_is_an_error(void **state)
{
	static const int refusals[] = {-EACCES, -EPROTO, -EUSERS, -ETIMEDOUT};
	struct kv *kv;

	for (int i = 0; i < 4; i++) {
		lib.open_result[0] = refusals[i];
		assert_int_equal(open_kv(&kv), refusals[i]);
		assert_non_null(strstr(error, "words for a person"));
	}
	assert_false(lib.private_open);
}

static void require_and_a_given_socket_do_not_go_alone(void **state)
{
	struct kv *kv;

	lib.open_result[0] = -ENOENT;
	engine.kvd_mode = ENGINE_KVD_REQUIRE;
	assert_int_equal(open_kv(&kv), -ENOENT);
	engine.kvd_mode = ENGINE_KVD_AUTO;
	engine.kvd_socket = "/somewhere";
	assert_int_equal(open_kv(&kv), -ENOENT);
	assert_false(lib.private_open);
}

static void a_missing_daemon_is_found_before_the_model(void **state)
{
	lib.open_result[0] = -ENOENT;
	assert_int_equal(kv_find(&engine, error, sizeof(error)), 0);
	assert_int_equal(lib.opens, 0);
	lib.open_count = 1;
	engine.kvd_mode = ENGINE_KVD_REQUIRE;
	assert_int_equal(kv_find(&engine, error, sizeof(error)), -ENOENT);
	assert_non_null(strstr(error, "words for a person"));
	/* The second time one is there: its session ends at once. */
	assert_int_equal(kv_find(&engine, error, sizeof(error)), 0);
	assert_int_equal(lib.closes, 1);
}

static void private_program_that_is_missing(void **state)
{
	struct kv *kv;

	engine.kvd_mode = ENGINE_KVD_PRIVATE;
	engine.kvd_program = "/nowhere/kvd";
	assert_int_equal(open_kv(&kv), -ENOENT);
	assert_non_null(strstr(error, "/nowhere/kvd"));
}

static void refused_format_closes_the_connection(void **state)
{
	struct kv *kv;

	lib.format_result = -EEXIST;
	assert_int_equal(open_kv(&kv), -EEXIST);
	assert_int_equal(lib.closes, 1);
}

static void lose(struct kv *kv)
{
	struct kv_event ev[2];

	lib.events[0] = (struct kvd_event){.kind = KVD_EV_GONE};
	lib.event_count = 1;
	assert_int_equal(kv_wait(kv, 0, ev, 2), 1);
	assert_int_equal(ev[0].kind, KV_EV_LOST);
}

static void comes_back_after_a_death(void **state)
{
	struct kv_counts counts;
	struct kv_event ev[2];
	struct kvd_lease *lease;
	struct kv *kv;
	int tries = 0;

	assert_int_equal(open_kv(&kv), 0);
	lose(kv);
	kv_counts(kv, &counts);
	assert_false(counts.ready);
	const struct kv_acquire a = {.token_count = 1};
	assert_int_equal(kv_acquire(kv, &a, &lease), KV_GONE);
	assert_int_equal(kv_topup(kv, 1, 0), KV_GONE);
	/* Twice nobody answers, then somebody does. */
	lib.opens = 0;
	lib.open_result[0] = lib.open_result[1] = -ECONNREFUSED;
	lib.open_count = 2;
	while (kv_wait(kv, UNITS_NS_PER_S, ev, 2) == 0)
		assert_true(++tries < 100);
	assert_int_equal(ev[0].kind, KV_EV_BACK);
	assert_int_equal(lib.opens, 3);
	assert_int_equal(lib.closes, 1);
	kv_counts(kv, &counts);
	assert_true(counts.ready);
	assert_int_equal(counts.reconnects, 1);
	kv_close(kv);
}

/* A new daemon knows nothing of us, and what it loads may be all that it is asked for. */
static void tells_a_new_daemon_the_speed(void **state)
{
	struct kv_event ev[2];
	struct kv *kv;

	assert_int_equal(open_kv(&kv), 0);
	kv_rate(kv, 777);
	uint64_t before = lib.rate_nonce;
	lib.rate = 0;
	lose(kv);
	while (kv_wait(kv, UNITS_NS_PER_S, ev, 2) == 0)
		;
	assert_int_equal(ev[0].kind, KV_EV_BACK);
	assert_int_equal(lib.rate, 777);
	assert_int_not_equal(lib.rate_nonce, before);
	kv_close(kv);
}

/* The old maps are gone when the daemon that ended the session is told that they are. */
static void tells_the_same_daemon_that_it_is_quiet(void **state)
{
	struct kv_event ev[2];
	struct kv *kv;

	lib.same_daemon = true;
	assert_int_equal(open_kv(&kv), 0);
	assert_int_equal(lib.hello_flags, 0);
	lose(kv);
	lib.opens = 0;
	while (kv_wait(kv, UNITS_NS_PER_S, ev, 2) == 0)
		;
	assert_int_equal(ev[0].kind, KV_EV_BACK);
	assert_int_equal(lib.opens, 2);
	assert_int_equal(lib.hello_flags, KVD_HELLO_QUIESCED);
	assert_int_equal(lib.closes_before_open, 1);
	assert_int_equal(lib.closes, 2);
	kv_close(kv);
}

static void private_child_is_started_again(void **state)
{
	struct kv_event ev[2];
	struct kv *kv;

	engine.kvd_mode = ENGINE_KVD_PRIVATE;
	assert_int_equal(open_kv(&kv), 0);
	lose(kv);
	while (kv_wait(kv, UNITS_NS_PER_S, ev, 2) == 0)
		;
	assert_int_equal(ev[0].kind, KV_EV_BACK);
	assert_true(lib.private_open);
	kv_close(kv);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void *wake_later(void *arg)
{
	kv_wake(arg);
	return NULL;
}

static void wake_ends_the_sleep_of_a_lost_one(void **state)
{
	struct kv_event ev[2];
	pthread_t thread;
	struct kv *kv;

	assert_int_equal(open_kv(&kv), 0);
	kv_wake(kv);
	assert_int_equal(lib.wakes, 1);
	lib.open_result[0] = -ENOENT;
	lib.open_count = 0;
	lose(kv);
	for (int i = 0; i < 50; i++) {
		pthread_create(&thread, NULL, wake_later, kv);
		assert_int_equal(kv_wait(kv, UINT64_MAX, ev, 2), 0);
		pthread_join(thread, NULL);
	}
	kv_close(kv);
}

static void results_are_translated(void **state)
{
	struct kvd_lease lease = {.info = {.user = &lib, .state = KVD_LEASE_CALL}};
	struct kv_lease seen;
	struct kv_event ev[4];
	struct kv *kv;

	assert_int_equal(open_kv(&kv), 0);
	lib.events[0] = (struct kvd_event){.kind = KVD_EV_SEAL, .result = KVD_KEPT};
	lib.events[1] = (struct kvd_event){.kind = KVD_EV_LEASE, .lease = NULL};
	lib.events[2] = (struct kvd_event){
		.kind = KVD_EV_LEASE, .result = KVD_FULL, .lease = &lease, .full = {7, 5, 3}};
	lib.events[3] = (struct kvd_event){.kind = KVD_EV_TOPUP, .result = KVD_BUSY};
	lib.event_count = 4;
	assert_int_equal(kv_wait(kv, 0, ev, 4), 2);
	assert_int_equal(ev[0].kind, KV_EV_LEASE);
	assert_int_equal(ev[0].result, KV_FULL);
	assert_ptr_equal(ev[0].owner, &lib);
	assert_int_equal(ev[0].needed_pages, 7);
	assert_int_equal(ev[1].result, KV_BUSY);
	kv_lease(&lease, &seen);
	assert_int_equal(seen.call, KV_LEASE_CALLS);
	assert_int_equal(kv_seal(kv, &lease, 0, 1, NULL, 0), KV_AGAIN);
	assert_int_equal(kv_extend(kv, &lease, KV_EXTEND_TAKE, 0), KV_OK);
	assert_int_equal(lib.extend_flags, KVD_EXTEND_TAKE);
	lib.release_result = -EINVAL;
	assert_int_equal(kv_release(kv, &lease, 9, NULL, 0), KV_OK);
	assert_int_equal(lib.release_calls, 2);
	assert_int_equal(lib.release_tail, 0);
	kv_close(kv);
}

static void cold_run_and_limits(void **state)
{
	struct kv_acquire a = {.token_count = 5, .cold = true, .decode_blocks = 1};
	struct kvd_lease *lease;
	struct kv *kv;

	assert_int_equal(open_kv(&kv), 0);
	assert_int_equal(kv_acquire(kv, &a, &lease), KV_OK);
	assert_int_equal(lib.acquired.flags, KVD_ACQUIRE_NO_HIT);
	assert_int_equal(lib.acquired.format, 3);
	a.token_count = KVD_REQUEST_TOKENS_MAX + 1;
	assert_int_equal(kv_acquire(kv, &a, &lease), -E2BIG);
	kv_close(kv);
}

/* Sent while there is somebody to hear it; whether it could be sent is nobody's concern. */
static void announces_what_waits(void **state)
{
	const uint32_t tokens[5] = {1, 2, 3, 4, 5};
	struct kv_event ev[2];
	struct kv *kv;

	assert_int_equal(open_kv(&kv), 0);
	kv_prefetch(kv, tokens, 5);
	assert_int_equal(lib.prefetches, 1);
	assert_int_equal(lib.announced.format, 3);
	assert_ptr_equal(lib.announced.tokens, tokens);
	assert_int_equal(lib.announced.token_count, 5);
	lib.events[0] = (struct kvd_event){.kind = KVD_EV_GONE};
	lib.event_count = 1;
	assert_int_equal(kv_wait(kv, 0, ev, 2), 1);
	assert_int_equal(ev[0].kind, KV_EV_LOST);
	kv_prefetch(kv, tokens, 5);
	assert_int_equal(lib.prefetches, 1);
	kv_close(kv);
}

static void gives_back_what_kvd_wants(void **state)
{
	struct kv_event ev[2];
	struct kv *kv;

	assert_int_equal(open_kv(&kv), 0);
	lib.info =
		(struct kvd_info){.want_back_pages = 2, .magazine_pages = 5, .retiring_slabs = 1};
	assert_int_equal(kv_wait(kv, 0, ev, 2), 0);
	assert_int_equal(lib.returned, 2);
	assert_int_equal(lib.quiet, 1);
	kv_close(kv);
}

/* kvd on the GPUs whose uuids are all a and all b; the engine on that which is all `own`. */
static void on_gpus(int a, int b, int own)
{
	lib.device_count = 2;
	for (uint32_t i = 0; i < 2; i++) {
		lib.devices[i] =
			(struct kvd_device){.kind = KVD_SLAB_CUDA_IPC, .index = i, .name = "toy"};
		memset(lib.devices[i].uuid, i ? b : a, sizeof(lib.devices[i].uuid));
	}
	memset(ops.device_uuid, own, sizeof(ops.device_uuid));
}

static void pages_lie_where_the_model_computes(void **state)
{
	struct kvd_slab_wire slab = {.kind = KVD_SLAB_CUDA_IPC, .slab_bytes = 4096};
	uint64_t read, write;
	struct kv *kv;

	on_gpus(7, 2, 2);
	assert_int_equal(open_kv(&kv), 0);
	assert_int_equal(lib.format_device, 1);
	/* The second of this process, whatever number kvd gives it. */
	assert_int_equal(gpu.opened, 1);
	assert_int_equal(lib.map_ops->map(lib.map_ops->ctx, &slab, -1, &read, &write), 0);
	assert_true(read == 0x1000 && write == 0x2000);
	lib.map_ops->unmap(lib.map_ops->ctx, &slab, read, write);
	assert_int_equal(gpu.unmapped, 1);
	slab.slab = 13;
	assert_int_equal(lib.map_ops->map(lib.map_ops->ctx, &slab, -1, &read, &write), -ESTALE);
	assert_string_equal(lib.map_ops->failure(lib.map_ops->ctx), "the toy does not like it");
	kv_close(kv);
	assert_int_equal(gpu.closed, 1);
}

static void pages_elsewhere_are_an_error_with_advice(void **state)
{
	struct kv *kv;

	on_gpus(7, 8, 2);
	assert_int_equal(open_kv(&kv), -EXDEV);
	assert_non_null(strstr(error, "kvd's pages lie on GPU-07070707"));
	assert_non_null(strstr(error, "CUDA_VISIBLE_DEVICES"));
	on_gpus(7, 8, 0);
	assert_int_equal(open_kv(&kv), -EXDEV);
	assert_non_null(strstr(error, "this engine computes on the CPU"));
	on_gpus(7, 8, 2);
	lib.device_count = 1;
	lib.devices[0] = (struct kvd_device){.kind = KVD_SLAB_HOST, .name = "host"};
	assert_int_equal(open_kv(&kv), -EXDEV);
	assert_non_null(strstr(error, "kvd's pages lie in host memory"));
	on_gpus(7, 2, 2);
	gpu.missing = "there is no module";
	assert_int_equal(open_kv(&kv), -ENODEV);
	assert_non_null(strstr(error, "there is no module"));
	assert_int_equal(lib.closes, 4);
	assert_int_equal(gpu.opened, -1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

TEST_MAIN(kv, TEST(auto_takes_the_daemon), TEST(auto_goes_alone_where_there_is_none),
	  TEST(a_refusal_is_an_error), TEST(require_and_a_given_socket_do_not_go_alone),
	  TEST(a_missing_daemon_is_found_before_the_model), TEST(private_program_that_is_missing),
	  TEST(refused_format_closes_the_connection), TEST(comes_back_after_a_death),
	  TEST(tells_a_new_daemon_the_speed), TEST(tells_the_same_daemon_that_it_is_quiet),
	  TEST(private_child_is_started_again), TEST(wake_ends_the_sleep_of_a_lost_one),
	  TEST(results_are_translated), TEST(cold_run_and_limits), TEST(announces_what_waits),
	  TEST(gives_back_what_kvd_wants), TEST(pages_lie_where_the_model_computes),
	  TEST(pages_elsewhere_are_an_error_with_advice))
