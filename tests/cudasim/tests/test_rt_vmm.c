/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual memory management: reserve, map, protect, and share by fd between real processes. */
#include "tests/cudasim/sim.h"
#include "tests/cudasim/tests/child.h"
#include "tests/test.h"
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#define MIB (1ull << 20)

static const CUmemAllocationProp shareable = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
};

static CUresult set_access(CUdeviceptr at, size_t bytes, CUmemAccess_flags flags)
{
	CUmemAccessDesc desc = {.location = shareable.location, .flags = flags};

	return DRIVER(cuMemSetAccess)(at, bytes, &desc, 1);
}

static uint8_t *map(CUmemGenericAllocationHandle h, size_t bytes, CUmemAccess_flags flags)
{
	CUdeviceptr at;

	IS(DRIVER(cuMemAddressReserve)(&at, bytes, 0, 0, 0), CUDA_SUCCESS);
	IS(DRIVER(cuMemMap)(at, bytes, 0, h, 0), CUDA_SUCCESS);
	IS(set_access(at, bytes, flags), CUDA_SUCCESS);
	return (uint8_t *)(uintptr_t)at;
}

static void role_rules(void)
{
	CUmemGenericAllocationHandle h, g;
	CUmemAllocationProp private = shareable;
	size_t granularity, free_bytes, total;
	cudaIpcMemHandle_t legacy;
	CUdeviceptr at;
	int fd;

	IS(DRIVER(cuMemGetAllocationGranularity)(&granularity, &shareable,
						 CU_MEM_ALLOC_GRANULARITY_MINIMUM),
	   CUDA_SUCCESS);
	IS(granularity, 2 * MIB);
	IS(DRIVER(cuMemCreate)(&h, MIB, &shareable, 0), CUDA_ERROR_INVALID_VALUE);
	IS(DRIVER(cuMemCreate)(&h, 18 * MIB, &shareable, 0), CUDA_ERROR_OUT_OF_MEMORY);
	IS(DRIVER(cuMemCreate)(&h, 4 * MIB, &shareable, 0), CUDA_SUCCESS);
	private.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
	IS(DRIVER(cuMemCreate)(&g, 4 * MIB, &private, 0), CUDA_SUCCESS);
	IS(DRIVER(cuMemExportToShareableHandle)(&fd, g, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
						0),
	   CUDA_ERROR_INVALID_VALUE);
	IS(DRIVER(cuMemAddressReserve)(&at, 8 * MIB, 0, 0, 0), CUDA_SUCCESS);
	uint8_t *base = (uint8_t *)(uintptr_t)at;
	IS(DRIVER(cuMemMap)(at + MIB, 4 * MIB, 0, h, 0), CUDA_ERROR_INVALID_VALUE);
	IS(DRIVER(cuMemMap)(at + 6 * MIB, 4 * MIB, 0, h, 0), CUDA_ERROR_INVALID_VALUE);
	IS(DRIVER(cuMemMap)(at, 4 * MIB, 2 * MIB, h, 0), CUDA_ERROR_INVALID_VALUE);
	IS(DRIVER(cuMemMap)(at, 4 * MIB, 0, h, 0), CUDA_SUCCESS);
	IS(DRIVER(cuMemMap)(at, 4 * MIB, 0, g, 0), CUDA_ERROR_ALREADY_MAPPED);
	IS(set_access(at, 8 * MIB, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), CUDA_ERROR_INVALID_VALUE);
	IS(DRIVER(cuMemMap)(at + 4 * MIB, 4 * MIB, 0, g, 0), CUDA_SUCCESS);
	IS(set_access(at, 8 * MIB, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), CUDA_SUCCESS);
	/* Side by side they are one memory. */
	CHECK(sim_is_device(base, 8 * MIB));
	OK(cudaMemset(base, 3, 8 * MIB));
	IS(child_byte(base + 8 * MIB - 1), 3);
	IS(cudaIpcGetMemHandle(&legacy, base), cudaErrorInvalidValue);
	IS(cudaFree(base), cudaErrorInvalidValue);
	OK(cudaMemGetInfo(&free_bytes, &total));
	IS(free_bytes, 8 * MIB);
	/* The mapping keeps the memory when the handle is released, and unmapping gives it back. */
	IS(DRIVER(cuMemRelease)(h), CUDA_SUCCESS);
	IS(DRIVER(cuMemRelease)(h), CUDA_ERROR_INVALID_VALUE);
	OK(cudaMemGetInfo(&free_bytes, &total));
	IS(free_bytes, 8 * MIB);
	IS(child_byte(base), 3);
	IS(DRIVER(cuMemUnmap)(at, 2 * MIB), CUDA_ERROR_INVALID_VALUE);
	IS(DRIVER(cuMemAddressFree)(at, 8 * MIB), CUDA_ERROR_INVALID_VALUE);
	IS(DRIVER(cuMemUnmap)(at, 4 * MIB), CUDA_SUCCESS);
	OK(cudaMemGetInfo(&free_bytes, &total));
	IS(free_bytes, 12 * MIB);
	IS(cudaMemset(base, 3, 1), cudaErrorInvalidValue);
	IS(DRIVER(cuMemUnmap)(at + 4 * MIB, 4 * MIB), CUDA_SUCCESS);
	IS(DRIVER(cuMemAddressFree)(at, 8 * MIB), CUDA_SUCCESS);
	IS(DRIVER(cuMemRelease)(g), CUDA_SUCCESS);
	OK(cudaMemGetInfo(&free_bytes, &total));
	IS(free_bytes, 16 * MIB);
	IS(cudaDeviceSynchronize(), cudaSuccess);
}

/* One memory at two addresses: written at the one, read at the other, which may not be written. */
static void role_readonly(void)
{
	CUmemGenericAllocationHandle h;
	void *p;

	IS(DRIVER(cuMemCreate)(&h, 2 * MIB, &shareable, 0), CUDA_SUCCESS);
	uint8_t *rw = map(h, 2 * MIB, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	uint8_t *ro = map(h, 2 * MIB, CU_MEM_ACCESS_FLAGS_PROT_READ);
	CHECK(rw != ro);
	IS(child_byte(ro), 0xff);
	OK(cudaMemset(rw, 6, 2 * MIB));
	IS(child_byte(ro + 5), 6);
	OK(cudaMemset(ro, 7, 1));
	IS(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
	IS(cudaMalloc(&p, 64), cudaErrorIllegalAddress);
	IS(cudaGetLastError(), cudaErrorIllegalAddress);
	IS(cudaGetLastError(), cudaErrorIllegalAddress);
	IS(sim_count("sticky"), 1);
	/* The other device is well. */
	OK(cudaSetDevice(1));
	OK(cudaMalloc(&p, 64));
	IS(cudaSetDevice(0), cudaErrorIllegalAddress);
}

static void role_no_access(void)
{
	CUmemGenericAllocationHandle h;
	CUdeviceptr at;

	IS(DRIVER(cuMemCreate)(&h, 2 * MIB, &shareable, 0), CUDA_SUCCESS);
	IS(DRIVER(cuMemAddressReserve)(&at, 2 * MIB, 0, 0, 0), CUDA_SUCCESS);
	IS(DRIVER(cuMemMap)(at, 2 * MIB, 0, h, 0), CUDA_SUCCESS);
	OK(cudaMemset((void *)(uintptr_t)at, 1, 1));
	IS(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
}

/* Unmapped while work that uses it is queued. */
static void role_unmapped(void)
{
	CUmemGenericAllocationHandle h;

	IS(DRIVER(cuMemCreate)(&h, 2 * MIB, &shareable, 0), CUDA_SUCCESS);
	uint8_t *p = map(h, 2 * MIB, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	OK(cudaMemset(p, 1, 1));
	IS(DRIVER(cuMemUnmap)((CUdeviceptr)(uintptr_t)p, 2 * MIB), CUDA_SUCCESS);
	IS(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
}

static void role_off(void)
{
	CUmemGenericAllocationHandle h;
	int n = 7;

	IS(DRIVER(cuDeviceGetAttribute)(
		   &n, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 0),
	   CUDA_SUCCESS);
	IS(n, 0);
	IS(DRIVER(cuMemCreate)(&h, 2 * MIB, &shareable, 0), CUDA_ERROR_NOT_SUPPORTED);
}

static void role_exporter(void)
{
	CUmemGenericAllocationHandle h;
	char letter;
	int fd;

	IS(DRIVER(cuMemCreate)(&h, 4 * MIB, &shareable, 0), CUDA_SUCCESS);
	OK(cudaMemset(map(h, 4 * MIB, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), 5, 4 * MIB));
	OK(cudaDeviceSynchronize());
	IS(DRIVER(cuMemExportToShareableHandle)(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
						0),
	   CUDA_SUCCESS);
	child_send(child_fd(), "e", 1, fd);
	child_receive(child_fd(), &letter, 1);
}

/* The exporter is dead when this runs: the fd keeps the memory, and opens it. */
static void role_importer(void)
{
	CUmemGenericAllocationHandle h, nothing;
	size_t free_bytes, total;
	char letter;
	int fd = child_receive(child_fd(), &letter, 1);

	OK(cudaMemGetInfo(&free_bytes, &total));
	IS(free_bytes, 12 * MIB);
	IS(DRIVER(cuMemImportFromShareableHandle)(&h, (void *)(intptr_t)fd,
						  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
	   CUDA_SUCCESS);
	close(fd);
	int null = open("/dev/null", O_RDWR);
	IS(DRIVER(cuMemImportFromShareableHandle)(&nothing, (void *)(intptr_t)null,
						  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
	   CUDA_ERROR_INVALID_VALUE);
	uint8_t *ro = map(h, 4 * MIB, CU_MEM_ACCESS_FLAGS_PROT_READ);
	IS(child_byte(ro + 4 * MIB - 1), 5);
	IS(DRIVER(cuMemRelease)(h), CUDA_SUCCESS);
	IS(DRIVER(cuMemUnmap)((CUdeviceptr)(uintptr_t)ro, 4 * MIB), CUDA_SUCCESS);
	OK(cudaMemGetInfo(&free_bytes, &total));
	IS(free_bytes, 16 * MIB);
}

#define TEST(name)                                                                                 \
	static void test_##name(void **state)                                                      \
	{                                                                                          \
		const char *env[] = {"CUDASIM_MEMORY_BYTES=16M", "CUDASIM_MACHINE=" #name, NULL};  \
		assert_int_equal(child_run_seeds(#name, env), 0);                                  \
	}
TEST(rules)
TEST(readonly)
TEST(no_access)
TEST(unmapped)

static void test_off(void **state)
{
	const char *env[] = {"CUDASIM_VMM=0", NULL};

	assert_int_equal(child_run("off", env), 0);
}

static void test_share(void **state)
{
	const char *env[] = {"CUDASIM_MEMORY_BYTES=16M", "CUDASIM_MACHINE=share", NULL};
	struct child a = child_start("exporter", env);
	char letter;
	int fd = child_receive(a.fd, &letter, 1);

	kill(a.pid, SIGKILL);
	child_wait(&a);
	struct child b = child_start("importer", env);
	child_send(b.fd, "i", 1, fd);
	close(fd);
	assert_int_equal(child_wait(&b), 0);
}

static const struct child_role roles[] = {
	{"rules", role_rules},
	{"readonly", role_readonly},
	{"no_access", role_no_access},
	{"unmapped", role_unmapped},
	{"off", role_off},
	{"exporter", role_exporter},
	{"importer", role_importer},
	{NULL, NULL},
};

CHILD_MAIN(cudasim_rt_vmm, roles, cmocka_unit_test(test_rules), cmocka_unit_test(test_readonly),
	   cmocka_unit_test(test_no_access), cmocka_unit_test(test_unmapped),
	   cmocka_unit_test(test_off), cmocka_unit_test(test_share))
