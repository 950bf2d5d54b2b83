/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What outlives the process that made a slab? An exporter gives a handle and a descriptor away and
 * is killed. Asked then: do maps made before still read right, can the handle be opened again (in a
 * process that has it open, in a new one, when nobody has it open any more), can the descriptor
 * be imported, and does the memory stay taken until the last map is gone.
 */
#include "tools/gpu/probe.h"
#include <unistd.h>

enum { HANDLE_BYTE = 0x5a, DESCRIPTOR_BYTE = 0xa5 };
enum { OPEN, LOOK, OPEN_AGAIN, CLOSE }; /* to an importer */

static int exporter(int sock)
{
	struct probe_message m = {0};
	struct probe_vmm v;
	void *slab;
	int fd = -1;

	probe_begin();
	probe_check(cudaMalloc(&slab, PROBE_SLAB_BYTES), "cudaMalloc");
	probe_check(cudaMemset(slab, HANDLE_BYTE, PROBE_SLAB_BYTES), "cudaMemset");
	m.error = (int32_t)cudaIpcGetMemHandle(&m.handle, slab);
	if (m.error)
		probe_impossible("cudaIpcGetMemHandle: %s", cudaGetErrorName((cudaError_t)m.error));
	if (!probe_vmm_obstacle() && probe_vmm_new(PROBE_SLAB_BYTES, &v, &fd) == 0)
		probe_check(cudaMemset((void *)(uintptr_t)v.at, DESCRIPTOR_BYTE, v.bytes),
			    "cudaMemset");
	probe_check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
	probe_send(sock, &m, fd);
	(void)probe_receive(sock, &m, NULL);
	return 0;
}

/* Replies: error of what was asked, value 1 if the bytes are right. */
static int importer(int sock)
{
	struct probe_message m;
	void *first = NULL, *second = NULL;
	cudaError_t e;

	probe_begin();
	while (probe_receive(sock, &m, NULL)) {
		e = cudaSuccess;
		m.value = 0;
		if (m.word == OPEN)
			e = cudaIpcOpenMemHandle(&first, m.handle, cudaIpcMemLazyEnablePeerAccess);
		else if (m.word == OPEN_AGAIN)
			e = cudaIpcOpenMemHandle(&second, m.handle, cudaIpcMemLazyEnablePeerAccess);
		else if (m.word == CLOSE && second)
			(void)cudaIpcCloseMemHandle(second);
		if (m.word == CLOSE)
			e = cudaIpcCloseMemHandle(first);
		else if (e == cudaSuccess)
			m.value = probe_is_filled(m.word == OPEN_AGAIN ? second : first,
						  HANDLE_BYTE, &e);
		m.error = (int32_t)e;
		(void)cudaGetLastError();
		probe_send(sock, &m, -1);
	}
	return 0;
}

static int descriptor(int sock)
{
	struct probe_message m;
	struct probe_vmm v;
	cudaError_t e = cudaSuccess;
	int fd;

	probe_begin();
	if (!probe_receive(sock, &m, &fd))
		return 1;
	m.later =
		(int32_t)probe_vmm_import(fd, PROBE_SLAB_BYTES, CU_MEM_ACCESS_FLAGS_PROT_READ, &v);
	if (m.later == CUDA_SUCCESS)
		m.value = probe_is_filled((void *)(uintptr_t)v.at, DESCRIPTOR_BYTE, &e);
	m.error = (int32_t)e;
	probe_send(sock, &m, -1);
	return 0;
}

static struct probe_message ask(struct probe_child *c, uint32_t word,
				const struct probe_message *of)
{
	struct probe_message m = *of;

	m.word = word;
	probe_send(c->sock, &m, -1);
	probe_expect(c, &m, NULL);
	return m;
}

static const char *words(const struct probe_message *m)
{
	if (m->error)
		return cudaGetErrorName((cudaError_t)m->error);
	return m->value ? "right" : "WRONG BYTES";
}

static double free_mib(void)
{
	size_t room, total;

	probe_check(cudaMemGetInfo(&room, &total), "cudaMemGetInfo");
	return (double)room / (1 << 20);
}

static void ask_descriptor(int fd)
{
	struct probe_message m = {0};

	if (fd < 0) {
		probe_part_impossible("a descriptor: %s", probe_vmm_obstacle());
		return;
	}
	struct probe_child c = probe_spawn("descriptor");
	probe_send(c.sock, &m, fd);
	probe_expect(&c, &m, NULL);
	probe_finish(&c);
	probe_finding("after the exporter's death its descriptor, imported by a new process: %s",
		      m.later ? probe_driver_error((CUresult)m.later) : words(&m));
}

static int lead(void)
{
	struct probe_message slab, m;
	int fd;

	probe_begin();
	struct probe_child owner = probe_spawn("exporter"), old = probe_spawn("importer"),
			   young = probe_spawn("importer");
	probe_expect(&owner, &slab, &fd);
	m = ask(&old, OPEN, &slab);
	if (m.error || !m.value)
		probe_fail("the handle of a living process: %s", words(&m));
	probe_kill(&owner);
	m = ask(&old, LOOK, &slab);
	probe_finding("after the exporter's death, through a map made before: %s", words(&m));
	m = ask(&old, OPEN_AGAIN, &slab);
	probe_finding("its handle opened again where it is open: %s", words(&m));
	m = ask(&young, OPEN, &slab);
	probe_finding("its handle opened in another process while one has it open: %s", words(&m));
	bool both = !m.error;
	double before = free_mib();
	(void)ask(&old, CLOSE, &slab);
	if (both)
		(void)ask(&young, CLOSE, &slab);
	probe_figure(free_mib() - before, "MiB", "given back by the last close, of %llu",
		     PROBE_SLAB_BYTES >> 20);
	m = ask(&young, OPEN, &slab);
	probe_finding("its handle opened when nobody has it open any more: %s", words(&m));
	ask_descriptor(fd);
	probe_finish(&old);
	probe_finish(&young);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct probe_role roles[] = {{"exporter", exporter},
						  {"importer", importer},
						  {"descriptor", descriptor},
						  {NULL, NULL}};

	return probe_main(argc, argv, roles, lead);
}
