/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and events: nothing runs before somebody waits, and only what is ordered is in order. */
#include "tests/cudasim/sim.h"
#include "tests/cudasim/tests/child.h"
#include "tests/test.h"
#include <pthread.h>
#include <unistd.h>

static char trace[256];
static uint32_t traced, dropped;

static void mark(void *arg)
{
	trace[traced++] = (char)(uintptr_t)arg;
	trace[traced] = 0;
}

static void mark_drop(void *arg)
{
	dropped++;
}

static void push(cudaStream_t s, char letter)
{
	OK(sim_stream_push(s, &(struct sim_work){.run = mark,
						 .drop = mark_drop,
						 .arg = (void *)(uintptr_t)letter,
						 .name = "mark"}));
}

static cudaStream_t stream(unsigned flags)
{
	cudaStream_t s;

	OK(cudaStreamCreateWithFlags(&s, flags));
	return s;
}

static void role_lazy(void)
{
	cudaStream_t s = stream(cudaStreamNonBlocking);
	cudaEvent_t e;

	OK(cudaEventCreate(&e));
	OK(cudaEventQuery(e)); /* never recorded: nothing to wait for */
	for (char c = 'a'; c < 'a' + 20; c++)
		push(s, c);
	OK(cudaEventRecord(e, s));
	usleep(20000);
	IS(traced, 0);
	IS(cudaEventQuery(e), cudaErrorNotReady);
	IS(cudaStreamQuery(s), cudaErrorNotReady);
	CHECK(traced > 0 && traced < 20);
	OK(cudaEventSynchronize(e));
	OK(cudaEventQuery(e));
	CHECK(strcmp(trace, "abcdefghijklmnopqrst") == 0);
	IS(dropped, 20);
	OK(cudaStreamQuery(s));
	push(s, 'z');
	while (cudaStreamQuery(s) == cudaErrorNotReady)
		;
	IS(traced, 21);
	/* Work of a destroyed stream is done. */
	push(s, 'y');
	OK(cudaStreamDestroy(s));
	IS(cudaStreamSynchronize(s), cudaErrorInvalidResourceHandle);
	IS(traced, 21);
	OK(cudaDeviceSynchronize());
	IS(traced, 22);
	OK(cudaEventDestroy(e));
	IS(cudaEventRecord(e, 0), cudaErrorInvalidResourceHandle);
}

/* Two streams without order: the seed decides. What comes out is said, for the test to compare. */
static void role_free_order(void)
{
	cudaStream_t a = stream(cudaStreamNonBlocking), b = stream(cudaStreamNonBlocking);

	for (int i = 0; i < 12; i++) {
		push(a, 'a');
		push(b, 'b');
	}
	OK(cudaDeviceSynchronize());
	fprintf(stderr, "trace %s\n", trace);
}

static void role_event_order(void)
{
	cudaStream_t a = stream(cudaStreamNonBlocking), b = stream(cudaStreamNonBlocking);
	cudaEvent_t e, unused;
	float ms = -1;

	OK(cudaEventCreate(&e));
	OK(cudaEventCreate(&unused));
	for (int i = 0; i < 8; i++)
		push(a, 'a');
	OK(cudaEventRecord(e, a));
	OK(cudaStreamWaitEvent(b, e, 0));
	OK(cudaStreamWaitEvent(b, unused, 0));
	push(b, 'b');
	/* A later record does not move the wait that was queued. */
	push(a, 'c');
	OK(cudaEventRecord(e, a));
	IS(cudaEventElapsedTime(&ms, unused, e), cudaErrorInvalidResourceHandle);
	OK(cudaStreamSynchronize(b));
	CHECK(strncmp(trace, "aaaaaaaa", 8) == 0 && strchr(trace, 'b'));
	OK(cudaEventRecord(unused, a));
	OK(cudaDeviceSynchronize());
	OK(cudaEventElapsedTime(&ms, e, unused));
	CHECK(ms >= 0 && ms < 60000);
}

/* Blocking streams and the legacy stream wait for each other; a non-blocking one does not. */
static void role_legacy(void)
{
	cudaStream_t a = stream(cudaStreamDefault), b = stream(cudaStreamDefault);

	for (int i = 0; i < 6; i++)
		push(a, 'a');
	push(0, 'L');
	for (int i = 0; i < 6; i++)
		push(b, 'b');
	OK(cudaStreamSynchronize(b));
	CHECK(strcmp(trace, "aaaaaaLbbbbbb") == 0);
	cudaStream_t n = stream(cudaStreamNonBlocking);
	traced = 0;
	push(n, 'n');
	push(0, 'L');
	OK(cudaStreamSynchronize(n));
	OK(cudaDeviceSynchronize());
	fprintf(stderr, "trace %s\n", trace);
}

static cudaError_t inner;
static pthread_t host_thread;

static void call_back(void *arg)
{
	inner = cudaStreamSynchronize(0);
	host_thread = pthread_self();
	mark((void *)'h');
}

static void role_host(void)
{
	cudaStream_t s = stream(cudaStreamNonBlocking);

	push(s, 'a');
	OK(cudaLaunchHostFunc(s, call_back, NULL));
	push(s, 'b');
	IS(traced, 0);
	OK(cudaStreamSynchronize(s));
	CHECK(strcmp(trace, "ahb") == 0);
	IS(inner, cudaErrorNotPermitted);
	IS(cudaLaunchHostFunc(s, NULL, NULL), cudaErrorInvalidValue);
}

static void role_devices(void)
{
	cudaStream_t zero = stream(cudaStreamNonBlocking);
	cudaEvent_t e;

	OK(cudaSetDevice(1));
	OK(cudaEventCreate(&e));
	/* An event of one device is not recorded on another, but waited for there. */
	IS(cudaEventRecord(e, zero), cudaErrorInvalidResourceHandle);
	push(0, 'x');
	OK(cudaEventRecord(e, 0));
	OK(cudaStreamWaitEvent(zero, e, 0));
	push(zero, 'y');
	OK(cudaStreamSynchronize(zero));
	CHECK(strcmp(trace, "xy") == 0);
}

static void *wait_thread(void *arg)
{
	OK(cudaStreamSynchronize(arg));
	return NULL;
}

/* A thread that waits for a word does not keep others out. */
static void role_threads(void)
{
	cudaStream_t a = stream(cudaStreamNonBlocking), b = stream(cudaStreamNonBlocking);
	volatile uint64_t *word;
	pthread_t t;

	OK(cudaMallocHost((void **)&word, 8));
	*word = 0;
	IS(DRIVER(cuStreamWaitValue64)(a, (CUdeviceptr)(uintptr_t)word, 3,
				       CU_STREAM_WAIT_VALUE_GEQ),
	   CUDA_SUCCESS);
	push(a, 'a');
	CHECK(pthread_create(&t, NULL, wait_thread, a) == 0);
	usleep(20000);
	push(b, 'b');
	OK(cudaStreamSynchronize(b));
	CHECK(strcmp(trace, "b") == 0);
	*word = 2;
	usleep(20000);
	CHECK(strcmp(trace, "b") == 0);
	IS(DRIVER(cuStreamWriteValue64)(b, (CUdeviceptr)(uintptr_t)word, 4, 0), CUDA_SUCCESS);
	OK(cudaStreamSynchronize(b));
	CHECK(pthread_join(t, NULL) == 0);
	IS(*word, 4);
	CHECK(strcmp(trace, "ba") == 0);
	uint64_t unpinned = 0;
	IS(DRIVER(cuStreamWaitValue64)(a, (CUdeviceptr)(uintptr_t)&unpinned, 3, 0),
	   CUDA_ERROR_INVALID_VALUE);
}

static void test_lazy(void **state)
{
	assert_int_equal(child_run_seeds("lazy", NULL), 0);
}

/* The same seed gives the same order, another seed another one, and no order is favoured. */
static void test_free_order(void **state)
{
	const char *seed1[] = {"CUDASIM_SEED=1", NULL}, *seed2[] = {"CUDASIM_SEED=2", NULL};
	char first[64], again[64], other[64];

	assert_int_equal(child_run("free_order", seed1), 0);
	child_said_word("trace ", first, sizeof(first));
	assert_int_equal(child_run("free_order", seed1), 0);
	child_said_word("trace ", again, sizeof(again));
	assert_int_equal(child_run("free_order", seed2), 0);
	child_said_word("trace ", other, sizeof(other));
	assert_string_equal(first, again);
	assert_string_not_equal(first, other);
	assert_string_not_equal(first, "abababababababababababab");
}

static void test_event_order(void **state)
{
	assert_int_equal(child_run_seeds("event_order", NULL), 0);
}

static void test_legacy(void **state)
{
	char seed[32];
	const char *env[] = {seed, NULL};
	uint32_t early = 0;

	assert_int_equal(child_run_seeds("legacy", NULL), 0);
	for (int i = 1; i <= 8; i++) {
		snprintf(seed, sizeof(seed), "CUDASIM_SEED=%d", i);
		assert_int_equal(child_run("legacy", env), 0);
		early += child_said("trace Ln");
	}
	assert_in_range(early, 1, 7);
}

static void test_host(void **state)
{
	assert_int_equal(child_run_seeds("host", NULL), 0);
}

static void test_devices(void **state)
{
	assert_int_equal(child_run_seeds("devices", NULL), 0);
}

static void test_threads(void **state)
{
	assert_int_equal(child_run_seeds("threads", NULL), 0);
}

static const struct child_role roles[] = {
	{"lazy", role_lazy},	   {"free_order", role_free_order},
	{"legacy", role_legacy},   {"event_order", role_event_order},
	{"host", role_host},	   {"devices", role_devices},
	{"threads", role_threads}, {NULL, NULL},
};

CHILD_MAIN(cudasim_rt_stream, roles, cmocka_unit_test(test_lazy), cmocka_unit_test(test_free_order),
	   cmocka_unit_test(test_event_order), cmocka_unit_test(test_legacy),
	   cmocka_unit_test(test_host), cmocka_unit_test(test_devices),
	   cmocka_unit_test(test_threads))
