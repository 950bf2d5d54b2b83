/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks: indices, barriers, shared memory, atomics, limits, and that seeds are other orders. */
#include "kernels/cuda/common.cuh"
#include "tests/cudasim/tests/exec_test.h"

KV_KERNEL count_threads(uint32_t *out)
{
	uint32_t block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
	uint32_t thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);

	out[block * (blockDim.x * blockDim.y * blockDim.z) + thread]++;
}

static void test_indices(void **state)
{
	static uint32_t out[3 * 4 * 5 * 7 * 3 * 2];
	uint32_t *d = (uint32_t *)device_new(NULL, sizeof(out));

	(void)state;
	assert_int_equal(KV_LAUNCH(count_threads, dim3(3, 4, 5), dim3(7, 3, 2), 0, 0, d),
			 cudaSuccess);
	device_read(out, d, sizeof(out));
	for (uint32_t x : out)
		assert_int_equal(x, 1);
	cudaFree(d);
}

/* Each round reads the neighbour's value of the round before. */
KV_KERNEL pass_round(uint32_t *out, int rounds)
{
	KV_SMEM(uint32_t, value);
	uint32_t t = threadIdx.x;

	value[t] = t;
	for (int i = 0; i < rounds; i++) {
		__syncthreads();
		uint32_t next = value[(t + 1) % blockDim.x];
		__syncthreads();
		value[t] = next;
	}
	out[t] = value[t];
}

/* The same without the second barrier. */
KV_KERNEL pass_round_racy(uint32_t *out, int rounds)
{
	KV_SMEM(uint32_t, value);
	uint32_t t = threadIdx.x;

	value[t] = t;
	for (int i = 0; i < rounds; i++) {
		__syncthreads();
		value[t] = value[(t + 1) % blockDim.x];
	}
	out[t] = value[t];
}

static void test_syncthreads(void **state)
{
	uint32_t out[320];
	uint32_t *d = (uint32_t *)device_new(NULL, sizeof(out));

	(void)state;
	assert_int_equal(KV_LAUNCH(pass_round, 1, 320, 320 * 4, 0, d, 9), cudaSuccess);
	device_read(out, d, sizeof(out));
	for (uint32_t i = 0; i < 320; i++)
		assert_int_equal(out[i], (i + 9) % 320);
	cudaFree(d);
}

struct twice_arg {
	uint32_t *device;
	uint32_t *host;
	bool racy;
};

static void run_pass_round(void *arg)
{
	const twice_arg *a = (const twice_arg *)arg;

	if (a->racy)
		KV_LAUNCH(pass_round_racy, 1, 64, 256, 0, a->device, 3);
	else
		KV_LAUNCH(pass_round, 1, 64, 256, 0, a->device, 3);
	device_read(a->host, a->device, 256);
}

static void test_missing_barrier_shows(void **state)
{
	uint32_t out[64];
	twice_arg a = {(uint32_t *)device_new(NULL, sizeof(out)), out, false};

	(void)state;
	assert_int_equal(cudasim_twice(run_pass_round, &a, out, sizeof(out), 6), TWICE_SAME);
	a.racy = true;
	assert_true(cudasim_twice(run_pass_round, &a, out, sizeof(out), 6) >= 0);
	cudaFree(a.device);
}

KV_KERNEL votes(int *out)
{
	int t = static_cast<int>(threadIdx.x);

	out[t * 3] = __syncthreads_count(t % 3 == 0);
	out[t * 3 + 1] = __syncthreads_or(t == 77);
	out[t * 3 + 2] = __syncthreads_and(t != 77) * 2 + __syncthreads_and(t < 96);
}

static void test_votes(void **state)
{
	int out[96 * 3];
	int *d = (int *)device_new(NULL, sizeof(out));

	(void)state;
	assert_int_equal(KV_LAUNCH(votes, 1, 96, 0, 0, d), cudaSuccess);
	device_read(out, d, sizeof(out));
	for (int i = 0; i < 96; i++) {
		assert_int_equal(out[i * 3], 32);
		assert_int_equal(out[i * 3 + 1], 1);
		assert_int_equal(out[i * 3 + 2], 1);
	}
	cudaFree(d);
}

/* Warp 0 fills what warps 1 and 2 read: full and empty are barriers of 96, 3 is the readers'. */
KV_KERNEL producer(uint32_t *out, int rounds)
{
	KV_SMEM(uint32_t, slot);
	uint32_t t = threadIdx.x, sum = 0;

	for (int i = 0; i < rounds; i++) {
		if (t < 32) {
			if (i > 0)
				kv_barrier(2, 96);
			slot[t] = t * 100 + static_cast<uint32_t>(i);
			kv_barrier_arrive(1, 96);
		} else {
			kv_barrier(1, 96);
			sum += slot[(t + 5) % 32];
			kv_barrier(3, 64);
			if (i + 1 < rounds)
				kv_barrier_arrive(2, 96);
		}
	}
	out[t] = sum;
}

static void test_named_barriers(void **state)
{
	uint32_t out[96];
	uint32_t *d = (uint32_t *)device_new(NULL, sizeof(out));

	(void)state;
	assert_int_equal(KV_LAUNCH(producer, 1, 96, 128, 0, d, 5), cudaSuccess);
	device_read(out, d, sizeof(out));
	for (uint32_t i = 0; i < 96; i++)
		assert_int_equal(out[i], i < 32 ? 0 : (i + 5) % 32 * 500 + 10);
	cudaFree(d);
}

KV_KERNEL peek_smem(uint32_t *out)
{
	KV_SMEM(uint32_t, s);
	uint32_t t = threadIdx.x;

	out[blockIdx.x * blockDim.x + t] = s[t];
	s[t] = 7;
}

static void test_smem_is_poison(void **state)
{
	uint32_t out[4 * 32];
	uint32_t *d = (uint32_t *)device_new(NULL, sizeof(out));

	(void)state;
	assert_int_equal(KV_LAUNCH(peek_smem, 4, 32, 128, 0, d), cudaSuccess);
	device_read(out, d, sizeof(out));
	for (uint32_t x : out)
		assert_int_equal(x, 0xffffffffu);
	cudaFree(d);
}

struct totals {
	unsigned sum;
	int max;
	float floats;
	unsigned long long turns;
	unsigned bits;
};

KV_KERNEL add_up(totals *all)
{
	int t = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
	unsigned long long seen = all->turns, found;

	atomicAdd(&all->sum, static_cast<unsigned>(t));
	atomicMax(&all->max, t % 50);
	atomicAdd(&all->floats, 0.5f);
	atomicOr(&all->bits, 1u << t % 32);
	while ((found = atomicCAS(&all->turns, seen, seen + 3)) != seen)
		seen = found;
}

static void test_atomics(void **state)
{
	totals out;
	totals *d = (totals *)device_new(NULL, sizeof(out));

	(void)state;
	assert_int_equal(KV_LAUNCH(add_up, 8, 128, 0, 0, d), cudaSuccess);
	device_read(&out, d, sizeof(out));
	assert_int_equal(out.sum, 1023 * 512);
	assert_int_equal(out.max, 49);
	assert_true(out.floats == 512.0f);
	assert_int_equal(out.turns, 3072);
	assert_int_equal(out.bits, 0xffffffffu);
	cudaFree(d);
}

template <int A, int B> KV_KERNEL converted(float *out, float x, uint64_t n)
{
	out[0] = x + static_cast<float>(n) + A * B;
}

static void test_arguments(void **state)
{
	float out[1];
	float *d = (float *)device_new(NULL, sizeof(out));

	(void)state;
	assert_int_equal(KV_LAUNCH((converted<2, 3>), 1, 1, 0, 0, d, 1, 10u), cudaSuccess);
	device_read(out, d, sizeof(out));
	assert_true(out[0] == 17.0f);
	cudaFree(d);
}

static void test_limits(void **state)
{
	uint32_t *d = (uint32_t *)device_new(NULL, 4096 * 4);
	cudaDeviceProp prop;

	(void)state;
	assert_int_equal(cudaGetDeviceProperties(&prop, 0), cudaSuccess);
	assert_int_equal(KV_LAUNCH(count_threads, 1, 1024, 0, 0, d), cudaSuccess);
	assert_int_equal(KV_LAUNCH(peek_smem, 1, 32, prop.sharedMemPerBlockOptin, 0, d),
			 cudaSuccess);
	assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
	assert_int_equal(KV_LAUNCH(count_threads, 1, 1025, 0, 0, d), cudaErrorInvalidConfiguration);
	assert_int_equal(KV_LAUNCH(count_threads, 1, dim3(64, 32), 0, 0, d),
			 cudaErrorInvalidConfiguration);
	assert_int_equal(KV_LAUNCH(count_threads, 0, 32, 0, 0, d), cudaErrorInvalidConfiguration);
	assert_int_equal(KV_LAUNCH(count_threads, dim3(1, 65536), 32, 0, 0, d),
			 cudaErrorInvalidConfiguration);
	assert_int_equal(KV_LAUNCH(peek_smem, 1, 32, prop.sharedMemPerBlockOptin + 1, 0, d),
			 cudaErrorInvalidValue);
	assert_int_equal(cudaGetLastError(), cudaErrorInvalidValue);
	assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
	cudaFree(d);
}

TEST_MAIN(cudasim_exec_block, cmocka_unit_test(test_indices), cmocka_unit_test(test_syncthreads),
	  cmocka_unit_test(test_missing_barrier_shows), cmocka_unit_test(test_votes),
	  cmocka_unit_test(test_named_barriers), cmocka_unit_test(test_smem_is_poison),
	  cmocka_unit_test(test_atomics), cmocka_unit_test(test_arguments),
	  cmocka_unit_test(test_limits))
