/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much device memory does a process take before it has allocated any? Processes make a context
 * one after the other, and the lead reads what is free; then they launch a kernel, which loads
 * code.
 */
#include "tools/gpu/probe.h"
#include "tools/gpu/probe_kernels.h"

#define PROCESSES 3

static int holder(int sock)
{
	struct probe_message m = {0};
	void *word;

	probe_begin();
	probe_send(sock, &m, -1);
	if (!probe_receive(sock, &m, NULL))
		return 0;
	probe_check(cudaMalloc(&word, 8), "cudaMalloc");
	probe_check(probe_kernels_store(NULL, word, 1), "a launch");
	probe_check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
	probe_send(sock, &m, -1);
	(void)probe_receive(sock, &m, NULL);
	return 0;
}

static double used_mib(void)
{
	size_t room, total;

	probe_check(cudaMemGetInfo(&room, &total), "cudaMemGetInfo");
	return (double)(total - room) / (1 << 20);
}

static int lead(void)
{
	struct probe_child c[PROCESSES];
	struct probe_message m = {0};

	probe_begin();
	double before = used_mib();
	for (int i = 0; i < PROCESSES; i++) {
		c[i] = probe_spawn("holder");
		probe_expect(&c[i], &m, NULL);
	}
	double contexts = used_mib();
	for (int i = 0; i < PROCESSES; i++) {
		probe_send(c[i].sock, &m, -1);
		probe_expect(&c[i], &m, NULL);
	}
	double launched = used_mib();
	for (int i = 0; i < PROCESSES; i++)
		probe_finish(&c[i]);
	probe_finding("a process takes device memory by its context alone: see the figures");
	probe_figure((contexts - before) / PROCESSES, "MiB", "a context, mean of %d", PROCESSES);
	probe_figure((launched - contexts) / PROCESSES, "MiB", "more after a first launch");
	probe_figure(used_mib() - before, "MiB", "not given back when all have ended");
	return 0;
}

int main(int argc, char **argv)
{
	static const struct probe_role roles[] = {{"holder", holder}, {NULL, NULL}};

	return probe_main(argc, argv, roles, lead);
}
