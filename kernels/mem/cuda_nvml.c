/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVML's word on who still has work on a GPU. The library comes with the driver and is opened by
 * name if it is there; a host without it (or a container that may not use it) has no such proof,
 * and the caller's grace time alone must do. Only what is called is declared here, as NVIDIA
 * documents it. NVML may be called from any thread.
 */
#include "base/uuid.h"
#include "kernels/mem/cuda_device.h"
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

#define CUDA_NVML_LIBRARY "libnvidia-ml.so.1"
#define CUDA_NVML_SUCCESS 0
#define CUDA_NVML_INSUFFICIENT_SIZE 7
#define CUDA_NVML_PROCESSES 512u

struct cuda_nvml_process {
	unsigned int pid;
	unsigned long long used_bytes;
	unsigned int gpu_instance;
	unsigned int compute_instance;
};

static struct {
	void *library; /* NULL: there is none that could be used */
	int (*init)(void);
	int (*by_uuid)(const char *uuid, void **out);
	int (*processes)(void *gpu, unsigned int *count, struct cuda_nvml_process *out);
} nvml;

static void cuda_nvml_open(void)
{
	void *library = dlopen(CUDA_NVML_LIBRARY, RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return;
	nvml.init = (int (*)(void))dlsym(library, "nvmlInit_v2");
	nvml.by_uuid = (int (*)(const char *, void **))dlsym(library, "nvmlDeviceGetHandleByUUID");
	nvml.processes = (int (*)(void *, unsigned int *, struct cuda_nvml_process *))dlsym(
		library, "nvmlDeviceGetComputeRunningProcesses_v3");
	if (nvml.init && nvml.by_uuid && nvml.processes && nvml.init() == CUDA_NVML_SUCCESS)
		nvml.library = library;
	else
		dlclose(library);
}

int cuda_nvml_process_gone(struct device *dev, uint32_t pid)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct cuda_nvml_process list[CUDA_NVML_PROCESSES];
	unsigned int count = CUDA_NVML_PROCESSES;
	char uuid[UUID_TEXT];
	void *gpu;

	pthread_once(&once, cuda_nvml_open);
	if (!nvml.library ||
	    nvml.by_uuid(uuid_format(dev->info.uuid, uuid), &gpu) != CUDA_NVML_SUCCESS)
		return -ENOTSUP;
	int r = nvml.processes(gpu, &count, list);
	if (r == CUDA_NVML_INSUFFICIENT_SIZE)
		return 0;
	if (r != CUDA_NVML_SUCCESS)
		return -ENOTSUP;
	for (unsigned int i = 0; i < count; i++)
		if (list[i].pid == pid)
			return 0;
	return 1;
}
