/* SPDX-License-Identifier: Apache-2.0 */
/* Fragments: matrix loads against the table of PTX, products against plain loops. */
#include "kernels/cuda/common.cuh"
#include "tests/cudasim/tests/exec_test.h"

/* Four 8x8 matrices one after another; lane l gives row l % 8 of matrix l / 8. */
KV_KERNEL load_fragments(uint32_t *out, const uint16_t *in)
{
	KV_SMEM(uint16_t, s);
	uint32_t t = threadIdx.x, r[12];

	for (uint32_t i = t; i < 256; i += 32)
		s[i] = in[i];
	__syncthreads();
	kv_ldmatrix_x4(r, s + t * 8);
	kv_ldmatrix_x4_trans(r + 4, s + t * 8);
	/* Lanes 16 to 31 give no address here. */
	kv_ldmatrix_x2(r + 8, t < 16 ? s + t * 8 : nullptr);
	kv_ldmatrix_x2_trans(r + 10, t < 16 ? s + t * 8 : nullptr);
	for (uint32_t i = 0; i < 12; i++)
		out[t * 12 + i] = r[i];
}

static void test_ldmatrix(void **state)
{
	uint16_t in[256];
	uint32_t out[32 * 12];
	uint16_t *d_in;
	uint32_t *d = (uint32_t *)device_new(NULL, sizeof(out));

	(void)state;
	for (int i = 0; i < 256; i++)
		in[i] = (uint16_t)(i * 251 + 7);
	d_in = (uint16_t *)device_new(in, sizeof(in));
	assert_int_equal(KV_LAUNCH(load_fragments, 1, 32, 512, 0, d, d_in), cudaSuccess);
	device_read(out, d, sizeof(out));
	for (int lane = 0; lane < 32; lane++) {
		for (int m = 0; m < 4; m++) {
			const uint16_t *x = in + m * 64;
			int g = lane / 4, t = lane % 4 * 2;
			uint32_t plain = x[g * 8 + t] | (uint32_t)x[g * 8 + t + 1] << 16;
			uint32_t turned = x[t * 8 + g] | (uint32_t)x[(t + 1) * 8 + g] << 16;

			assert_int_equal(out[lane * 12 + m], plain);
			assert_int_equal(out[lane * 12 + 4 + m], turned);
			if (m < 2) {
				assert_int_equal(out[lane * 12 + 8 + m], plain);
				assert_int_equal(out[lane * 12 + 10 + m], turned);
			}
		}
	}
	cudaFree(d);
	cudaFree(d_in);
}

/* d[16][8] = c + a[16][16] * b[16][8], a and b through ldmatrix, as a GEMM does it. */
KV_KERNEL product(float *d, const uint16_t *a, const uint16_t *b, const float *c)
{
	KV_SMEM(uint16_t, s);
	uint32_t t = threadIdx.x, fa[4], fb[2];
	uint32_t g = t / 4, q = t % 4;
	float f[4];

	for (uint32_t i = t; i < 256; i += 32)
		s[i] = a[i];
	for (uint32_t i = t; i < 128; i += 32)
		s[256 + i] = b[i];
	__syncthreads();
	kv_ldmatrix_x4(fa, s + t % 16 * 16 + t / 16 * 8);
	kv_ldmatrix_x2_trans(fb, s + 256 + t % 16 * 8);
	for (uint32_t i = 0; i < 4; i++)
		f[i] = c[(g + i / 2 * 8) * 8 + 2 * q + i % 2];
	kv_mma_bf16(f, fa, fb);
	for (uint32_t i = 0; i < 4; i++)
		d[(g + i / 2 * 8) * 8 + 2 * q + i % 2] = f[i];
}

static float from_bf16(uint16_t x)
{
	uint32_t bits = (uint32_t)x << 16;
	float y;

	memcpy(&y, &bits, sizeof(y));
	return y;
}

static void test_mma(void **state)
{
	static uint16_t a[256], b[128];
	static float c[128], out[128];
	uint64_t seed = 9;
	float *d = (float *)device_new(NULL, sizeof(out)), *dc;
	uint16_t *da, *db;

	(void)state;
	for (uint16_t &x : a)
		x = kv_f32_to_bf16((float)(test_uniform(&seed) - 0.5));
	for (uint16_t &x : b)
		x = kv_f32_to_bf16((float)(test_uniform(&seed) * 3 - 1));
	for (float &x : c)
		x = (float)test_uniform(&seed);
	da = (uint16_t *)device_new(a, sizeof(a));
	db = (uint16_t *)device_new(b, sizeof(b));
	dc = (float *)device_new(c, sizeof(c));
	assert_int_equal(KV_LAUNCH(product, 1, 32, 768, 0, d, da, db, dc), cudaSuccess);
	device_read(out, d, sizeof(out));
	for (int i = 0; i < 16; i++) {
		for (int j = 0; j < 8; j++) {
			float sum = c[i * 8 + j];

			for (int k = 0; k < 16; k++)
				sum += from_bf16(a[i * 16 + k]) * from_bf16(b[k * 8 + j]);
			assert_true(out[i * 8 + j] == sum);
		}
	}
	cudaFree(d);
	cudaFree(da);
	cudaFree(db);
	cudaFree(dc);
}

static void test_conversions(void **state)
{
	(void)state;
	assert_int_equal(kv_f32_to_bf16(1.0f), 0x3f80);
	/* Halfway goes to even, and what lies beyond the largest becomes infinite. */
	assert_int_equal(kv_f32_to_bf16(__uint_as_float(0x3f808000u)), 0x3f80);
	assert_int_equal(kv_f32_to_bf16(__uint_as_float(0x3f818000u)), 0x3f82);
	assert_int_equal(kv_f32_to_bf16(__uint_as_float(0x7f7fffffu)), 0x7f80);
	assert_int_equal(kv_f32_to_bf16(__uint_as_float(0xffc12345u)), 0x7fff);
	assert_int_equal(kv_bf16x2(1.0f, -2.0f), 0xc0003f80u);
	assert_true(kv_bf16x2_lo(0xc0003f80u) == 1.0f && kv_bf16x2_hi(0xc0003f80u) == -2.0f);
	assert_true(kv_exp2(-3.0f) == 0.125f && kv_exp2(-140.0f) == 0.0f);
}

TEST_MAIN(cudasim_exec_matrix, cmocka_unit_test(test_ldmatrix), cmocka_unit_test(test_mma),
	  cmocka_unit_test(test_conversions))
