/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long do the writes of a killed process go on? A client imports a slab and writes into it, by
 * one kernel that lasts, or by a long queue of memsets; it is killed while the memory changes, and
 * the owner watches until the last change.
 */
#include "tools/gpu/probe.h"
#include "tools/gpu/probe_kernels.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef KVD_CUDASIM
#define COUNT_ROUNDS 200u /* of a launch; the simulator does one in a microsecond */
#else
#define COUNT_ROUNDS 60000000u /* many seconds of a GPU */
#endif
#define QUEUED 512u
#define QUIET_MS 700.0 /* no change for so long: it has stopped */
#define BEGIN_MS 8000.0
#define WORD_BYTES 8u

static void count(void *slab, cudaStream_t stream)
{
	probe_check(probe_kernels_count(stream, slab, COUNT_ROUNDS), "a launch");
}

/* Each ends with its number in the first bytes. */
static void fill(void *slab, cudaStream_t stream)
{
	for (unsigned i = 0; i < QUEUED; i++)
		probe_check(cudaMemsetAsync(slab, (int)(i & 0xff), PROBE_SLAB_BYTES, stream),
			    "a memset");
}

static int client(int sock, void (*write)(void *slab, cudaStream_t stream))
{
	struct probe_message m;
	cudaStream_t stream;
	void *slab;

	probe_begin();
	if (!probe_receive(sock, &m, NULL))
		return 1;
	probe_check(cudaIpcOpenMemHandle(&slab, m.handle, cudaIpcMemLazyEnablePeerAccess),
		    "import");
	probe_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
	for (;;) {
		write(slab, stream);
		probe_check(cudaStreamSynchronize(stream), "the stream");
	}
}

static int count_client(int sock)
{
	return client(sock, count);
}

static int fill_client(int sock)
{
	return client(sock, fill);
}

struct watch {
	const void *slab;
	uint64_t *host; /* pinned */
	cudaStream_t stream;
	uint64_t last;
	double changed_ms;
	double slowest_ms; /* look */
};

static void look(struct watch *w)
{
	double start = probe_now_ms();

	probe_check(
		cudaMemcpyAsync(w->host, w->slab, WORD_BYTES, cudaMemcpyDeviceToHost, w->stream),
		"a look");
	probe_check(cudaStreamSynchronize(w->stream), "a look");
	double now = probe_now_ms();
	if (*w->host != w->last)
		w->changed_ms = now;
	w->last = *w->host;
	if (now - start > w->slowest_ms)
		w->slowest_ms = now - start;
}

/* Until the client's writes are seen. */
static void wait_begin(struct watch *w, struct probe_child *c, const char *what)
{
	double start = probe_now_ms();

	look(w);
	for (uint64_t first = w->last; w->last == first; look(w)) {
		int status;

		if (waitpid(c->pid, &status, WNOHANG) == c->pid)
			probe_fail("the client with %s ended by itself", what);
		if (probe_now_ms() - start > BEGIN_MS)
			probe_fail("the writes of %s are not seen", what);
	}
	w->slowest_ms = 0;
}

static void ask(struct watch *w, const cudaIpcMemHandle_t *handle, const char *role,
		const char *what)
{
	struct probe_message m = {.handle = *handle};
	struct probe_child c = probe_spawn(role);
	struct pollfd death = {.fd = (int)syscall(SYS_pidfd_open, c.pid, 0), .events = POLLIN};
	double dead_ms = 0;

	probe_send(c.sock, &m, -1);
	wait_begin(w, &c, what);
	kill(c.pid, SIGKILL);
	double killed_ms = probe_now_ms();
	w->changed_ms = killed_ms;
	while (!dead_ms || probe_now_ms() - w->changed_ms < QUIET_MS ||
	       probe_now_ms() - dead_ms < QUIET_MS) {
		if (!dead_ms && poll(&death, 1, 0) > 0)
			dead_ms = probe_now_ms();
		look(w);
		if (probe_now_ms() - killed_ms > 2 * BEGIN_MS)
			break;
	}
	close(death.fd);
	probe_kill(&c);
	bool outlived = dead_ms && w->changed_ms > dead_ms;
	probe_finding("%s: %s", what,
		      !dead_ms	 ? "the killed process does not die"
		      : outlived ? "writes go on after the process is dead"
				 : "no write is seen after the death of the process");
	probe_figure(dead_ms - killed_ms, "ms", "%s: SIGKILL to the pidfd's word", what);
	probe_figure(w->changed_ms - killed_ms, "ms", "%s: SIGKILL to the last change", what);
	probe_figure(w->slowest_ms, "ms", "%s: slowest look", what);
}

static int lead(void)
{
	struct watch w = {0};
	cudaIpcMemHandle_t handle;
	void *slab;

	probe_begin();
	probe_check(cudaMalloc(&slab, PROBE_SLAB_BYTES), "cudaMalloc");
	probe_check(cudaMemset(slab, 0, PROBE_SLAB_BYTES), "cudaMemset");
	probe_check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
	cudaError_t e = cudaIpcGetMemHandle(&handle, slab);
	if (e != cudaSuccess)
		probe_impossible("cudaIpcGetMemHandle: %s", cudaGetErrorName(e));
	w.slab = slab;
	w.host = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (w.host == MAP_FAILED)
		probe_fail("mmap: %s", strerror(errno));
	probe_check(cudaHostRegister(w.host, 4096, cudaHostRegisterDefault), "cudaHostRegister");
	probe_check(cudaStreamCreateWithFlags(&w.stream, cudaStreamNonBlocking), "a stream");
	ask(&w, &handle, "count", "a kernel that lasts");
	ask(&w, &handle, "fill", "a queue of memsets");
	return 0;
}

int main(int argc, char **argv)
{
	static const struct probe_role roles[] = {
		{"count", count_client}, {"fill", fill_client}, {NULL, NULL}};

	return probe_main(argc, argv, roles, lead);
}
