/* SPDX-License-Identifier: Apache-2.0 */
/*
 * May a process that imported a slab pass it on? It asks for a handle of its imported pointer, and
 * a third process opens that. Also: what a handle of an interior pointer opens.
 */
#include "tools/gpu/probe.h"
#include <string.h>

enum { BYTE = 0x3c, HEAD_BYTE = 0x66 };

static int importer(int sock)
{
	struct probe_message m;
	cudaError_t e;
	void *slab;

	probe_begin();
	while (probe_receive(sock, &m, NULL)) {
		e = cudaIpcOpenMemHandle(&slab, m.handle, cudaIpcMemLazyEnablePeerAccess);
		m.value = 0;
		m.later = 0;
		if (e == cudaSuccess) {
			m.value = probe_is_filled(slab, (int)m.word, &e);
			m.later = (int32_t)cudaIpcGetMemHandle(&m.handle, slab);
		}
		m.error = (int32_t)e;
		(void)cudaGetLastError();
		probe_send(sock, &m, -1);
	}
	return 0;
}

static struct probe_message open_in(struct probe_child *c, const cudaIpcMemHandle_t *handle,
				    int byte)
{
	struct probe_message m = {.word = (uint32_t)byte, .handle = *handle};

	probe_send(c->sock, &m, -1);
	probe_expect(c, &m, NULL);
	return m;
}

static void pass_on(struct probe_child *second, struct probe_child *third,
		    const cudaIpcMemHandle_t *handle)
{
	struct probe_message m = open_in(second, handle, BYTE);

	if (m.error || !m.value)
		probe_fail("the slab cannot be imported: %s",
			   cudaGetErrorName((cudaError_t)m.error));
	if (m.later) {
		probe_finding("cudaIpcGetMemHandle of an imported pointer: %s",
			      cudaGetErrorName((cudaError_t)m.later));
		return;
	}
	const char *same = memcmp(&m.handle, handle, sizeof(*handle)) ? "another" : "the same";
	m = open_in(third, &m.handle, BYTE);
	probe_finding("an imported pointer gives %s handle; a third process opens it: %s", same,
		      m.error	? cudaGetErrorName((cudaError_t)m.error)
		      : m.value ? "right"
				: "WRONG BYTES");
}

static int lead(void)
{
	cudaIpcMemHandle_t handle, inner;
	char *slab, *other;

	probe_begin();
	probe_check(cudaMalloc((void **)&slab, PROBE_SLAB_BYTES), "cudaMalloc");
	probe_check(cudaMemset(slab, BYTE, PROBE_SLAB_BYTES), "cudaMemset");
	probe_check(cudaMalloc((void **)&other, PROBE_SLAB_BYTES), "cudaMalloc");
	probe_check(cudaMemset(other, BYTE, PROBE_SLAB_BYTES), "cudaMemset");
	probe_check(cudaMemset(other, HEAD_BYTE, PROBE_SLAB_BYTES / 2), "cudaMemset");
	probe_check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
	cudaError_t e = cudaIpcGetMemHandle(&handle, slab);
	if (e != cudaSuccess)
		probe_impossible("cudaIpcGetMemHandle: %s", cudaGetErrorName(e));
	struct probe_child second = probe_spawn("importer"), third = probe_spawn("importer");
	pass_on(&second, &third, &handle);
	e = cudaIpcGetMemHandle(&inner, other + PROBE_SLAB_BYTES / 2);
	if (e == cudaSuccess) {
		struct probe_message m = open_in(&second, &inner, HEAD_BYTE);

		probe_finding("the handle of an interior pointer opens %s",
			      m.error	? cudaGetErrorName((cudaError_t)m.error)
			      : m.value ? "the allocation's begin"
					: "something else than the allocation's begin");
	} else {
		probe_finding("cudaIpcGetMemHandle of an interior pointer: %s",
			      cudaGetErrorName(e));
	}
	probe_finish(&second);
	probe_finish(&third);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct probe_role roles[] = {{"importer", importer}, {NULL, NULL}};

	return probe_main(argc, argv, roles, lead);
}
