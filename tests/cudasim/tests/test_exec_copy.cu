/* SPDX-License-Identifier: Apache-2.0 */
/* Asynchronous copies land at their wait, and not before: a missing wait reads poison. */
#include "kernels/cuda/common.cuh"
#include "tests/cudasim/tests/exec_test.h"

#define THREADS 64
#define POISON 0xffffffffu

enum fault_kind { NONE, NO_WAIT, NO_COMMIT, NO_BARRIER };

/* Every thread copies 16 bytes, the last two ask for zeros; each then reads its neighbour's. */
template <int FAULT> KV_KERNEL copy_in(uint4 *out, const uint4 *in)
{
	KV_SMEM(uint4, s);
	uint32_t t = threadIdx.x;

	kv_cp_async16(&s[t], t < THREADS - 2 ? &in[t] : nullptr, t < THREADS - 2);
	if (FAULT != NO_COMMIT)
		kv_cp_commit();
	if (FAULT != NO_WAIT)
		kv_cp_wait<0>();
	if (FAULT != NO_BARRIER)
		__syncthreads();
	out[t] = s[(t + 1) % THREADS];
}

static void read_copies(uint4 out[THREADS], void (*launch)(uint4 *, const uint4 *))
{
	uint32_t in[THREADS * 4];
	uint4 *d = (uint4 *)device_new(NULL, sizeof(in)), *d_in;

	for (uint32_t i = 0; i < THREADS * 4; i++)
		in[i] = i + 1;
	d_in = (uint4 *)device_new(in, sizeof(in));
	launch(d, d_in);
	device_read(out, d, sizeof(in));
	cudaFree(d);
	cudaFree(d_in);
}

template <int FAULT> static void launch_copy(uint4 *d, const uint4 *in)
{
	assert_int_equal(KV_LAUNCH(copy_in<FAULT>, 1, THREADS, THREADS * 16, 0, d, in),
			 cudaSuccess);
}

static void test_copy(void **state)
{
	uint4 out[THREADS];

	(void)state;
	read_copies(out, launch_copy<NONE>);
	for (uint32_t t = 0; t < THREADS; t++) {
		uint32_t from = (t + 1) % THREADS, first = from < THREADS - 2 ? from * 4 + 1 : 0;

		assert_int_equal(out[t].x, first);
		assert_int_equal(out[t].w, from < THREADS - 2 ? first + 3 : 0);
	}
}

static void test_missing_wait_reads_poison(void **state)
{
	uint4 out[THREADS];

	(void)state;
	read_copies(out, launch_copy<NO_WAIT>);
	for (const uint4 &v : out)
		assert_int_equal(v.x, POISON);
	read_copies(out, launch_copy<NO_COMMIT>);
	for (const uint4 &v : out)
		assert_int_equal(v.x, POISON);
}

static void test_missing_barrier_reads_poison(void **state)
{
	uint4 out[THREADS];
	uint32_t early = 0;

	(void)state;
	read_copies(out, launch_copy<NO_BARRIER>);
	for (const uint4 &v : out)
		early += v.x == POISON;
	assert_true(early > 0 && early < THREADS);
}

/* Three groups; after wait<1> the latest is still under way. */
KV_KERNEL groups(uint4 *out, const uint4 *in)
{
	KV_SMEM(uint4, s);
	uint32_t t = threadIdx.x;

	for (uint32_t g = 0; g < 3; g++) {
		kv_cp_async16(&s[t * 3 + g], &in[g], true);
		kv_cp_commit();
	}
	kv_cp_wait<1>();
	for (uint32_t g = 0; g < 3; g++)
		out[t * 6 + g] = s[t * 3 + g];
	kv_cp_wait<0>();
	for (uint32_t g = 0; g < 3; g++)
		out[t * 6 + 3 + g] = s[t * 3 + g];
}

static void test_groups(void **state)
{
	uint4 in[3] = {{1, 0, 0, 0}, {2, 0, 0, 0}, {3, 0, 0, 0}};
	uint4 out[32 * 6];
	uint4 *d = (uint4 *)device_new(NULL, sizeof(out));
	uint4 *d_in = (uint4 *)device_new(in, sizeof(in));

	(void)state;
	assert_int_equal(KV_LAUNCH(groups, 1, 32, 32 * 48, 0, d, d_in), cudaSuccess);
	device_read(out, d, sizeof(out));
	for (uint32_t t = 0; t < 32; t++) {
		const uint32_t want[6] = {1, 2, POISON, 1, 2, 3};

		for (uint32_t g = 0; g < 6; g++)
			assert_int_equal(out[t * 6 + g].x, want[g]);
	}
	cudaFree(d);
	cudaFree(d_in);
}

/* The source changes while the copy is under way: either value may land. */
KV_KERNEL overwrite_source(uint4 *out, uint4 *in)
{
	KV_SMEM(uint4, s);
	uint32_t t = threadIdx.x;

	in[t].x = 1;
	kv_cp_async16(&s[t], &in[t], true);
	kv_cp_commit();
	in[t].x = 2;
	kv_cp_wait<0>();
	out[t] = s[t];
}

static void test_source_is_read_late_or_early(void **state)
{
	uint4 out[64];
	uint4 *d = (uint4 *)device_new(NULL, sizeof(out));
	uint4 *d_in = (uint4 *)device_new(NULL, sizeof(out));
	uint32_t late = 0;

	(void)state;
	assert_int_equal(KV_LAUNCH(overwrite_source, 1, 64, sizeof(out), 0, d, d_in), cudaSuccess);
	device_read(out, d, sizeof(out));
	for (const uint4 &v : out)
		late += v.x == 2;
	assert_true(late > 0 && late < 64);
	cudaFree(d);
	cudaFree(d_in);
}

TEST_MAIN(cudasim_exec_copy, cmocka_unit_test(test_copy),
	  cmocka_unit_test(test_missing_wait_reads_poison),
	  cmocka_unit_test(test_missing_barrier_reads_poison), cmocka_unit_test(test_groups),
	  cmocka_unit_test(test_source_is_read_late_or_early))
