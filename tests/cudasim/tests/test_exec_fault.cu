/* SPDX-License-Identifier: Apache-2.0 */
/* Each fault of a kernel that the executor finds, by a kernel that has exactly it. */
#include "kernels/cuda/common.cuh"
#include "tests/cudasim/tests/exec_test.h"

KV_KERNEL part_of_the_block(int *p)
{
	if (threadIdx.x < 64)
		__syncthreads();
	p[threadIdx.x] = 1;
}

KV_KERNEL two_lines(int *p)
{
	if (threadIdx.x < 32)
		__syncthreads();
	else
		__syncthreads();
	p[threadIdx.x] = 1;
}

KV_KERNEL barrier_too_few(int *p)
{
	if (threadIdx.x < 64)
		kv_barrier(1, 96);
	p[threadIdx.x] = 1;
}

KV_KERNEL barrier_counts(int *p)
{
	kv_barrier(1, threadIdx.x < 32 ? 32 : 96);
	p[threadIdx.x] = 1;
}

KV_KERNEL no_such_barrier(int *p)
{
	kv_barrier(16, 128);
	p[threadIdx.x] = 1;
}

KV_KERNEL lane_exits(int *p)
{
	if (threadIdx.x != 5)
		p[threadIdx.x] = __shfl_xor_sync(KV_FULL_MASK, 1, 1);
}

KV_KERNEL lane_elsewhere(int *p)
{
	if (threadIdx.x % 32 == 9)
		__syncthreads();
	p[threadIdx.x] = __any_sync(KV_FULL_MASK, 1);
}

KV_KERNEL lane_not_named(int *p)
{
	p[threadIdx.x] = __any_sync(0xfffffffeu, 1);
}

KV_KERNEL lanes_at_two_operations(int *p)
{
	if (threadIdx.x % 2)
		p[threadIdx.x] = __any_sync(KV_FULL_MASK, 1);
	else
		p[threadIdx.x] = __all_sync(KV_FULL_MASK, 1);
}

KV_KERNEL unaligned_row(int *p)
{
	KV_SMEM(unsigned char, s);
	uint32_t r[4];

	kv_ldmatrix_x4(r, s + threadIdx.x % 32 * 16 + (threadIdx.x == 77 ? 8 : 0));
	p[threadIdx.x] = static_cast<int>(r[0]);
}

KV_KERNEL row_outside(int *p)
{
	KV_SMEM(unsigned char, s);
	uint32_t r[4];

	kv_ldmatrix_x4(r, s + 4096 + threadIdx.x % 32 * 16);
	p[threadIdx.x] = static_cast<int>(r[0]);
}

KV_KERNEL copy_unaligned(int *p)
{
	KV_SMEM(unsigned char, s);

	kv_cp_async16(s + threadIdx.x * 4, p, false);
}

KV_KERNEL copy_of_host_memory(int *p)
{
	KV_SMEM(uint4, s);
	uint4 local = {};

	kv_cp_async16(s + threadIdx.x, &local, true);
	kv_cp_commit();
	kv_cp_wait<0>();
	p[threadIdx.x] = 1;
}

KV_KERNEL wild_pointer(int *p)
{
	if (threadIdx.x == 70)
		p += 1ll << 42;
	p[threadIdx.x] = 1;
}

KV_KERNEL endless_wait(int *p)
{
	while (*const_cast<volatile int *>(p) == 0)
		sim_yield();
}

/* Its frame is larger than a thread's stack. */
KV_KERNEL stack_full(int *p)
{
	volatile int frame[1 << 18];

	for (int i = 0; i < 1 << 18; i++)
		frame[i] = i;
	p[threadIdx.x] = frame[threadIdx.x];
}

#define SMEM_BYTES 4096

template <void (*KERNEL)(int *)> static void launch()
{
	int *d = (int *)device_new(NULL, 128 * sizeof(int));

	assert_int_equal(KV_LAUNCH(KERNEL, 3, 128, SMEM_BYTES, 0, d), cudaSuccess);
}

struct known_fault {
	const char *name;
	void (*launch)(void);
	cudaError_t error;
	const char *words;
};

static const known_fault known[] = {
	{"part_of_the_block", launch<part_of_the_block>, cudaErrorLaunchFailure,
	 "barrier reached by part of the block: 64 of 128 threads"},
	{"two_lines", launch<two_lines>, cudaErrorLaunchFailure,
	 "barrier reached by part of the block: others are at"},
	{"barrier_too_few", launch<barrier_too_few>, cudaErrorLaunchFailure,
	 "barrier reached by part of the block"},
	{"barrier_counts", launch<barrier_counts>, cudaErrorLaunchFailure, "barrier 1 is of"},
	{"no_such_barrier", launch<no_such_barrier>, cudaErrorLaunchFailure,
	 "there is no barrier 16"},
	{"lane_exits", launch<lane_exits>, cudaErrorLaunchFailure, "lane 5 of mask ffffffff"},
	{"lane_elsewhere", launch<lane_elsewhere>, cudaErrorLaunchFailure, "deadlock"},
	{"lane_not_named", launch<lane_not_named>, cudaErrorLaunchFailure,
	 "lane 0 is missing from its mask"},
	{"lanes_at_two_operations", launch<lanes_at_two_operations>, cudaErrorLaunchFailure,
	 "at another operation"},
	{"unaligned_row", launch<unaligned_row>, cudaErrorMisalignedAddress,
	 "row of a matrix: not aligned"},
	{"row_outside", launch<row_outside>, cudaErrorIllegalAddress,
	 "row of a matrix: not in shared memory"},
	{"copy_unaligned", launch<copy_unaligned>, cudaErrorMisalignedAddress,
	 "destination of a copy: not aligned"},
	{"copy_of_host_memory", launch<copy_of_host_memory>, cudaErrorIllegalAddress,
	 "source of a copy: not in device memory"},
	{"wild_pointer", launch<wild_pointer>, cudaErrorIllegalAddress, "thread (70, 0, 0)"},
	{"endless_wait", launch<endless_wait>, cudaErrorLaunchFailure, "waits without end"},
	{"stack_full", launch<stack_full>, cudaErrorHardwareStackError, "stack is full"},
};

static void test_faults(void **state)
{
	(void)state;
	for (const known_fault &k : known) {
		print_message("%s\n", k.name);
		assert_fault(k.launch, k.error, k.words);
	}
}

KV_KERNEL behind_the_end(int *p)
{
	KV_SMEM(int, s);

	s[SMEM_BYTES / sizeof(int) + threadIdx.x % 4] = 1;
	p[threadIdx.x] = 1;
}

/* With the address sanitizer the store itself ends the process. */
static void test_smem_overrun(void **state)
{
	(void)state;
#ifdef EXEC_TEST_ASAN
	print_message("the address sanitizer's report ends the process: not tried\n");
	skip();
#endif
	assert_fault(launch<behind_the_end>, cudaErrorIllegalAddress,
		     "wrote behind its shared memory");
}

static void test_block_is_named(void **state)
{
	fault f = fault_of(launch<wild_pointer>);

	(void)state;
	assert_non_null(strstr(f.text, "kernel "));
	assert_non_null(strstr(f.text, "block ("));
}

TEST_MAIN(cudasim_exec_fault, cmocka_unit_test(test_faults), cmocka_unit_test(test_smem_overrun),
	  cmocka_unit_test(test_block_is_named))
