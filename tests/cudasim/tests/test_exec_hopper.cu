/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of a warpgroup against plain loops, in every form that hopper.cuh has; barriers in
 * shared memory; and each fault that the executor finds in their use.
 */
#include "kernels/cuda/hopper.cuh"
#include "tests/cudasim/tests/exec_test.h"

#define LINES 128
#define LINE_BYTES 128
/* Where element `along` of line `line` lies in one pattern of LINES lines of 64. */
static inline uint32_t swizzled(uint32_t line, uint32_t along)
{
	uint32_t offset = line * LINE_BYTES + along * 2;

	return (offset ^ (offset >> 7 & 7) << 4) / 2;
}

enum form { PLAIN, TURNED, WIDE, UNWAITED, NO_BEGIN, NO_FENCE, ONE_WARP };

/* a: 64 lines of 64; b: `form`'s lines of 64, WIDE has two columns of 64 lines. */
template <int FORM>
KV_KERNEL product(float *out, const uint16_t *a, const uint16_t *b, uint32_t b_lines)
{
	KV_SMEM(uint16_t, s);
	uint16_t *sb = s + 64 * 64;
	uint32_t t = threadIdx.x, g = t % 32 / 4, q = t % 4, row = t / 32 * 16 + g;
	float d[16][4];

	for (uint32_t i = t; i < 64 * 8; i += KV_WARPGROUP)
		kv_cp_async16(s + swizzled(i / 8, i % 8 * 8), a + i * 8, true);
	for (uint32_t i = t; i < b_lines * 8; i += KV_WARPGROUP)
		kv_cp_async16(sb + swizzled(i / 8, i % 8 * 8), b + i * 8, true);
	kv_cp_commit();
	kv_cp_wait<0>();
	if (FORM != NO_FENCE)
		kv_fence_async();
	__syncthreads();
	for (int n = 0; n < 16; n++)
		for (int i = 0; i < 4; i++)
			d[n][i] = 1.0f;
	if (FORM != NO_BEGIN)
		kv_wgmma_begin();
	for (uint32_t k = 0; k < 64; k += 16) {
		if (FORM == TURNED || FORM == WIDE) {
			uint32_t r[4];

			for (uint32_t i = 0; i < 4; i++)
				memcpy(&r[i], s + swizzled(row + i % 2 * 8, k + i / 2 * 8 + 2 * q),
				       4);
			kv_operand o = kv_operand_of(sb + k * 64, 64 * LINE_BYTES, 8 * LINE_BYTES);
			if (FORM == WIDE)
				kv_wgmma_64x128_turned(d, r, o);
			else
				kv_wgmma_64x64_turned(d, r, o);
		} else if (FORM != ONE_WARP || t < 32) {
			kv_wgmma_64x64(d,
				       kv_operand_skip(kv_operand_of(s, 0, 8 * LINE_BYTES), k * 2),
				       kv_operand_skip(kv_operand_of(sb, 0, 8 * LINE_BYTES), k * 2),
				       k > 0);
		}
	}
	kv_wgmma_commit();
	if (FORM != UNWAITED)
		kv_wgmma_wait<0>();
	for (uint32_t n = 0; n < (FORM == WIDE ? 16 : 8); n++)
		for (uint32_t i = 0; i < 4; i++)
			out[(row + i / 2 * 8) * (FORM == WIDE ? 128 : 64) + n * 8 + 2 * q + i % 2] =
				d[n][i];
}

static float value(uint16_t x)
{
	return kv_bf16_to_f32(x);
}

/* b's element of summed index k and column n. */
static float b_of(int form, const uint16_t *b, uint32_t k, uint32_t n)
{
	if (form == PLAIN)
		return value(b[n * 64 + k]);
	return value(b[(n / 64 * 64 + k) * 64 + n % 64]);
}

template <int FORM>
static void launch_product(float *out, uint32_t columns, uint16_t *a, uint16_t *b)
{
	static uint16_t host_a[64 * 64], host_b[LINES * 64];
	uint64_t seed = 3;
	uint16_t *da, *db;
	float *d = (float *)device_new(NULL, 64 * 128 * sizeof(float));

	for (uint16_t &x : host_a)
		x = kv_f32_to_bf16((float)(test_uniform(&seed) - 0.5));
	for (uint16_t &x : host_b)
		x = kv_f32_to_bf16((float)(test_uniform(&seed) - 0.5));
	da = (uint16_t *)device_new(host_a, sizeof(host_a));
	db = (uint16_t *)device_new(host_b, sizeof(host_b));
	assert_int_equal(KV_LAUNCH(product<FORM>, 1, KV_WARPGROUP, (64 + LINES) * LINE_BYTES, 0, d,
				   da, db, FORM == WIDE ? 128u : 64u),
			 cudaSuccess);
	if (out) {
		device_read(out, d, 64 * columns * sizeof(float));
		memcpy(a, host_a, sizeof(host_a));
		memcpy(b, host_b, sizeof(host_b));
		cudaFree(da);
		cudaFree(db);
		cudaFree(d);
	}
}

template <int FORM> static void check_product(uint32_t columns)
{
	static float out[64 * 128];
	static uint16_t a[64 * 64], b[LINES * 64];

	launch_product<FORM>(out, columns, a, b);
	for (uint32_t i = 0; i < 64; i++) {
		for (uint32_t j = 0; j < columns; j++) {
			/* The plain form's first step does not add. */
			float sum = FORM == PLAIN ? 0.0f : 1.0f;

			for (uint32_t k = 0; k < 64; k++)
				sum += value(a[i * 64 + k]) * b_of(FORM, b, k, j);
			assert_true(out[i * columns + j] == sum);
		}
	}
}

static void test_products(void **state)
{
	(void)state;
	check_product<PLAIN>(64);
	check_product<TURNED>(64);
	check_product<WIDE>(128);
}

static void test_missing_wait_reads_nan(void **state)
{
	static float out[64 * 64];
	static uint16_t a[64 * 64], b[LINES * 64];

	(void)state;
	launch_product<UNWAITED>(out, 64, a, b);
	for (float x : out)
		assert_true(x != x);
}

/* Two batches on two accumulators, and one more on the first. */
KV_KERNEL batches(float *out)
{
	KV_SMEM(uint16_t, s);
	uint32_t t = threadIdx.x;
	float x[8][4] = {}, y[8][4] = {};
	kv_operand o = kv_operand_of(s, 0, 8 * LINE_BYTES);

	for (uint32_t i = t; i < 64 * 64; i += KV_WARPGROUP)
		s[i] = 0x3f80;
	kv_fence_async();
	__syncthreads();
	kv_wgmma_begin();
	kv_wgmma_64x64(x, o, o, true);
	kv_wgmma_commit();
	kv_wgmma_begin();
	kv_wgmma_64x64(y, o, o, true);
	kv_wgmma_64x64(x, o, o, true);
	kv_wgmma_commit();
	kv_wgmma_wait<1>();
	out[t * 4] = x[7][3];
	out[t * 4 + 1] = y[7][3];
	kv_wgmma_wait<0>();
	out[t * 4 + 2] = x[7][3];
	out[t * 4 + 3] = y[7][3];
}

static void test_batches(void **state)
{
	float out[KV_WARPGROUP * 4];
	float *d = (float *)device_new(NULL, sizeof(out));

	(void)state;
	assert_int_equal(KV_LAUNCH(batches, 1, KV_WARPGROUP, 64 * LINE_BYTES, 0, d), cudaSuccess);
	device_read(out, d, sizeof(out));
	for (int t = 0; t < KV_WARPGROUP; t++) {
		/* x is under way again in the second batch. */
		assert_true(out[t * 4] != out[t * 4]);
		assert_true(out[t * 4 + 1] != out[t * 4 + 1]);
		assert_true(out[t * 4 + 2] == 32.0f);
		assert_true(out[t * 4 + 3] == 16.0f);
	}
	cudaFree(d);
}

/* Warp 0 fills two slots in turn, warps 1 to 3 read them: full counts 32 arrivals, empty 96. */
KV_KERNEL pipeline(uint32_t *out, uint32_t rounds)
{
	KV_SMEM(uint64_t, bars);
	uint32_t *slots = reinterpret_cast<uint32_t *>(bars + 4);
	uint32_t t = threadIdx.x, sum = 0;

	if (t == 0) {
		for (int i = 0; i < 2; i++) {
			kv_mbarrier_init(&bars[i], 32);
			kv_mbarrier_init(&bars[2 + i], 96);
		}
	}
	__syncthreads();
	for (uint32_t i = 0; i < rounds; i++) {
		uint32_t slot = i % 2, parity = i / 2 % 2;

		if (t < 32) {
			kv_mbarrier_wait(&bars[2 + slot], parity ^ 1);
			slots[slot * 32 + t] = i * 100 + t;
			kv_mbarrier_arrive(&bars[slot]);
		} else {
			kv_mbarrier_wait(&bars[slot], parity);
			sum += slots[slot * 32 + (t + 3) % 32];
			kv_mbarrier_arrive(&bars[2 + slot]);
		}
	}
	out[t] = sum;
}

static void test_mbarrier(void **state)
{
	uint32_t out[128];
	uint32_t *d = (uint32_t *)device_new(NULL, sizeof(out));

	(void)state;
	assert_int_equal(KV_LAUNCH(pipeline, 2, 128, 512, 0, d, 7u), cudaSuccess);
	device_read(out, d, sizeof(out));
	for (uint32_t t = 32; t < 128; t++)
		assert_int_equal(out[t], 2100 + 7 * ((t + 3) % 32));
	cudaFree(d);
}

KV_KERNEL no_init(uint32_t *out)
{
	KV_SMEM(uint64_t, bar);

	kv_mbarrier_arrive(bar);
	out[threadIdx.x] = 1;
}

KV_KERNEL one_short(uint32_t *out)
{
	KV_SMEM(uint64_t, bar);

	if (threadIdx.x == 0)
		kv_mbarrier_init(bar, KV_WARPGROUP + 1);
	__syncthreads();
	kv_mbarrier_arrive(bar);
	kv_mbarrier_wait(bar, 0);
	out[threadIdx.x] = 1;
}

template <void (*KERNEL)(uint32_t *)> static void launch(void)
{
	KV_LAUNCH(KERNEL, 1, KV_WARPGROUP, 64, 0, (uint32_t *)device_new(NULL, KV_WARPGROUP * 4));
}

template <int FORM> static void launch_fault(void)
{
	launch_product<FORM>(NULL, 64, NULL, NULL);
}

static void test_faults(void **state)
{
	(void)state;
	assert_fault(launch_fault<NO_BEGIN>, cudaErrorLaunchFailure, "kv_wgmma_begin is missing");
	assert_fault(launch_fault<NO_FENCE>, cudaErrorLaunchFailure,
		     "kv_fence_async did not follow");
	assert_fault(launch_fault<ONE_WARP>, cudaErrorLaunchFailure, "some of its warps only");
	assert_fault(launch<no_init>, cudaErrorLaunchFailure, "nobody initialised");
	assert_fault(launch<one_short>, cudaErrorLaunchFailure, "waits without end");
}

/* The faults come first: a process that has used the device cannot fork for another. */
TEST_MAIN(cudasim_exec_hopper, cmocka_unit_test(test_faults), cmocka_unit_test(test_products),
	  cmocka_unit_test(test_missing_wait_reads_nan), cmocka_unit_test(test_batches),
	  cmocka_unit_test(test_mbarrier))
