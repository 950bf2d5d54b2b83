/* SPDX-License-Identifier: Apache-2.0 */
/* Faults on demand, sticky errors, faults of work, and waits that nobody ends. */
#include "tests/cudasim/sim.h"
#include "tests/cudasim/tests/child.h"
#include "tests/test.h"
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static uint32_t ran, resets;

static void run(void *arg)
{
	ran++;
}

static cudaError_t push(cudaStream_t s, void (*work)(void *arg))
{
	return sim_stream_push(s, &(struct sim_work){.run = work, .name = "kernel"});
}

static void role_fail(void)
{
	void *p;

	OK(cudaMalloc(&p, 64));
	OK(cudaMalloc(&p, 64));
	IS(cudaMalloc(&p, 64), cudaErrorMemoryAllocation);
	IS(cudaGetLastError(), cudaErrorMemoryAllocation);
	OK(cudaMalloc(&p, 64));
	IS(sim_count("call.malloc"), 4);
	OK(push(0, run));
	IS(push(0, run), cudaErrorLaunchFailure);
	/* The injected error is of the sticky kind: what was queued is gone, and all calls fail. */
	IS(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
	IS(cudaMalloc(&p, 64), cudaErrorLaunchFailure);
	/* Nor does it run while another device is waited for. */
	OK(cudaSetDevice(1));
	OK(push(0, run));
	OK(cudaDeviceSynchronize());
	IS(ran, 1);
}

static void role_delay(void)
{
	void *p;
	int polls = 0;

	OK(cudaMalloc(&p, 64));
	OK(cudaMemset(p, 0, 64));
	while (cudaStreamQuery(0) == cudaErrorNotReady)
		polls++;
	fprintf(stderr, "polls %d\n", polls);
}

static void *hang_thread(void *arg)
{
	void *p;

	(void)cudaMalloc(&p, 64);
	_exit(1);
}

/* The call never returns; other threads' do. */
static void role_hang(void)
{
	pthread_t t;
	void *p;

	CHECK(pthread_create(&t, NULL, hang_thread, NULL) == 0);
	while (sim_count("call.malloc") == 0)
		usleep(1000);
	usleep(20000);
	OK(cudaMalloc(&p, 64));
	OK(cudaMemset(p, 0, 64));
	OK(cudaDeviceSynchronize());
	_exit(0);
}

static void role_die(void)
{
	for (int i = 0; i < 5; i++)
		OK(push(0, run));
	(void)cudaDeviceSynchronize();
}

static void touch(void *arg)
{
	*(volatile uint8_t *)(uintptr_t)getpagesize() = 1;
}

static void touch_open(void *arg)
{
	sim_memory_open();
	touch(arg);
}

static void reset(void)
{
	resets++;
}

static void role_illegal(void)
{
	cudaStream_t s;
	cudaEvent_t e;

	sim_on_fault(reset);
	OK(cudaStreamCreate(&s));
	OK(cudaEventCreate(&e));
	OK(push(s, run));
	OK(push(s, touch));
	OK(push(s, run));
	OK(cudaEventRecord(e, s));
	IS(cudaEventSynchronize(e), cudaErrorIllegalAddress);
	IS(ran, 1);
	IS(resets, 1);
	IS(cudaStreamSynchronize(s), cudaErrorIllegalAddress);
	IS(cudaEventQuery(e), cudaErrorIllegalAddress);
	IS(push(s, run), cudaErrorIllegalAddress);
	IS(cudaPeekAtLastError(), cudaErrorIllegalAddress);
	/* Memory is closed again, and a program may end in order. */
	IS(sim_count("faults"), 1);
	/* What the work had opened is closed, and opens again for other work. */
	void *p;
	OK(cudaSetDevice(1));
	OK(push(0, touch_open));
	IS(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
	OK(cudaSetDevice(2));
	OK(cudaMalloc(&p, 64));
	OK(cudaMemset(p, 1, 64));
	OK(cudaDeviceSynchronize());
}

static void stop(void *arg)
{
	sim_abort_work(cudaErrorMisalignedAddress, "at block 3");
}

static void complain(void *arg)
{
	sim_error_sticky(cudaErrorAssert, "an assertion");
}

static void role_abort(void)
{
	OK(push(0, stop));
	IS(cudaDeviceSynchronize(), cudaErrorMisalignedAddress);
	OK(cudaSetDevice(1));
	OK(push(0, complain));
	OK(push(0, run));
	IS(cudaDeviceSynchronize(), cudaErrorAssert);
	IS(ran, 0);
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* A word in private device memory: nobody else can write it, so the wait is given up soon. */
static void role_deadlock(void)
{
	bool shared = getenv("SHARED") != NULL;
	void *word;
	uint64_t start = now_ms();

	if (shared)
		OK(cudaMallocHost(&word, 8));
	else
		OK(cudaMalloc(&word, 8));
	OK(cudaMemset(word, 0, 8));
	IS(DRIVER(cuStreamWaitValue64)(0, (CUdeviceptr)(uintptr_t)word, 41, 0), CUDA_SUCCESS);
	OK(push(0, run));
	IS(cudaDeviceSynchronize(), cudaErrorLaunchTimeout);
	uint64_t took = now_ms() - start;
	CHECK(shared ? took >= 1000 : took >= 50 && took < 900);
	IS(ran, 0);
	IS(sim_count("deadlocks"), 1);
}

static void test_fail(void **state)
{
	const char *env[] = {"CUDASIM_FAIL=malloc:3=2,launch:2=719", NULL};
	const char *wrong[] = {"CUDASIM_FAIL=nonsense:1", NULL};

	assert_int_equal(child_run("fail", env), 0);
	assert_int_equal(child_run("fail", wrong), 2);
	assert_true(child_said("cannot be understood"));
}

static void test_delay(void **state)
{
	const char *env[] = {"CUDASIM_DELAY=memset:0=80", NULL};
	char polls[16];

	assert_int_equal(child_run("delay", NULL), 0);
	assert_true(child_said("polls 0"));
	assert_int_equal(child_run("delay", env), 0);
	child_said_word("polls ", polls, sizeof(polls));
	assert_in_range(atoi(polls), 10, 80);
}

static void test_hang(void **state)
{
	const char *env[] = {"CUDASIM_HANG=malloc:1", NULL};

	assert_int_equal(child_run("hang", env), 0);
}

static void test_die(void **state)
{
	const char *third[] = {"CUDASIM_DIE=launch:3", NULL};
	const char *never[] = {"CUDASIM_DIE=launch:6", NULL};

	assert_int_equal(child_run("die", third), CHILD_SIGNAL + SIGKILL);
	assert_int_equal(child_run("die", never), 0);
}

static void test_sticky(void **state)
{
	const char *env[] = {"ASAN_OPTIONS=handle_segv=0", "CUDASIM_DEVICES=3", NULL};

	assert_int_equal(child_run_seeds("illegal", env), 0);
	assert_true(child_said("kernel: device work touched memory that it may not"));
	assert_int_equal(child_run_seeds("abort", NULL), 0);
	assert_true(child_said("at block 3"));
}

static void test_deadlock(void **state)
{
	const char *env[] = {"CUDASIM_WAIT_MS=1000", NULL};
	const char *shared[] = {"CUDASIM_WAIT_MS=1000", "SHARED=1", NULL};

	assert_int_equal(child_run("deadlock", env), 0);
	assert_true(child_said("to reach 41"));
	assert_int_equal(child_run("deadlock", shared), 0);
}

static const struct child_role roles[] = {
	{"fail", role_fail},	     {"delay", role_delay},
	{"hang", role_hang},	     {"die", role_die},
	{"illegal", role_illegal},   {"abort", role_abort},
	{"deadlock", role_deadlock}, {NULL, NULL},
};

CHILD_MAIN(cudasim_rt_fault, roles, cmocka_unit_test(test_fail), cmocka_unit_test(test_delay),
	   cmocka_unit_test(test_hang), cmocka_unit_test(test_die), cmocka_unit_test(test_sticky),
	   cmocka_unit_test(test_deadlock))
