/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices: how many the machine has (CUDASIM_DEVICES, 2 if unset), which of them this process sees
 * and in what order (CUDA_VISIBLE_DEVICES: numbers or the begin of UUIDs), and what they can do.
 * A UUID is made from the machine's name and the physical number, so that it is the same in all
 * processes.
 */
#include "tests/cudasim/rt.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static struct rt_device devices[RT_DEVICES_MAX];
static int device_count;
static bool ready;
static _Thread_local int current;

static uint64_t device_mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

void rt_device_uuid(int physical, CUuuid *out)
{
	const char *machine = getenv("CUDASIM_MACHINE");
	uint64_t h = 0x6b7664;

	for (const char *c = machine ? machine : "0"; *c; c++)
		h = device_mix(h ^ (uint8_t)*c);
	for (int i = 0; i < 2; i++) {
		h = device_mix(h + (uint64_t)physical + 1);
		memcpy(out->bytes + i * 8, &h, 8);
	}
}

static int device_machine_count(void)
{
	uint64_t n = rt_env_u64("CUDASIM_DEVICES", 2);

	return n > RT_DEVICES_MAX ? RT_DEVICES_MAX : (int)n;
}

/* "GPU-" and the begin of a UUID in hexadecimal; dashes do not matter. */
static bool device_uuid_matches(int physical, const char *text, size_t length)
{
	char hex[33];
	CUuuid uuid;
	size_t at = 0;

	if (length < 5 || strncasecmp(text, "GPU-", 4) != 0)
		return false;
	rt_device_uuid(physical, &uuid);
	for (int i = 0; i < 16; i++)
		snprintf(hex + 2 * i, 3, "%02x", (uint8_t)uuid.bytes[i]);
	for (size_t i = 4; i < length; i++) {
		if (text[i] == '-')
			continue;
		if (at == 32 || tolower((uint8_t)text[i]) != hex[at++])
			return false;
	}
	return true;
}

static int device_named(const char *text, size_t length)
{
	char *end;
	long n = strtol(text, &end, 10);

	if (length && end == text + length)
		return n >= 0 && n < device_machine_count() ? (int)n : -1;
	for (int p = 0; p < device_machine_count(); p++)
		if (device_uuid_matches(p, text, length))
			return p;
	return -1;
}

/* The list ends at the first word that names no device, as CUDA's does. */
static void device_visible(const char *list)
{
	while (*list && device_count < RT_DEVICES_MAX) {
		size_t length = strcspn(list, ",");
		int p = device_named(list, length);
		if (p < 0)
			return;
		devices[device_count++].physical = p;
		list += length + (list[length] == ',');
	}
}

static void device_init(void)
{
	const char *list = getenv("CUDA_VISIBLE_DEVICES");

	if (device_machine_count() == 0) {
		device_count = -1;
		return;
	}
	if (list) {
		device_visible(list);
		return;
	}
	for (int p = 0; p < device_machine_count(); p++)
		devices[device_count++].physical = p;
}

int rt_device_count(void)
{
	rt_lock();
	if (!ready)
		device_init();
	ready = true;
	rt_unlock();
	return device_count;
}

struct rt_device *rt_device(int index)
{
	return &devices[index];
}

int rt_device_current(void)
{
	return current;
}

int rt_device_of_physical(int physical)
{
	for (int i = 0; i < rt_device_count(); i++)
		if (devices[i].physical == physical)
			return i;
	return -1;
}

uint64_t rt_device_bytes(void)
{
	return rt_env_u64("CUDASIM_MEMORY_BYTES", 2ull << 30);
}

bool rt_device_ipc(void)
{
	return rt_env_u64("CUDASIM_IPC", 1) && !rt_env_u64("CUDASIM_MIG", 0);
}

int sim_device(void)
{
	return current;
}

/* Hopper's numbers from CUDASIM_SM=90 on, Ampere's below. */
void sim_device_props(int device, struct cudaDeviceProp *out)
{
	int sm = (int)rt_env_u64("CUDASIM_SM", 90), physical = rt_device(device)->physical;
	bool hopper = sm >= 90;

	*out = (struct cudaDeviceProp){
		.totalGlobalMem = rt_device_bytes(),
		.sharedMemPerBlock = 48 << 10,
		.regsPerBlock = 65536,
		.warpSize = 32,
		.maxThreadsPerBlock = 1024,
		.maxThreadsDim = {1024, 1024, 64},
		.maxGridSize = {INT32_MAX, 65535, 65535},
		.major = sm / 10,
		.minor = sm % 10,
		.multiProcessorCount = (int)rt_env_u64("CUDASIM_SMS", hopper ? 132 : 108),
		.canMapHostMemory = 1,
		.concurrentKernels = 1,
		.pciBusID = 0x10 + physical,
		.asyncEngineCount = 3,
		.unifiedAddressing = 1,
		.memoryBusWidth = hopper ? 6144 : 5120,
		.l2CacheSize = (hopper ? 50 : 40) << 20,
		.maxThreadsPerMultiProcessor = 2048,
		.sharedMemPerMultiprocessor = (hopper ? 228 : 164) << 10,
		.regsPerMultiprocessor = 65536,
		.sharedMemPerBlockOptin = (hopper ? 227 : 163) << 10,
		.reservedSharedMemPerBlock = 1 << 10,
		.hostRegisterSupported = 1,
		.memoryPoolsSupported = 0,
		.ipcEventSupported = rt_device_ipc(),
	};
	snprintf(out->name, sizeof(out->name), "cudasim sm_%d%s", sm,
		 rt_env_u64("CUDASIM_MIG", 0) ? " MIG 1g" : "");
	rt_device_uuid(physical, &out->uuid);
}

cudaError_t cudaDriverGetVersion(int *version)
{
	/* Without a driver it is 0, and no error. */
	*version = rt_device_count() < 0 ? 0 : CUDART_VERSION;
	return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
	*version = CUDART_VERSION;
	return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
	cudaError_t e = rt_enter(RT_INFO);

	*count = e == cudaSuccess ? rt_device_count() : 0;
	return rt_leave(e);
}

static cudaError_t device_check(int device)
{
	return device >= 0 && device < rt_device_count() ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaSetDevice(int device)
{
	cudaError_t e = rt_enter(RT_DEVICE);

	if (e == cudaSuccess)
		e = device_check(device);
	if (e == cudaSuccess) {
		current = device;
		rt_device(device)->active = true;
		e = rt_device(device)->sticky;
	}
	return rt_leave(e);
}

cudaError_t cudaGetDevice(int *device)
{
	cudaError_t e = rt_enter(RT_INFO);

	if (e == cudaSuccess)
		*device = current;
	return rt_leave(e);
}

cudaError_t cudaInitDevice(int device, unsigned int deviceFlags, unsigned int flags)
{
	cudaError_t e = rt_enter(RT_INFO);

	if (e == cudaSuccess)
		e = device_check(device);
	if (e == cudaSuccess)
		rt_device(device)->active = true;
	return rt_leave(e);
}

cudaError_t cudaSetDeviceFlags(unsigned int flags)
{
	return rt_leave(rt_enter(RT_INFO));
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
	cudaError_t e = rt_enter(RT_INFO);

	if (e == cudaSuccess)
		e = device_check(device);
	if (e == cudaSuccess)
		sim_device_props(device, prop);
	return rt_leave(e);
}

static cudaError_t device_attribute(const struct cudaDeviceProp *p, int attr, int *out)
{
	static const struct {
		int attr;
		size_t offset;
		bool wide;
	} fields[] = {
		{cudaDevAttrMaxThreadsPerBlock, offsetof(struct cudaDeviceProp, maxThreadsPerBlock),
		 0},
		{cudaDevAttrMaxSharedMemoryPerBlock,
		 offsetof(struct cudaDeviceProp, sharedMemPerBlock), 1},
		{cudaDevAttrWarpSize, offsetof(struct cudaDeviceProp, warpSize), 0},
		{cudaDevAttrMaxRegistersPerBlock, offsetof(struct cudaDeviceProp, regsPerBlock), 0},
		{cudaDevAttrMultiProcessorCount,
		 offsetof(struct cudaDeviceProp, multiProcessorCount), 0},
		{cudaDevAttrIntegrated, offsetof(struct cudaDeviceProp, integrated), 0},
		{cudaDevAttrCanMapHostMemory, offsetof(struct cudaDeviceProp, canMapHostMemory), 0},
		{cudaDevAttrConcurrentKernels, offsetof(struct cudaDeviceProp, concurrentKernels),
		 0},
		{cudaDevAttrPciBusId, offsetof(struct cudaDeviceProp, pciBusID), 0},
		{cudaDevAttrPciDeviceId, offsetof(struct cudaDeviceProp, pciDeviceID), 0},
		{cudaDevAttrGlobalMemoryBusWidth, offsetof(struct cudaDeviceProp, memoryBusWidth),
		 0},
		{cudaDevAttrL2CacheSize, offsetof(struct cudaDeviceProp, l2CacheSize), 0},
		{cudaDevAttrMaxThreadsPerMultiProcessor,
		 offsetof(struct cudaDeviceProp, maxThreadsPerMultiProcessor), 0},
		{cudaDevAttrAsyncEngineCount, offsetof(struct cudaDeviceProp, asyncEngineCount), 0},
		{cudaDevAttrUnifiedAddressing, offsetof(struct cudaDeviceProp, unifiedAddressing),
		 0},
		{cudaDevAttrPciDomainId, offsetof(struct cudaDeviceProp, pciDomainID), 0},
		{cudaDevAttrComputeCapabilityMajor, offsetof(struct cudaDeviceProp, major), 0},
		{cudaDevAttrComputeCapabilityMinor, offsetof(struct cudaDeviceProp, minor), 0},
		{cudaDevAttrMaxSharedMemoryPerMultiprocessor,
		 offsetof(struct cudaDeviceProp, sharedMemPerMultiprocessor), 1},
		{cudaDevAttrMaxRegistersPerMultiprocessor,
		 offsetof(struct cudaDeviceProp, regsPerMultiprocessor), 0},
		{cudaDevAttrCanUseHostPointerForRegisteredMem,
		 offsetof(struct cudaDeviceProp, hostRegisterSupported), 0},
		{cudaDevAttrMaxSharedMemoryPerBlockOptin,
		 offsetof(struct cudaDeviceProp, sharedMemPerBlockOptin), 1},
		{cudaDevAttrHostRegisterSupported,
		 offsetof(struct cudaDeviceProp, hostRegisterSupported), 0},
		{cudaDevAttrReservedSharedMemoryPerBlock,
		 offsetof(struct cudaDeviceProp, reservedSharedMemPerBlock), 1},
		{cudaDevAttrMemoryPoolsSupported,
		 offsetof(struct cudaDeviceProp, memoryPoolsSupported), 0},
		{cudaDevAttrIpcEventSupport, offsetof(struct cudaDeviceProp, ipcEventSupported), 0},
	};

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		const char *at = (const char *)p + fields[i].offset;
		if (fields[i].attr != attr)
			continue;
		*out = fields[i].wide ? (int)*(const size_t *)at : *(const int *)at;
		return cudaSuccess;
	}
	return cudaErrorInvalidValue;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device)
{
	struct cudaDeviceProp props;
	cudaError_t e = rt_enter(RT_INFO);

	if (e == cudaSuccess)
		e = device_check(device);
	if (e == cudaSuccess) {
		sim_device_props(device, &props);
		/* kHz, which the properties of CUDA 13 have no more. */
		if (attr == cudaDevAttrClockRate)
			*value = 1755000;
		else if (attr == cudaDevAttrMemoryClockRate)
			*value = 2619000;
		else
			e = device_attribute(&props, attr, value);
	}
	return rt_leave(e);
}

cudaError_t cudaDeviceGetPCIBusId(char *pciBusId, int len, int device)
{
	cudaError_t e = rt_enter(RT_INFO);

	if (e == cudaSuccess)
		e = device_check(device);
	if (e == cudaSuccess && len < 13)
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess)
		snprintf(pciBusId, (size_t)len, "0000:%02x:00.0",
			 0x10 + rt_device(device)->physical);
	return rt_leave(e);
}

cudaError_t cudaDeviceCanAccessPeer(int *canAccessPeer, int device, int peerDevice)
{
	cudaError_t e = rt_enter(RT_INFO);

	if (e == cudaSuccess)
		e = device_check(device);
	if (e == cudaSuccess)
		e = device_check(peerDevice);
	if (e == cudaSuccess)
		*canAccessPeer = device != peerDevice && !rt_env_u64("CUDASIM_MIG", 0);
	return rt_leave(e);
}
