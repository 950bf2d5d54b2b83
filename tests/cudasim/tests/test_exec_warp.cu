/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of a warp against plain loops over its lanes. */
#include "kernels/cuda/common.cuh"
#include "tests/cudasim/tests/exec_test.h"

static uint32_t value_of(uint32_t lane)
{
	return lane * 2654435761u + 12345u;
}

KV_KERNEL shuffles(uint32_t *out, int operand, int width)
{
	uint32_t t = threadIdx.x, v = t % 32 * 2654435761u + 12345u;

	out[t * 4] = __shfl_sync(KV_FULL_MASK, v, operand, width);
	out[t * 4 + 1] = __shfl_up_sync(KV_FULL_MASK, v, static_cast<unsigned>(operand), width);
	out[t * 4 + 2] = __shfl_down_sync(KV_FULL_MASK, v, static_cast<unsigned>(operand), width);
	out[t * 4 + 3] = __shfl_xor_sync(KV_FULL_MASK, v, operand, width);
}

static void check_shuffles(uint32_t *d, int operand, int width)
{
	static uint32_t out[64 * 4];

	assert_int_equal(KV_LAUNCH(shuffles, 1, 64, 0, 0, d, operand, width), cudaSuccess);
	device_read(out, d, sizeof(out));
	for (int t = 0; t < 64; t++) {
		int lane = t % 32, first = lane / width * width, in = lane - first;

		assert_int_equal(out[t * 4], value_of((uint32_t)(first + operand % width)));
		assert_int_equal(out[t * 4 + 1],
				 value_of((uint32_t)(in >= operand ? lane - operand : lane)));
		assert_int_equal(
			out[t * 4 + 2],
			value_of((uint32_t)(in + operand < width ? lane + operand : lane)));
		assert_int_equal(
			out[t * 4 + 3],
			value_of((uint32_t)((lane ^ operand) < first + width ? lane ^ operand
									     : lane)));
	}
}

static void test_shuffles(void **state)
{
	uint32_t *d = (uint32_t *)device_new(NULL, 64 * 4 * 4);

	(void)state;
	for (int width = 1; width <= 32; width *= 2)
		for (int operand = 0; operand < width; operand++)
			check_shuffles(d, operand, width);
	check_shuffles(d, 16, 8);
	cudaFree(d);
}

KV_KERNEL wide(double *out)
{
	double x = 1.0 / (1.0 + threadIdx.x);

	out[threadIdx.x] = __shfl_xor_sync(KV_FULL_MASK, x, 3);
}

static void test_eight_bytes(void **state)
{
	double out[32];
	double *d = (double *)device_new(NULL, sizeof(out));

	(void)state;
	assert_int_equal(KV_LAUNCH(wide, 1, 32, 0, 0, d), cudaSuccess);
	device_read(out, d, sizeof(out));
	for (int i = 0; i < 32; i++)
		assert_true(out[i] == 1.0 / (1.0 + (i ^ 3)));
	cudaFree(d);
}

struct vote {
	uint32_t ballot, any, all, match, add, min_signed, max_unsigned, both, either, odd;
};

KV_KERNEL ballots(vote *out, uint32_t mask)
{
	uint32_t lane = threadIdx.x % 32;
	vote v = {};

	/* The two parts of the warp go their own ways. */
	if (mask >> lane & 1) {
		v.ballot = __ballot_sync(mask, lane % 5 == 0);
		v.any = static_cast<uint32_t>(__any_sync(mask, lane == 40));
		v.all = static_cast<uint32_t>(__all_sync(mask, lane < 32));
		v.match = __match_any_sync(mask, lane % 7);
		v.add = __reduce_add_sync(mask, lane);
		v.min_signed =
			static_cast<uint32_t>(__reduce_min_sync(mask, static_cast<int>(lane) - 9));
		v.max_unsigned = __reduce_max_sync(mask, lane - 9u);
		v.both = __reduce_and_sync(mask, lane | 0x30u);
		v.either = __reduce_or_sync(mask, lane);
		v.odd = __reduce_xor_sync(mask, lane);
	} else {
		v.ballot = __ballot_sync(~mask, lane % 5 == 0);
	}
	__syncwarp();
	out[threadIdx.x] = v;
}

static vote expected_vote(uint32_t mask, uint32_t self)
{
	vote v = {0, 0, 1, 0, 0, 0x7fffffffu, 0, ~0u, 0, 0};

	for (uint32_t lane = 0; lane < 32; lane++) {
		if (!(mask >> lane & 1))
			continue;
		v.ballot |= (uint32_t)(lane % 5 == 0) << lane;
		v.match |= (uint32_t)(lane % 7 == self % 7) << lane;
		v.add += lane;
		v.min_signed = (int)lane - 9 < (int)v.min_signed ? lane - 9 : v.min_signed;
		v.max_unsigned = lane - 9u > v.max_unsigned ? lane - 9u : v.max_unsigned;
		v.both &= lane | 0x30u;
		v.either |= lane;
		v.odd ^= lane;
	}
	return v;
}

static void check_votes(vote *d, uint32_t mask)
{
	vote out[64];

	assert_int_equal(KV_LAUNCH(ballots, 1, 64, 0, 0, d, mask), cudaSuccess);
	device_read(out, d, sizeof(out));
	for (uint32_t t = 0; t < 64; t++) {
		uint32_t lane = t % 32;
		vote want = expected_vote(mask, lane);

		if (mask >> lane & 1)
			assert_memory_equal(&out[t], &want, sizeof(want));
		else
			assert_int_equal(out[t].ballot, expected_vote(~mask, lane).ballot);
	}
}

static void test_votes(void **state)
{
	vote *d = (vote *)device_new(NULL, 64 * sizeof(vote));

	(void)state;
	check_votes(d, 0xffffffffu);
	check_votes(d, 0x0000ffffu);
	check_votes(d, 0xa5a51234u);
	check_votes(d, 1);
	cudaFree(d);
}

KV_KERNEL sums(float *out, const float *in)
{
	float x = in[threadIdx.x];

	out[threadIdx.x * 2] = kv_warp_sum(x);
	out[threadIdx.x * 2 + 1] = kv_warp_max(x);
}

static void test_warp_sum(void **state)
{
	float in[32], tree[32], out[64], most = -2;
	uint64_t seed = 5;
	float *d = (float *)device_new(NULL, sizeof(out));
	float *d_in;

	(void)state;
	for (int i = 0; i < 32; i++) {
		in[i] = tree[i] = (float)(test_uniform(&seed) - 0.5);
		most = in[i] > most ? in[i] : most;
	}
	d_in = (float *)device_new(in, sizeof(in));
	for (int n = 16; n > 0; n /= 2)
		for (int i = 0; i < n; i++)
			tree[i] += tree[i + n];
	assert_int_equal(KV_LAUNCH(sums, 1, 32, 0, 0, d, d_in), cudaSuccess);
	device_read(out, d, sizeof(out));
	for (int i = 0; i < 32; i++) {
		assert_true(out[i * 2] == tree[0]);
		assert_true(out[i * 2 + 1] == most);
	}
	cudaFree(d);
	cudaFree(d_in);
}

TEST_MAIN(cudasim_exec_warp, cmocka_unit_test(test_shuffles), cmocka_unit_test(test_eight_bytes),
	  cmocka_unit_test(test_votes), cmocka_unit_test(test_warp_sum))
