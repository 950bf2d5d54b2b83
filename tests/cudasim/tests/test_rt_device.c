/* SPDX-License-Identifier: Apache-2.0 */
/* Which devices a process sees, what they say of themselves, and what there is without one. */
#include "tests/cudasim/sim.h"
#include "tests/cudasim/tests/child.h"
#include "tests/test.h"

static void role_count(void)
{
	int count = 7, device = 7, version;
	struct cudaDeviceProp p;
	CUcontext context;

	OK(cudaGetDeviceCount(&count));
	IS(count, 2);
	OK(cudaDriverGetVersion(&version));
	IS(version, 13000);
	IS(cudaSetDevice(2), cudaErrorInvalidDevice);
	IS(cudaSetDevice(-1), cudaErrorInvalidDevice);
	IS(cudaGetDeviceProperties(&p, 2), cudaErrorInvalidDevice);
	OK(cudaGetDevice(&device));
	IS(device, 0);
	/* The context comes with the first call that needs it. */
	IS(DRIVER(cuCtxGetCurrent)(&context), CUDA_SUCCESS);
	CHECK(!context);
	OK(cudaFree(NULL));
	IS(DRIVER(cuCtxGetCurrent)(&context), CUDA_SUCCESS);
	CHECK(context);
	OK(cudaSetDevice(1));
	OK(cudaGetDevice(&device));
	IS(device, 1);
}

static void role_none(void)
{
	int count = 7, version = 7;
	void *p;
	enum cudaDriverEntryPointQueryResult found;

	IS(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
	IS(count, 0);
	IS(cudaMalloc(&p, 4), cudaErrorInsufficientDriver);
	IS(cudaHostAlloc(&p, 4, 0), cudaErrorInsufficientDriver);
	IS(cudaGetDriverEntryPointByVersion("cuMemCreate", &p, 12000, 0, &found),
	   cudaErrorInsufficientDriver);
	OK(cudaDriverGetVersion(&version));
	IS(version, 0);
}

static void role_hidden(void)
{
	int count = 7;
	void *p;

	IS(cudaGetDeviceCount(&count), cudaErrorNoDevice);
	IS(cudaMalloc(&p, 4), cudaErrorNoDevice);
}

static void role_uuids(void)
{
	struct cudaDeviceProp p;
	CUuuid uuid;
	int count;

	OK(cudaGetDeviceCount(&count));
	for (int i = 0; i < count; i++) {
		OK(cudaGetDeviceProperties(&p, i));
		IS(DRIVER(cuDeviceGetUuid)(&uuid, i), CUDA_SUCCESS);
		CHECK(memcmp(&uuid, &p.uuid, sizeof(uuid)) == 0);
		fprintf(stderr, "uuid%d ", i);
		for (int b = 0; b < 16; b++)
			fprintf(stderr, "%02x", (uint8_t)p.uuid.bytes[b]);
		fprintf(stderr, "\n");
	}
}

static void role_hopper(void)
{
	struct cudaDeviceProp p;
	int n;

	OK(cudaGetDeviceProperties(&p, 0));
	IS(p.major * 10 + p.minor, 90);
	IS(p.sharedMemPerBlockOptin, 227 << 10);
	OK(cudaDeviceGetAttribute(&n, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
	IS(n, 227 << 10);
	OK(cudaDeviceGetAttribute(&n, cudaDevAttrComputeCapabilityMajor, 0));
	IS(n, 9);
	OK(cudaDeviceGetAttribute(&n, cudaDevAttrIpcEventSupport, 0));
	IS(n, 1);
	IS(cudaDeviceGetAttribute(&n, (enum cudaDeviceAttr)9999, 0), cudaErrorInvalidValue);
	char bus[16];
	OK(cudaDeviceGetPCIBusId(bus, sizeof(bus), 1));
	CHECK(strcmp(bus, "0000:11:00.0") == 0);
}

static void role_ampere(void)
{
	struct cudaDeviceProp p;

	OK(cudaGetDeviceProperties(&p, 0));
	IS(p.major * 10 + p.minor, 86);
	IS(p.sharedMemPerBlockOptin, 163 << 10);
	IS(p.multiProcessorCount, 5);
	IS(p.totalGlobalMem, 64 << 20);
}

static void role_no_ipc(void)
{
	cudaIpcMemHandle_t h;
	void *p;
	int n;

	OK(cudaDeviceGetAttribute(&n, cudaDevAttrIpcEventSupport, 0));
	IS(n, 0);
	OK(cudaMalloc(&p, 2 << 20));
	IS(cudaIpcGetMemHandle(&h, p), cudaErrorNotSupported);
	memset(&h, 0, sizeof(h));
	IS(cudaIpcOpenMemHandle(&p, h, cudaIpcMemLazyEnablePeerAccess), cudaErrorNotSupported);
}

static void role_old_driver(void)
{
	enum cudaDriverEntryPointQueryResult found;
	void *f;

	OK(cudaGetDriverEntryPointByVersion("cuMemCreate", &f, 12000, 0, &found));
	IS(found, cudaDriverEntryPointVersionNotSufficent);
	CHECK(!f);
	OK(cudaGetDriverEntryPointByVersion("cuNoSuchThing", &f, 12000, 0, &found));
	IS(found, cudaDriverEntryPointSymbolNotFound);
	OK(cudaGetDriverEntryPointByVersion("cuInit", &f, 12000, 0, &found));
	IS(found, cudaDriverEntryPointSuccess);
	CHECK(f);
	IS(cudaGetDriverEntryPointByVersion("cuNoSuchThing", &f, 12000, 0, NULL),
	   cudaErrorSymbolNotFound);
}

static void role_words(void)
{
	const char *text;

	CHECK(strcmp(cudaGetErrorName(cudaErrorIllegalAddress), "cudaErrorIllegalAddress") == 0);
	CHECK(strcmp(cudaGetErrorName(cudaSuccess), "cudaSuccess") == 0);
	CHECK(strstr(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory"));
	CHECK(strcmp(cudaGetErrorName((cudaError_t)54321), "unrecognized error code") == 0);
	IS(DRIVER(cuGetErrorName)(CUDA_ERROR_OUT_OF_MEMORY, &text), CUDA_SUCCESS);
	CHECK(strcmp(text, "CUDA_ERROR_OUT_OF_MEMORY") == 0);
	IS(DRIVER(cuGetErrorName)((CUresult)54321, &text), CUDA_ERROR_INVALID_VALUE);
}

static void test_count(void **state)
{
	assert_int_equal(child_run("count", NULL), 0);
}

static void test_none(void **state)
{
	const char *none[] = {"CUDASIM_DEVICES=0", NULL};
	const char *hidden[] = {"CUDA_VISIBLE_DEVICES=", NULL};
	const char *wrong[] = {"CUDA_VISIBLE_DEVICES=5,0", NULL};

	assert_int_equal(child_run("none", none), 0);
	assert_int_equal(child_run("hidden", hidden), 0);
	assert_int_equal(child_run("hidden", wrong), 0);
}

/* One device has one UUID in every process, whatever its index there. */
static void test_visible(void **state)
{
	const char *second[] = {"CUDA_VISIBLE_DEVICES=1", NULL};
	const char *swapped[] = {"CUDA_VISIBLE_DEVICES=1,0,9,1", NULL};
	const char *other[] = {"CUDASIM_MACHINE=other", NULL};
	char zero[64] = "uuid0 ", one[64] = "uuid0 ", by_name[96];
	const char *named[] = {by_name, NULL};

	assert_int_equal(child_run("uuids", second), 0);
	assert_true(child_said("uuid0 ") && !child_said("uuid1"));
	child_said_word("uuid0 ", one + 6, 33);
	assert_int_equal(child_run("uuids", NULL), 0);
	child_said_word("uuid0 ", zero + 6, 33);
	assert_string_not_equal(zero, one);
	one[4] = '1';
	assert_true(child_said(one));
	assert_int_equal(child_run("uuids", swapped), 0);
	one[4] = '0';
	zero[4] = '1';
	assert_true(child_said(one) && child_said(zero) && !child_said("uuid2"));
	snprintf(by_name, sizeof(by_name), "CUDA_VISIBLE_DEVICES=GPU-%.8s-%.4s", zero + 6,
		 zero + 14);
	assert_int_equal(child_run("uuids", named), 0);
	zero[4] = '0';
	assert_true(child_said(zero) && !child_said("uuid1"));
	assert_int_equal(child_run("uuids", other), 0);
	assert_false(child_said(zero + 6));
}

static void test_properties(void **state)
{
	const char *ampere[] = {"CUDASIM_SM=86", "CUDASIM_SMS=5", "CUDASIM_MEMORY_BYTES=64M", NULL};

	assert_int_equal(child_run("hopper", NULL), 0);
	assert_int_equal(child_run("ampere", ampere), 0);
}

static void test_no_ipc(void **state)
{
	const char *ipc[] = {"CUDASIM_IPC=0", NULL}, *mig[] = {"CUDASIM_MIG=1", NULL};

	assert_int_equal(child_run("no_ipc", ipc), 0);
	assert_int_equal(child_run("no_ipc", mig), 0);
}

static void test_driver(void **state)
{
	const char *old[] = {"CUDASIM_DRIVER=10000", NULL};

	assert_int_equal(child_run("old_driver", old), 0);
	assert_int_equal(child_run("words", NULL), 0);
}

static const struct child_role roles[] = {
	{"count", role_count},	 {"none", role_none},
	{"hidden", role_hidden}, {"uuids", role_uuids},
	{"hopper", role_hopper}, {"ampere", role_ampere},
	{"no_ipc", role_no_ipc}, {"old_driver", role_old_driver},
	{"words", role_words},	 {NULL, NULL},
};

CHILD_MAIN(cudasim_rt_device, roles, cmocka_unit_test(test_count), cmocka_unit_test(test_none),
	   cmocka_unit_test(test_visible), cmocka_unit_test(test_properties),
	   cmocka_unit_test(test_no_ipc), cmocka_unit_test(test_driver))
