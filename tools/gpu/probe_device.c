/* SPDX-License-Identifier: Apache-2.0 */
/* What the runtime and the driver say of GPU 0, as far as our ways to share memory depend on it. */
#include "tools/gpu/probe.h"
#include <string.h>
#include <unistd.h>

static bool has(CUdevice_attribute which)
{
	int value = 0;

	return PROBE_DRIVER(cuDeviceGetAttribute)(&value, which, 0) == CUDA_SUCCESS && value;
}

static void say_versions(void)
{
	int driver = 0, runtime = 0;

	(void)cudaDriverGetVersion(&driver);
	(void)cudaRuntimeGetVersion(&runtime);
	probe_finding("the driver speaks CUDA %d.%d, the runtime is %d.%d", driver / 1000,
		      driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
}

static void say_sharing(const struct cudaDeviceProp *p)
{
	int ipc = 0;

	if (cudaDeviceGetAttribute(&ipc, cudaDevAttrIpcEventSupport, 0) != cudaSuccess)
		(void)cudaGetLastError();
	if (strstr(p->name, "MIG"))
		probe_finding("it is a slice (MIG): no CUDA IPC by handle");
	if (access("/dev/dxg", F_OK) == 0)
		probe_finding("this is WSL: no CUDA IPC");
	probe_finding("IPC by handle %s, virtual memory management %s, memory as descriptors %s",
		      ipc ? "yes" : "no",
		      has(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) ? "yes" : "no",
		      has(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) ? "yes"
											   : "no");
}

static int lead(void)
{
	struct cudaDeviceProp p;
	size_t room, total;

	probe_begin();
	say_versions();
	probe_check(cudaGetDeviceProperties(&p, 0), "cudaGetDeviceProperties");
	probe_check(cudaMemGetInfo(&room, &total), "cudaMemGetInfo");
	probe_finding("GPU 0 is %s, sm_%d%d, %d multiprocessors", p.name, p.major, p.minor,
		      p.multiProcessorCount);
	say_sharing(&p);
	probe_figure((double)total / (1 << 20), "MiB", "device memory");
	probe_figure((double)room / (1 << 20), "MiB", "free of it");
	return 0;
}

int main(int argc, char **argv)
{
	static const struct probe_role roles[] = {{NULL, NULL}};

	return probe_main(argc, argv, roles, lead);
}
