/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Do a client of MPS and a process that is none share memory by IPC? The probe starts an MPS daemon
 * of its own (its pipes and logs in a folder of its own, so that no other process meets it), one
 * child that uses it and one that does not, lets each import the other's slab, and ends the daemon.
 */
#include "tools/gpu/probe.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONTROL "nvidia-cuda-mps-control"
#define START_MS 5000.0

enum { BYTE = 0x4d };
enum { EXPORT, IMPORT };

static int party(int sock)
{
	struct probe_message m;
	cudaError_t e;
	void *slab;

	probe_begin();
	while (probe_receive(sock, &m, NULL)) {
		if (m.word == EXPORT) {
			probe_check(cudaMalloc(&slab, PROBE_SLAB_BYTES), "cudaMalloc");
			probe_check(cudaMemset(slab, BYTE, PROBE_SLAB_BYTES), "cudaMemset");
			probe_check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
			e = cudaIpcGetMemHandle(&m.handle, slab);
		} else {
			e = cudaIpcOpenMemHandle(&slab, m.handle, cudaIpcMemLazyEnablePeerAccess);
			m.value = e == cudaSuccess && probe_is_filled(slab, BYTE, &e);
		}
		m.error = (int32_t)e;
		(void)cudaGetLastError();
		probe_send(sock, &m, -1);
	}
	return 0;
}

static bool in_path(const char *program)
{
	char path[4096], full[4200];

	snprintf(path, sizeof(path), "%s", getenv("PATH") ? getenv("PATH") : "");
	for (char *rest = path, *dir; (dir = strsep(&rest, ":"));) {
		snprintf(full, sizeof(full), "%s/%s", dir, program);
		if (access(full, X_OK) == 0)
			return true;
	}
	return false;
}

/* In the foreground, so that it is our child and ends with us. */
static pid_t start_daemon(const char *folder)
{
	pid_t pid = fork();

	if (pid < 0)
		probe_fail("fork: %s", strerror(errno));
	if (pid > 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	setenv("CUDA_MPS_PIPE_DIRECTORY", folder, 1);
	setenv("CUDA_MPS_LOG_DIRECTORY", folder, 1);
	execlp(CONTROL, CONTROL, "-f", (char *)NULL);
	_exit(127);
}

static void wait_daemon(pid_t pid, const char *folder)
{
	char pipe_path[300];
	double start = probe_now_ms();
	int status;

	snprintf(pipe_path, sizeof(pipe_path), "%s/control", folder);
	while (access(pipe_path, F_OK) < 0) {
		if (waitpid(pid, &status, WNOHANG) == pid)
			probe_impossible("%s does not start here, wait status 0x%x", CONTROL,
					 (unsigned)status);
		if (probe_now_ms() - start > START_MS) {
			kill(pid, SIGTERM);
			probe_impossible("%s does not open its pipe", CONTROL);
		}
		usleep(10000);
	}
}

static void ask(struct probe_child *owner, struct probe_child *other, const char *what)
{
	struct probe_message m = {.word = EXPORT};

	probe_send(owner->sock, &m, -1);
	probe_expect(owner, &m, NULL);
	if (m.error) {
		probe_finding("%s: cudaIpcGetMemHandle: %s", what,
			      cudaGetErrorName((cudaError_t)m.error));
		return;
	}
	m.word = IMPORT;
	probe_send(other->sock, &m, -1);
	probe_expect(other, &m, NULL);
	probe_finding("%s: %s", what,
		      m.error	? cudaGetErrorName((cudaError_t)m.error)
		      : m.value ? "right"
				: "WRONG BYTES");
}

static int lead(void)
{
	char folder[] = "/tmp/kvd-mps-XXXXXX", none[64], command[400];

	probe_begin();
	if (!in_path(CONTROL))
		probe_impossible("there is no %s", CONTROL);
	if (!mkdtemp(folder))
		probe_fail("mkdtemp: %s", strerror(errno));
	pid_t pid = start_daemon(folder);
	wait_daemon(pid, folder);
	snprintf(none, sizeof(none), "%s/none", folder);
	const char *const with[] = {"CUDA_MPS_PIPE_DIRECTORY", folder, NULL};
	const char *const without[] = {"CUDA_MPS_PIPE_DIRECTORY", none, NULL};
	struct probe_child client = probe_spawn_with("party", with);
	struct probe_child plain = probe_spawn_with("party", without);
	ask(&client, &plain, "a slab of an MPS client, imported by a process without MPS");
	ask(&plain, &client, "a slab of a process without MPS, imported by an MPS client");
	probe_finish(&client);
	probe_finish(&plain);
	snprintf(command, sizeof(command), "echo quit | CUDA_MPS_PIPE_DIRECTORY=%s " CONTROL,
		 folder);
	if (system(command) != 0)
		kill(pid, SIGTERM);
	(void)waitpid(pid, NULL, 0);
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command) ? 1 : 0;
}

int main(int argc, char **argv)
{
	static const struct probe_role roles[] = {{"party", party}, {NULL, NULL}};

	return probe_main(argc, argv, roles, lead);
}
