/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What does a read-only mapping of an imported descriptor stop? Each way to read or write is tried
 * in a process of its own, for a fault ends what CUDA can do in it; the lead looks afterwards
 * whether the bytes are still those that it wrote.
 */
#include "tools/gpu/probe.h"
#include "tools/gpu/probe_kernels.h"
#include <stdlib.h>
#include <string.h>

enum { BYTE = 0x11, OTHER_BYTE = 0x22 };
#define BYTES 4096u

struct
try {
	void *map; /* read-only */
	void *own;
	cudaStream_t stream;
};

static cudaError_t copy_out(struct try *t)
{
	static unsigned char host[BYTES];

	return cudaMemcpyAsync(host, t->map, BYTES, cudaMemcpyDeviceToHost, t->stream);
}

static cudaError_t copy_from(struct try *t)
{
	return cudaMemcpyAsync(t->own, t->map, BYTES, cudaMemcpyDeviceToDevice, t->stream);
}

static cudaError_t copy_in(struct try *t)
{
	static unsigned char host[BYTES];

	memset(host, OTHER_BYTE, sizeof(host));
	return cudaMemcpyAsync(t->map, host, BYTES, cudaMemcpyHostToDevice, t->stream);
}

static cudaError_t copy_to(struct try *t)
{
	return cudaMemcpyAsync(t->map, t->own, BYTES, cudaMemcpyDeviceToDevice, t->stream);
}

static cudaError_t set(struct try *t)
{
	return cudaMemsetAsync(t->map, OTHER_BYTE, BYTES, t->stream);
}

static cudaError_t store(struct try *t)
{
	return probe_kernels_store(t->stream, t->map, OTHER_BYTE);
}

static const struct {
	const char *name;
	cudaError_t (*run)(struct try *t);
	bool graph;
} tries[] = {
	{"reads by a copy to the host", copy_out, false},
	{"reads by a copy on the device", copy_from, false},
	{"reads by a copy in a graph", copy_from, true},
	{"a copy from the host into it", copy_in, false},
	{"a copy on the device into it", copy_to, false},
	{"a copy into it in a graph", copy_to, true},
	{"a memset of it", set, false},
	{"a kernel's store", store, false},
	{"a kernel's store in a graph", store, true},
};
#define TRIES (sizeof(tries) / sizeof(tries[0]))

static cudaError_t in_graph(struct try *t, cudaError_t (*run)(struct try *t))
{
	cudaGraph_t graph;
	cudaGraphExec_t exec;
	cudaError_t e = cudaStreamBeginCapture(t->stream, cudaStreamCaptureModeThreadLocal);

	if (e == cudaSuccess)
		e = run(t);
	cudaError_t end = cudaStreamEndCapture(t->stream, &graph);
	if (e == cudaSuccess)
		e = end;
	if (e == cudaSuccess)
		e = cudaGraphInstantiate(&exec, graph, 0);
	return e == cudaSuccess ? cudaGraphLaunch(exec, t->stream) : e;
}

/* error: of the call or of the wait for it; later: of what is asked of CUDA next. */
static int child(int sock)
{
	struct probe_message m;
	struct probe_vmm v;
	struct try t;
	int fd;

	probe_begin();
	if (!probe_receive(sock, &m, &fd))
		return 1;
	probe_check_driver(
		probe_vmm_import(fd, PROBE_SLAB_BYTES, CU_MEM_ACCESS_FLAGS_PROT_READ, &v),
		"a read-only import");
	t.map = (void *)(uintptr_t)v.at;
	probe_check(cudaMalloc(&t.own, BYTES), "cudaMalloc");
	probe_check(cudaMemset(t.own, OTHER_BYTE, BYTES), "cudaMemset");
	probe_check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
	probe_check(cudaStreamCreateWithFlags(&t.stream, cudaStreamNonBlocking), "a stream");
	cudaError_t e =
		tries[m.word].graph ? in_graph(&t, tries[m.word].run) : tries[m.word].run(&t);
	m.value = e != cudaSuccess; /* refused by the call itself */
	if (e == cudaSuccess)
		e = cudaStreamSynchronize(t.stream);
	m.error = (int32_t)e;
	(void)cudaGetLastError();
	m.later = (int32_t)cudaMemset(t.own, 0, BYTES);
	probe_send(sock, &m, -1);
	/* No tidying: a context that faulted cannot. */
	return 0;
}

static void ask(uint32_t which, int fd, const void *slab)
{
	struct probe_child c = probe_spawn("child");
	struct probe_message m = {.word = which};
	cudaError_t e;

	probe_send(c.sock, &m, fd);
	probe_expect(&c, &m, NULL);
	probe_finish(&c);
	bool kept = probe_is_filled(slab, BYTE, &e);
	if (e != cudaSuccess)
		probe_fail("the owner's own map: %s", cudaGetErrorName(e));
	probe_finding("%s: %s%s%s; the bytes are %s", tries[which].name,
		      m.error ? cudaGetErrorName((cudaError_t)m.error) : "goes through",
		      m.error ? (m.value ? " by the call" : " by the wait") : "",
		      m.later ? ", and the context is lost" : "", kept ? "untouched" : "CHANGED");
	if (!kept)
		probe_check(cudaMemset((void *)(uintptr_t)slab, BYTE, BYTES), "cudaMemset");
}

static int lead(void)
{
	struct probe_vmm v;
	int fd;

	probe_begin();
	const char *obstacle = probe_vmm_obstacle();
	if (obstacle)
		probe_impossible("%s", obstacle);
	if (probe_vmm_new(PROBE_SLAB_BYTES, &v, &fd) < 0)
		probe_impossible("no memory can be made that travels as a descriptor");
	void *slab = (void *)(uintptr_t)v.at;
	probe_check(cudaMemset(slab, BYTE, BYTES), "cudaMemset");
	probe_check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
	for (uint32_t i = 0; i < TRIES; i++)
		ask(i, fd, slab);
	probe_vmm_free(&v);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct probe_role roles[] = {{"child", child}, {NULL, NULL}};

	return probe_main(argc, argv, roles, lead);
}
