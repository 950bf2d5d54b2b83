/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libnvidia-ml that lists, as processes with work on any GPU, the numbers in the file that
 * FAKE_NVML_PIDS names; without the file it knows no GPU.
 */
#include <stdio.h>
#include <stdlib.h>

struct nvml_process {
	unsigned int pid;
	unsigned long long used_bytes;
	unsigned int gpu_instance;
	unsigned int compute_instance;
};

int nvmlInit_v2(void);
int nvmlDeviceGetHandleByUUID(const char *uuid, void **out);
int nvmlDeviceGetComputeRunningProcesses_v3(void *gpu, unsigned int *count,
					    struct nvml_process *out);

int nvmlInit_v2(void)
{
	return 0;
}

static FILE *fake_list(void)
{
	const char *path = getenv("FAKE_NVML_PIDS");

	return path ? fopen(path, "re") : NULL;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **out)
{
	FILE *f = fake_list();

	*out = NULL;
	if (!f)
		return 6;
	fclose(f);
	return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *gpu, unsigned int *count,
					    struct nvml_process *out)
{
	unsigned int n = 0, max = *count;
	FILE *f = fake_list();

	if (!f)
		return 999;
	while (n < max && fscanf(f, "%u", &out[n].pid) == 1)
		n++;
	fclose(f);
	*count = n;
	return 0;
}
