/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words, errors and CUDA for the probes; single-threaded. The driver is reached by name through the
 * runtime, so that a probe starts on a host without a driver and says so.
 */
#include "tools/gpu/probe.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PROBE_DRIVER_VERSION 12000u
#define LOOK_BYTES 4096u

__attribute__((format(printf, 2, 0))) static void line(const char *head, const char *format,
						       va_list args)
{
	fputs(head, stdout);
	vprintf(format, args);
	putchar('\n');
	fflush(stdout);
}

void probe_finding(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	line("finding: ", format, args);
	va_end(args);
}

void probe_figure(double value, const char *unit, const char *name, ...)
{
	va_list args;

	printf("figure ");
	va_start(args, name);
	vprintf(name, args);
	va_end(args);
	printf(": %.4g %s\n", value, unit);
	fflush(stdout);
}

void probe_part_impossible(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	line("not possible here: ", format, args);
	va_end(args);
}

void probe_impossible(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	line("not possible here: ", format, args);
	va_end(args);
	exit(PROBE_EXIT_IMPOSSIBLE);
}

void probe_fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	line("failed: ", format, args);
	va_end(args);
	exit(1);
}

void probe_check(cudaError_t e, const char *what)
{
	if (e != cudaSuccess)
		probe_fail("%s: %s (%s)", what, cudaGetErrorName(e), cudaGetErrorString(e));
}

const char *probe_driver_error(CUresult e)
{
	const char *name = NULL;

	if (PROBE_DRIVER(cuGetErrorName)(e, &name) != CUDA_SUCCESS || !name)
		return "an unknown error";
	return name;
}

void probe_check_driver(CUresult e, const char *what)
{
	if (e != CUDA_SUCCESS)
		probe_fail("%s: %s", what, probe_driver_error(e));
}

double probe_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

void probe_begin(void)
{
	int count = 0;
	cudaError_t e = cudaGetDeviceCount(&count);

	if (e != cudaSuccess || count == 0)
		probe_impossible("no GPU: %s",
				 e == cudaSuccess ? "none is visible" : cudaGetErrorString(e));
	e = cudaSetDevice(0);
	if (e == cudaSuccess)
		e = cudaFree(NULL);
	if (e != cudaSuccess)
		probe_impossible("GPU 0 cannot be used: %s", cudaGetErrorString(e));
}

void *probe_driver(const char *name)
{
	enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
	void *f = NULL;
	cudaError_t e = cudaGetDriverEntryPointByVersion(name, &f, PROBE_DRIVER_VERSION,
							 cudaEnableDefault, &found);

	if (e != cudaSuccess || found != cudaDriverEntryPointSuccess || !f)
		probe_impossible("the driver has no %s of CUDA 12", name);
	return f;
}

const char *probe_vmm_obstacle(void)
{
	int vmm = 0, fd = 0;

	(void)PROBE_DRIVER(cuDeviceGetAttribute)(
		&vmm, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0);
	(void)PROBE_DRIVER(cuDeviceGetAttribute)(
		&fd, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 0);
	if (!vmm)
		return "the device has no virtual memory management";
	return fd ? NULL : "its memory cannot travel as a descriptor";
}

bool probe_is_filled(const void *device, int byte, cudaError_t *out_error)
{
	unsigned char got[LOOK_BYTES], right[LOOK_BYTES];

	memset(got, ~byte, sizeof(got));
	memset(right, byte, sizeof(right));
	*out_error = cudaMemcpy(got, device, sizeof(got), cudaMemcpyDeviceToHost);
	return *out_error == cudaSuccess && memcmp(got, right, sizeof(got)) == 0;
}

static CUmemAllocationProp prop(void)
{
	CUmemAllocationProp p;

	memset(&p, 0, sizeof(p));
	p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	return p;
}

static CUresult map(struct probe_vmm *v, CUmemAccess_flags access)
{
	CUmemAccessDesc desc;

	memset(&desc, 0, sizeof(desc));
	desc.location = prop().location;
	desc.flags = access;
	CUresult e = PROBE_DRIVER(cuMemAddressReserve)(&v->at, v->bytes, 0, 0, 0);
	if (e == CUDA_SUCCESS)
		e = PROBE_DRIVER(cuMemMap)(v->at, v->bytes, 0, v->handle, 0);
	if (e == CUDA_SUCCESS)
		e = PROBE_DRIVER(cuMemSetAccess)(v->at, v->bytes, &desc, 1);
	return e;
}

int probe_vmm_new(size_t bytes, struct probe_vmm *out, int *out_fd)
{
	CUmemAllocationProp p = prop();

	*out = (struct probe_vmm){.bytes = bytes};
	*out_fd = -1;
	if (PROBE_DRIVER(cuMemCreate)(&out->handle, bytes, &p, 0) != CUDA_SUCCESS)
		return -1;
	probe_check_driver(
		PROBE_DRIVER(cuMemExportToShareableHandle)(
			out_fd, out->handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
		"cuMemExportToShareableHandle");
	probe_check_driver(map(out, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), "mapping");
	return 0;
}

CUresult probe_vmm_import(int fd, size_t bytes, CUmemAccess_flags access, struct probe_vmm *out)
{
	*out = (struct probe_vmm){.bytes = bytes};
	CUresult e = PROBE_DRIVER(cuMemImportFromShareableHandle)(
		&out->handle, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	return e == CUDA_SUCCESS ? map(out, access) : e;
}

void probe_vmm_free(struct probe_vmm *v)
{
	(void)PROBE_DRIVER(cuMemUnmap)(v->at, v->bytes);
	(void)PROBE_DRIVER(cuMemAddressFree)(v->at, v->bytes);
	(void)PROBE_DRIVER(cuMemRelease)(v->handle);
}
