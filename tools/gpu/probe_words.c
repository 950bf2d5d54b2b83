/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Do 64-bit words in a memfd, registered with CUDA, order streams of several processes? Asked: a
 * stream's write seen by the host and by another process; a stream's wait released by a store of
 * the host, and of another process; both recorded in a graph, twice launched.
 *
 * Words only rise, each by one writer. The host's polls also ask the stream, so that work goes on.
 */
#include "tools/gpu/probe.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define WORDS_BYTES 4096u
#define WAIT_MS 3000.0
#define ROUNDS 20

enum { WRITTEN, WAITED, AFTER, PEER_WAITED, PEER_AFTER, GRAPH_WAITED, GRAPH_AFTER };

struct words {
	volatile uint64_t *host;
	CUdeviceptr device;
	cudaStream_t stream;
};

static int words_init(struct words *w, int fd)
{
	void *device;
	void *map = mmap(NULL, WORDS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		probe_fail("mmap: %s", strerror(errno));
	cudaError_t e = cudaHostRegister(map, WORDS_BYTES,
					 cudaHostRegisterMapped | cudaHostRegisterPortable);
	if (e != cudaSuccess)
		probe_impossible("cudaHostRegister of a memfd: %s", cudaGetErrorString(e));
	probe_check(cudaHostGetDevicePointer(&device, map, 0), "cudaHostGetDevicePointer");
	probe_check(cudaStreamCreateWithFlags(&w->stream, cudaStreamNonBlocking), "a stream");
	w->host = map;
	w->device = (CUdeviceptr)(uintptr_t)device;
	return 0;
}

static CUresult write_word(struct words *w, int word, uint64_t value)
{
	return PROBE_DRIVER(cuStreamWriteValue64)(w->stream, w->device + 8u * (unsigned)word, value,
						  0);
}

static CUresult wait_word(struct words *w, int word, uint64_t value)
{
	return PROBE_DRIVER(cuStreamWaitValue64)(w->stream, w->device + 8u * (unsigned)word, value,
						 CU_STREAM_WAIT_VALUE_GEQ);
}

/* How long until the word has the value, or -1. */
static double poll_ms(struct words *w, int word, uint64_t value)
{
	double start = probe_now_ms();

	while (w->host[word] < value) {
		cudaError_t e = cudaStreamQuery(w->stream);

		if (e != cudaSuccess && e != cudaErrorNotReady)
			probe_check(e, "the stream");
		if (probe_now_ms() - start > WAIT_MS)
			return -1;
	}
	return probe_now_ms() - start;
}

/* Waits for PEER_WAITED on its own stream, then writes PEER_AFTER. */
static int peer(int sock)
{
	struct probe_message m;
	struct words w;
	int fd;

	probe_begin();
	if (!probe_receive(sock, &m, &fd))
		return 1;
	words_init(&w, fd);
	probe_check_driver(wait_word(&w, PEER_WAITED, 1), "a wait");
	probe_check_driver(write_word(&w, PEER_AFTER, 1), "a write");
	probe_send(sock, &m, -1);
	m.ms = poll_ms(&w, PEER_AFTER, 1);
	if (m.ms < 0)
		w.host[PEER_WAITED] = 1; /* or CUDA never ends */
	probe_check(cudaStreamSynchronize(w.stream), "the stream");
	probe_send(sock, &m, -1);
	return 0;
}

static void ask_write(struct words *w)
{
	CUresult e = write_word(w, WRITTEN, 1);

	if (e != CUDA_SUCCESS)
		probe_impossible("cuStreamWriteValue64: %s", probe_driver_error(e));
	double best = poll_ms(w, WRITTEN, 1);
	if (best < 0)
		probe_fail("a stream's write of a registered word is not seen by the host");
	for (uint64_t i = 2; i < 2 + ROUNDS; i++) {
		probe_check_driver(write_word(w, WRITTEN, i), "a write");
		double ms = poll_ms(w, WRITTEN, i);
		best = ms < best ? ms : best;
	}
	probe_finding("a stream's 64-bit write of a registered memfd word is seen by plain loads");
	probe_figure(1e3 * best, "us", "from the call to the host's load, best of %d", ROUNDS + 1);
}

static void ask_wait(struct words *w)
{
	double best = WAIT_MS;

	for (uint64_t i = 1; i <= ROUNDS; i++) {
		CUresult e = wait_word(w, WAITED, i);
		if (e != CUDA_SUCCESS) {
			probe_part_impossible("cuStreamWaitValue64: %s", probe_driver_error(e));
			return;
		}
		probe_check_driver(write_word(w, AFTER, i), "a write");
		if (cudaStreamQuery(w->stream) != cudaErrorNotReady || w->host[AFTER] >= i)
			probe_fail("a stream did not wait for its word");
		w->host[WAITED] = i;
		double ms = poll_ms(w, AFTER, i);
		if (ms < 0)
			probe_fail("a host's store does not release a stream that waits");
		best = ms < best ? ms : best;
	}
	probe_finding("a stream's wait is released by the host's store");
	probe_figure(1e3 * best, "us", "from the store to the stream's next write, best of %d",
		     ROUNDS);
}

static void ask_peer(struct words *w, int fd)
{
	struct probe_message m = {0};
	struct probe_child c = probe_spawn("peer");

	probe_send(c.sock, &m, fd);
	probe_expect(&c, &m, NULL);
	probe_check_driver(write_word(w, PEER_WAITED, 1), "a write");
	(void)cudaStreamSynchronize(w->stream);
	probe_expect(&c, &m, NULL);
	probe_finish(&c);
	probe_finding("a wait in one process, released by a stream's write in another: %s",
		      m.ms < 0 ? "NOT released" : "goes on");
}

static void ask_graph(struct words *w)
{
	cudaGraph_t graph;
	cudaGraphExec_t exec;

	probe_check(cudaStreamBeginCapture(w->stream, cudaStreamCaptureModeThreadLocal), "capture");
	CUresult wait = wait_word(w, GRAPH_WAITED, 1), write = write_word(w, GRAPH_AFTER, 1);
	cudaError_t e = cudaStreamEndCapture(w->stream, &graph);
	if (wait != CUDA_SUCCESS || write != CUDA_SUCCESS || e != cudaSuccess) {
		(void)cudaGetLastError();
		probe_part_impossible("in a graph: wait %s, write %s, capture %s",
				      probe_driver_error(wait), probe_driver_error(write),
				      cudaGetErrorName(e));
		return;
	}
	e = cudaGraphInstantiate(&exec, graph, 0);
	for (int i = 0; i < 2 && e == cudaSuccess; i++) {
		w->host[GRAPH_WAITED] = 0; /* idle: the word is ours */
		w->host[GRAPH_AFTER] = 0;
		e = cudaGraphLaunch(exec, w->stream);
		if (e != cudaSuccess)
			break;
		if (cudaStreamQuery(w->stream) != cudaErrorNotReady || w->host[GRAPH_AFTER])
			probe_fail("a graph did not wait for its word");
		w->host[GRAPH_WAITED] = 1;
		if (poll_ms(w, GRAPH_AFTER, 1) < 0)
			probe_fail("a host's store does not release a graph that waits");
		e = cudaStreamSynchronize(w->stream);
	}
	probe_finding("waits and writes recorded in a graph, launched twice: %s",
		      e == cudaSuccess ? "hold" : cudaGetErrorName(e));
}

static int lead(void)
{
	struct words w;
	int fd = memfd_create("words", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, WORDS_BYTES) < 0)
		probe_fail("memfd_create: %s", strerror(errno));
	probe_begin();
	words_init(&w, fd);
	ask_write(&w);
	ask_wait(&w);
	ask_peer(&w, fd);
	ask_graph(&w);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct probe_role roles[] = {{"peer", peer}, {NULL, NULL}};

	return probe_main(argc, argv, roles, lead);
}
