/* SPDX-License-Identifier: Apache-2.0 */
/* Captures and graphs: what becomes a node, what breaks a capture, when a node touches memory. */
#include "tests/cudasim/sim.h"
#include "tests/cudasim/tests/child.h"
#include "tests/test.h"
#include <pthread.h>

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

static cudaError_t push(cudaStream_t s, char letter)
{
	return sim_stream_push(s, &(struct sim_work){.run = mark,
						     .drop = mark_drop,
						     .arg = (void *)(uintptr_t)letter,
						     .name = "mark"});
}

static cudaStream_t stream(void)
{
	cudaStream_t s;

	OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	return s;
}

static cudaGraphExec_t finish(cudaStream_t s)
{
	cudaGraph_t g;
	cudaGraphExec_t x;

	OK(cudaStreamEndCapture(s, &g));
	OK(cudaGraphInstantiate(&x, g, 0));
	OK(cudaGraphDestroy(g));
	return x;
}

static void begin(cudaStream_t s, enum cudaStreamCaptureMode mode)
{
	OK(cudaStreamBeginCapture(s, mode));
}

/* Captured work runs at each launch, never before, and is dropped once. */
static void role_replay(void)
{
	cudaStream_t s = stream();
	enum cudaStreamCaptureStatus status;
	cudaGraphExec_t x;
	size_t count = 0;
	cudaGraph_t g;

	begin(s, cudaStreamCaptureModeThreadLocal);
	OK(cudaStreamIsCapturing(s, &status));
	IS(status, cudaStreamCaptureStatusActive);
	IS(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed), cudaErrorIllegalState);
	OK(push(s, 'a'));
	OK(push(s, 'b'));
	OK(cudaLaunchHostFunc(s, mark, (void *)'h'));
	OK(cudaStreamEndCapture(s, &g));
	OK(cudaDeviceSynchronize());
	IS(traced, 0);
	OK(cudaGraphGetNodes(g, NULL, &count));
	IS(count, 3);
	OK(cudaGraphInstantiate(&x, g, 0));
	OK(cudaGraphUpload(x, s));
	OK(cudaGraphDestroy(g));
	IS(cudaGraphInstantiate(&x, g, 0), cudaErrorInvalidValue);
	OK(cudaGraphLaunch(x, s));
	OK(push(s, 'z'));
	OK(cudaGraphLaunch(x, s));
	IS(traced, 0);
	OK(cudaGraphExecDestroy(x));
	IS(cudaGraphLaunch(x, s), cudaErrorInvalidValue);
	IS(dropped, 0);
	OK(cudaStreamSynchronize(s));
	CHECK(strcmp(trace, "abhzabh") == 0);
	IS(dropped, 3);
	IS(cudaStreamEndCapture(s, &g), cudaErrorIllegalState);
	CHECK(!g);
	IS(cudaStreamBeginCapture(0, cudaStreamCaptureModeRelaxed),
	   cudaErrorStreamCaptureUnsupported);
}

/* a, then b and c side by side in two streams, then d. */
static void role_fork_join(void)
{
	cudaStream_t s = stream(), t = stream();
	cudaEvent_t fork, join;

	OK(cudaEventCreate(&fork));
	OK(cudaEventCreate(&join));
	begin(s, cudaStreamCaptureModeThreadLocal);
	OK(push(s, 'a'));
	OK(cudaEventRecord(fork, s));
	OK(cudaStreamWaitEvent(t, fork, 0));
	for (int i = 0; i < 5; i++) {
		OK(push(s, 'b'));
		OK(push(t, 'c'));
	}
	OK(cudaEventRecord(join, t));
	OK(cudaStreamWaitEvent(s, join, 0));
	OK(push(s, 'd'));
	IS(cudaEventQuery(join), cudaErrorCapturedEvent);
	cudaGraph_t g;
	IS(cudaStreamEndCapture(t, &g), cudaErrorStreamCaptureUnmatched);
	IS(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated);
	/* Once more, without the question. */
	begin(s, cudaStreamCaptureModeThreadLocal);
	OK(push(s, 'a'));
	OK(cudaEventRecord(fork, s));
	OK(cudaStreamWaitEvent(t, fork, 0));
	for (int i = 0; i < 5; i++) {
		OK(push(s, 'b'));
		OK(push(t, 'c'));
	}
	OK(cudaEventRecord(join, t));
	OK(cudaStreamWaitEvent(s, join, 0));
	OK(push(s, 'd'));
	cudaGraphExec_t x = finish(s);
	OK(cudaGraphLaunch(x, s));
	OK(cudaStreamSynchronize(s));
	IS(traced, 12);
	CHECK(trace[0] == 'a' && trace[11] == 'd');
	fprintf(stderr, "trace %s\n", trace);
	/* The stream that joined captures no more. */
	traced = 0;
	OK(push(t, 'e'));
	OK(cudaStreamSynchronize(t));
	IS(traced, 1);
	OK(cudaGraphExecDestroy(x));
}

static void broken(cudaStream_t s)
{
	enum cudaStreamCaptureStatus status;
	cudaGraph_t g = (cudaGraph_t)1;

	OK(cudaStreamIsCapturing(s, &status));
	IS(status, cudaStreamCaptureStatusInvalidated);
	IS(push(s, 'x'), cudaErrorStreamCaptureInvalidated);
	IS(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated);
	CHECK(!g);
	OK(cudaStreamIsCapturing(s, &status));
	IS(status, cudaStreamCaptureStatusNone);
	(void)cudaGetLastError();
}

static void *other_thread(void *arg)
{
	void *p;

	return (void *)(uintptr_t)cudaMalloc(&p, 64);
}

static cudaError_t elsewhere(void)
{
	pthread_t t;
	void *result;

	CHECK(pthread_create(&t, NULL, other_thread, NULL) == 0);
	CHECK(pthread_join(t, &result) == 0);
	return (cudaError_t)(uintptr_t)result;
}

static void role_forbidden(void)
{
	cudaStream_t s = stream(), t = stream(), blocking;
	cudaEvent_t outside;
	void *p, *q;

	OK(cudaMalloc(&q, 64));
	OK(cudaStreamCreate(&blocking));
	OK(cudaEventCreate(&outside));
	OK(cudaEventRecord(outside, t));
	begin(s, cudaStreamCaptureModeThreadLocal);
	IS(cudaMalloc(&p, 64), cudaErrorStreamCaptureUnsupported);
	broken(s);
	begin(s, cudaStreamCaptureModeThreadLocal);
	IS(cudaFree(q), cudaErrorStreamCaptureUnsupported);
	broken(s);
	begin(s, cudaStreamCaptureModeThreadLocal);
	IS(cudaMemcpy(&p, q, 8, cudaMemcpyDefault), cudaErrorStreamCaptureUnsupported);
	broken(s);
	begin(s, cudaStreamCaptureModeThreadLocal);
	IS(cudaStreamSynchronize(t), cudaErrorStreamCaptureUnsupported);
	broken(s);
	begin(s, cudaStreamCaptureModeThreadLocal);
	IS(cudaEventQuery(outside), cudaErrorStreamCaptureUnsupported);
	broken(s);
	begin(s, cudaStreamCaptureModeThreadLocal);
	OK(elsewhere());
	IS(cudaStreamWaitEvent(s, outside, 0), cudaErrorStreamCaptureIsolation);
	broken(s);
	begin(s, cudaStreamCaptureModeGlobal);
	IS(elsewhere(), cudaErrorStreamCaptureUnsupported);
	broken(s);
	/* Relaxed: allocation is allowed, waiting for the capture is not. */
	begin(s, cudaStreamCaptureModeRelaxed);
	OK(cudaMalloc(&p, 64));
	OK(cudaStreamSynchronize(t));
	IS(cudaStreamSynchronize(s), cudaErrorStreamCaptureUnsupported);
	broken(s);
	begin(s, cudaStreamCaptureModeRelaxed);
	IS(cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported);
	broken(s);
	begin(s, cudaStreamCaptureModeRelaxed);
	OK(push(0, 'o'));
	(void)finish(s);
	begin(blocking, cudaStreamCaptureModeRelaxed);
	IS(push(0, 'o'), cudaErrorStreamCaptureImplicit);
	broken(blocking);
	OK(cudaDeviceSynchronize());
	CHECK(strcmp(trace, "o") == 0);
}

static void role_unjoined(void)
{
	cudaStream_t s = stream(), t = stream(), u = stream();
	cudaEvent_t e, f;
	cudaGraph_t g;

	OK(cudaEventCreate(&e));
	OK(cudaEventCreate(&f));
	begin(s, cudaStreamCaptureModeRelaxed);
	OK(push(s, 'a'));
	OK(cudaEventRecord(e, s));
	OK(cudaStreamWaitEvent(t, e, 0));
	OK(push(t, 'b'));
	OK(push(s, 'c'));
	IS(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureUnjoined);
	CHECK(!g);
	IS(cudaStreamWaitEvent(t, e, 0), cudaErrorCapturedEvent);
	begin(s, cudaStreamCaptureModeRelaxed);
	begin(u, cudaStreamCaptureModeRelaxed);
	OK(cudaEventRecord(f, u));
	IS(cudaStreamWaitEvent(s, f, 0), cudaErrorStreamCaptureMerge);
	broken(s);
	broken(u);
}

/* Sources are read when the launch gets there, pageable ones too; an update swaps the nodes. */
static void role_sources(void)
{
	uint8_t pageable[16] = {1}, other[16] = {4}, back[16] = {0}, *d;
	cudaStream_t s = stream();
	cudaGraphExecUpdateResultInfo info;
	cudaGraph_t g;

	OK(cudaMalloc((void **)&d, 16));
	begin(s, cudaStreamCaptureModeThreadLocal);
	OK(cudaMemsetAsync(d, 8, 16, s));
	OK(cudaMemcpyAsync(d, pageable, 4, cudaMemcpyHostToDevice, s));
	OK(cudaMemcpyAsync(back, d, 16, cudaMemcpyDeviceToHost, s));
	cudaGraphExec_t x = finish(s);
	pageable[0] = 2;
	OK(cudaGraphLaunch(x, s));
	IS(back[0], 0);
	pageable[0] = 3;
	OK(cudaStreamSynchronize(s));
	IS(back[0], 3);
	IS(back[4], 8);
	begin(s, cudaStreamCaptureModeThreadLocal);
	OK(cudaMemsetAsync(d, 9, 16, s));
	OK(cudaMemcpyAsync(d, other, 4, cudaMemcpyHostToDevice, s));
	OK(cudaMemcpyAsync(back, d, 16, cudaMemcpyDeviceToHost, s));
	OK(cudaStreamEndCapture(s, &g));
	/* On its way it keeps what it began with. */
	OK(cudaGraphLaunch(x, s));
	OK(cudaGraphExecUpdate(x, g, &info));
	OK(cudaStreamSynchronize(s));
	IS(back[4], 8);
	OK(cudaGraphLaunch(x, s));
	OK(cudaStreamSynchronize(s));
	IS(back[0], 4);
	IS(back[4], 9);
	OK(cudaGraphDestroy(g));
	begin(s, cudaStreamCaptureModeThreadLocal);
	OK(cudaMemsetAsync(d, 9, 16, s));
	OK(cudaMemsetAsync(d, 9, 16, s));
	OK(cudaMemsetAsync(d, 9, 16, s));
	OK(cudaStreamEndCapture(s, &g));
	IS(cudaGraphExecUpdate(x, g, &info), cudaErrorGraphExecUpdateFailure);
	IS(info.result, cudaGraphExecUpdateErrorNodeTypeChanged);
	OK(cudaGraphDestroy(g));
	begin(s, cudaStreamCaptureModeThreadLocal);
	OK(cudaStreamEndCapture(s, &g));
	IS(cudaGraphExecUpdate(x, g, &info), cudaErrorGraphExecUpdateFailure);
	IS(info.result, cudaGraphExecUpdateErrorTopologyChanged);
	/* A graph without nodes can be launched. */
	cudaGraphExec_t empty;
	OK(cudaGraphInstantiate(&empty, g, 0));
	OK(cudaGraphLaunch(empty, s));
	OK(cudaStreamSynchronize(s));
}

/* Two launches of one executable never mix, in whatever streams; a word may gate a node. */
static void role_serial(void)
{
	cudaStream_t s = stream(), t = stream();
	uint64_t *word;

	OK(cudaMallocHost((void **)&word, 8));
	*word = 0;
	begin(s, cudaStreamCaptureModeThreadLocal);
	OK(push(s, '('));
	IS(DRIVER(cuStreamWaitValue64)(s, (CUdeviceptr)(uintptr_t)word, 1, 0), CUDA_SUCCESS);
	OK(push(s, '.'));
	OK(push(s, ')'));
	cudaGraphExec_t x = finish(s);
	for (int i = 0; i < 4; i++) {
		OK(cudaGraphLaunch(x, s));
		OK(cudaGraphLaunch(x, t));
	}
	for (int i = 0; i < 20; i++)
		IS(cudaStreamQuery(s), cudaErrorNotReady);
	CHECK(strcmp(trace, "(") == 0);
	*word = 1;
	OK(cudaDeviceSynchronize());
	CHECK(strcmp(trace, "(.)(.)(.)(.)(.)(.)(.)(.)") == 0);
}

#define TEST(name)                                                                                 \
	static void test_##name(void **state)                                                      \
	{                                                                                          \
		assert_int_equal(child_run_seeds(#name, NULL), 0);                                 \
	}
TEST(replay)
TEST(forbidden)
TEST(unjoined)
TEST(sources)
TEST(serial)

static void test_fork_join(void **state)
{
	const char *seeds[2][2] = {{"CUDASIM_SEED=1", NULL}, {"CUDASIM_SEED=20260", NULL}};
	char order[2][32];

	for (int i = 0; i < 2; i++) {
		assert_int_equal(child_run("fork_join", seeds[i]), 0);
		child_said_word("trace ", order[i], sizeof(order[i]));
	}
	assert_string_not_equal(order[0], order[1]);
}

static const struct child_role roles[] = {
	{"replay", role_replay},
	{"fork_join", role_fork_join},
	{"forbidden", role_forbidden},
	{"unjoined", role_unjoined},
	{"sources", role_sources},
	{"serial", role_serial},
	{NULL, NULL},
};

CHILD_MAIN(cudasim_rt_graph, roles, cmocka_unit_test(test_replay), cmocka_unit_test(test_fork_join),
	   cmocka_unit_test(test_forbidden), cmocka_unit_test(test_unjoined),
	   cmocka_unit_test(test_sources), cmocka_unit_test(test_serial))
