/* SPDX-License-Identifier: Apache-2.0 */
/* How long does an import take, by the size of the slab? By handle, and by descriptor (two views).
 */
#include "tools/gpu/probe.h"
#include <unistd.h>

#define ROUNDS 5

enum { HANDLE, DESCRIPTOR };

static double import_handle_ms(const cudaIpcMemHandle_t *handle)
{
	void *slab;
	double start = probe_now_ms();

	probe_check(cudaIpcOpenMemHandle(&slab, *handle, cudaIpcMemLazyEnablePeerAccess), "import");
	double ms = probe_now_ms() - start;
	probe_check(cudaIpcCloseMemHandle(slab), "cudaIpcCloseMemHandle");
	return ms;
}

static double import_fd_ms(int fd, size_t bytes)
{
	struct probe_vmm read, write;
	double start = probe_now_ms();

	probe_check_driver(probe_vmm_import(fd, bytes, CU_MEM_ACCESS_FLAGS_PROT_READ, &read),
			   "a read-only import");
	probe_check_driver(probe_vmm_import(fd, bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, &write),
			   "an import");
	double ms = probe_now_ms() - start;
	probe_vmm_free(&read);
	probe_vmm_free(&write);
	return ms;
}

/* ms: the best of some. */
static int importer(int sock)
{
	struct probe_message m;
	int fd;

	probe_begin();
	while (probe_receive(sock, &m, &fd)) {
		m.ms = 1e9;
		for (int i = 0; i < ROUNDS; i++) {
			double ms = m.word == HANDLE ? import_handle_ms(&m.handle)
						     : import_fd_ms(fd, m.value);
			m.ms = ms < m.ms ? ms : m.ms;
		}
		if (fd >= 0)
			close(fd);
		probe_send(sock, &m, -1);
	}
	return 0;
}

static void ask(struct probe_child *c, struct probe_message *m, int fd, const char *what)
{
	size_t mib = m->value >> 20;

	probe_send(c->sock, m, fd);
	probe_expect(c, m, NULL);
	probe_figure(1e3 * m->ms, "us", "import of %zu MiB by %s, best of %d", mib, what, ROUNDS);
}

static void ask_handle(struct probe_child *c, size_t bytes)
{
	struct probe_message m = {.word = HANDLE, .value = bytes};
	void *slab;

	if (cudaMalloc(&slab, bytes) != cudaSuccess) {
		(void)cudaGetLastError();
		probe_part_impossible("a slab of %zu MiB by handle: no memory", bytes >> 20);
		return;
	}
	cudaError_t e = cudaIpcGetMemHandle(&m.handle, slab);
	if (e == cudaSuccess)
		ask(c, &m, -1, "handle");
	else
		probe_part_impossible("cudaIpcGetMemHandle: %s", cudaGetErrorName(e));
	probe_check(cudaFree(slab), "cudaFree");
}

static void ask_descriptor(struct probe_child *c, size_t bytes)
{
	struct probe_message m = {.word = DESCRIPTOR, .value = bytes};
	struct probe_vmm v;
	int fd;

	if (probe_vmm_new(bytes, &v, &fd) < 0) {
		probe_part_impossible("a slab of %zu MiB by descriptor: no memory", bytes >> 20);
		return;
	}
	ask(c, &m, fd, "descriptor, two views");
	close(fd);
	probe_vmm_free(&v);
}

static int lead(void)
{
	static const size_t mibs[] = {2, 64, 256, 1024};

	probe_begin();
	struct probe_child c = probe_spawn("importer");
	const char *obstacle = probe_vmm_obstacle();
	if (obstacle)
		probe_part_impossible("descriptors: %s", obstacle);
	for (size_t i = 0; i < sizeof(mibs) / sizeof(mibs[0]); i++) {
		ask_handle(&c, mibs[i] << 20);
		if (!obstacle)
			ask_descriptor(&c, mibs[i] << 20);
	}
	probe_finish(&c);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct probe_role roles[] = {{"importer", importer}, {NULL, NULL}};

	return probe_main(argc, argv, roles, lead);
}
