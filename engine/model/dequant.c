/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of ggml's formats to f32. A legacy block holds 32 weights that share one scale `d` (and,
 * in the _1 types, a minimum `m`); a K block holds 256 weights in groups of 16 or 32, whose scales
 * are themselves small integers times `d`. Low and high nibbles of one byte are half a group
 * apart. All integers are little endian and unaligned, so that rows can be read from the map.
 *
 * Pure functions of their arguments: any thread. Speed matters a little (it is most of the load
 * time), so each loop is one a compiler can vectorise.
 */
#include "engine/model/dequant.h"

#include <base/bits.h>
#include <stddef.h>
#include <string.h>

#define LEGACY 32u
#define KBLOCK 256u

static uint16_t load16(const uint8_t *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}

static uint32_t load32(const uint8_t *p)
{
	return (uint32_t)load16(p) | (uint32_t)load16(p + 2) << 16;
}

static float from_bits(uint32_t bits)
{
	float v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}

static float half(const uint8_t *p)
{
	uint32_t h = load16(p);
	uint32_t sign = (h & 0x8000u) << 16;
	uint32_t magnitude = h & 0x7fffu;

	if (magnitude >= 0x7c00u)
		return from_bits(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
	/* Scaling by 2^112 rebiases the exponent and makes normal numbers of subnormal ones. */
	return from_bits(sign | (magnitude << 13)) * 0x1p112f;
}

static void row_f32(const uint8_t *src, uint64_t blocks, float *dst)
{
	for (uint64_t i = 0; i < blocks; i++)
		dst[i] = from_bits(load32(src + 4 * i));
}

static void row_f16(const uint8_t *src, uint64_t blocks, float *dst)
{
	for (uint64_t i = 0; i < blocks; i++)
		dst[i] = half(src + 2 * i);
}

static void row_bf16(const uint8_t *src, uint64_t blocks, float *dst)
{
	for (uint64_t i = 0; i < blocks; i++)
		dst[i] = from_bits((uint32_t)load16(src + 2 * i) << 16);
}

static void row_q8_0(const uint8_t *src, uint64_t blocks, float *dst)
{
	for (uint64_t b = 0; b < blocks; b++, src += 34, dst += LEGACY) {
		float d = half(src);
		const int8_t *q = (const int8_t *)src + 2;

		for (uint32_t i = 0; i < LEGACY; i++)
			dst[i] = (float)q[i] * d;
	}
}

static void row_q4_0(const uint8_t *src, uint64_t blocks, float *dst)
{
	for (uint64_t b = 0; b < blocks; b++, src += 18, dst += LEGACY) {
		float d = half(src);
		const uint8_t *q = src + 2;

		for (uint32_t i = 0; i < LEGACY / 2; i++) {
			dst[i] = (float)((q[i] & 15) - 8) * d;
			dst[i + LEGACY / 2] = (float)((q[i] >> 4) - 8) * d;
		}
	}
}

static void row_q4_1(const uint8_t *src, uint64_t blocks, float *dst)
{
	for (uint64_t b = 0; b < blocks; b++, src += 20, dst += LEGACY) {
		float d = half(src);
		float m = half(src + 2);
		const uint8_t *q = src + 4;

		for (uint32_t i = 0; i < LEGACY / 2; i++) {
			dst[i] = (float)(q[i] & 15) * d + m;
			dst[i + LEGACY / 2] = (float)(q[i] >> 4) * d + m;
		}
	}
}

/* The fifth bits of 32 weights lie in one word, weight i at bit i. */
static void row_q5_0(const uint8_t *src, uint64_t blocks, float *dst)
{
	for (uint64_t b = 0; b < blocks; b++, src += 22, dst += LEGACY) {
		float d = half(src);
		uint32_t high = load32(src + 2);
		const uint8_t *q = src + 6;

		for (uint32_t i = 0; i < LEGACY / 2; i++) {
			int low = (int)((q[i] & 15u) | (high >> i & 1) << 4);
			int top = (int)((q[i] >> 4) | (high >> (i + 16) & 1) << 4);

			dst[i] = (float)(low - 16) * d;
			dst[i + LEGACY / 2] = (float)(top - 16) * d;
		}
	}
}

static void row_q5_1(const uint8_t *src, uint64_t blocks, float *dst)
{
	for (uint64_t b = 0; b < blocks; b++, src += 24, dst += LEGACY) {
		float d = half(src);
		float m = half(src + 2);
		uint32_t high = load32(src + 4);
		const uint8_t *q = src + 8;

		for (uint32_t i = 0; i < LEGACY / 2; i++) {
			uint32_t low = (q[i] & 15u) | (high >> i & 1) << 4;
			uint32_t top = (uint32_t)(q[i] >> 4) | (high >> (i + 16) & 1) << 4;

			dst[i] = (float)low * d + m;
			dst[i + LEGACY / 2] = (float)top * d + m;
		}
	}
}

/*
 * Eight 6-bit scales and eight 6-bit minima in 12 bytes: the first four of each in the low six
 * bits of bytes 0-3 and 4-7; the last four have their low nibbles in bytes 8-11 and their two top
 * bits in the top bits of those.
 */
static void k_scale(const uint8_t *s, uint32_t group, float *out_scale, float *out_min)
{
	uint32_t scale, min;

	if (group < 4) {
		scale = s[group] & 63u;
		min = s[group + 4] & 63u;
	} else {
		scale = (s[group + 4] & 15u) | (uint32_t)(s[group - 4] >> 6) << 4;
		min = (uint32_t)(s[group + 4] >> 4) | (uint32_t)(s[group] >> 6) << 4;
	}
	*out_scale = (float)scale;
	*out_min = (float)min;
}

/* Groups 2j and 2j + 1 are the low and the high nibbles of the same 32 bytes. */
static void row_q4_k(const uint8_t *src, uint64_t blocks, float *dst)
{
	for (uint64_t b = 0; b < blocks; b++, src += 144, dst += KBLOCK) {
		float d = half(src);
		float dmin = half(src + 2);

		for (uint32_t group = 0; group < 8; group++) {
			const uint8_t *q = src + 16 + group / 2 * 32;
			uint32_t shift = group % 2 * 4;
			float scale, min;

			k_scale(src + 4, group, &scale, &min);
			scale *= d;
			min *= dmin;
			for (uint32_t i = 0; i < 32; i++)
				dst[group * 32 + i] = scale * (float)(q[i] >> shift & 15) - min;
		}
	}
}

/* As q4_k; bit `group` of byte i of the high bits is the fifth bit of weight i of the group. */
static void row_q5_k(const uint8_t *src, uint64_t blocks, float *dst)
{
	for (uint64_t b = 0; b < blocks; b++, src += 176, dst += KBLOCK) {
		float d = half(src);
		float dmin = half(src + 2);
		const uint8_t *high = src + 16;

		for (uint32_t group = 0; group < 8; group++) {
			const uint8_t *q = src + 48 + group / 2 * 32;
			uint32_t shift = group % 2 * 4;
			float scale, min;

			k_scale(src + 4, group, &scale, &min);
			scale *= d;
			min *= dmin;
			for (uint32_t i = 0; i < 32; i++) {
				int v = (q[i] >> shift & 15) | (high[i] >> group & 1) << 4;

				dst[group * 32 + i] = scale * (float)v - min;
			}
		}
	}
}

/*
 * Two halves of 128 weights. In a half, quarter t (32 weights) has its low four bits in nibble
 * t / 2 of bytes 32 (t % 2) + i and its two top bits in bits 2 t of byte i of the high bits.
 */
static void row_q6_k(const uint8_t *src, uint64_t blocks, float *dst)
{
	for (uint64_t b = 0; b < blocks; b++, src += 210, dst += KBLOCK) {
		const int8_t *scale = (const int8_t *)src + 192;
		float d = half(src + 208);

		for (uint32_t part = 0; part < 8; part++) {
			uint32_t t = part % 4;
			const uint8_t *low = src + part / 4 * 64 + t % 2 * 32;
			const uint8_t *high = src + 128 + part / 4 * 32;

			for (uint32_t i = 0; i < 32; i++) {
				int v = (low[i] >> (t / 2 * 4) & 15) | (high[i] >> (2 * t) & 3)
									       << 4;

				dst[part * 32 + i] =
					d * (float)scale[part * 2 + i / 16] * (float)(v - 32);
			}
		}
	}
}

static const struct dequant_type types[] = {
	{0, "F32", 1, 4, row_f32},	     {1, "F16", 1, 2, row_f16},
	{2, "Q4_0", LEGACY, 18, row_q4_0},   {3, "Q4_1", LEGACY, 20, row_q4_1},
	{6, "Q5_0", LEGACY, 22, row_q5_0},   {7, "Q5_1", LEGACY, 24, row_q5_1},
	{8, "Q8_0", LEGACY, 34, row_q8_0},   {12, "Q4_K", KBLOCK, 144, row_q4_k},
	{13, "Q5_K", KBLOCK, 176, row_q5_k}, {14, "Q6_K", KBLOCK, 210, row_q6_k},
	{30, "BF16", 1, 2, row_bf16},
};

const struct dequant_type *dequant_find(uint32_t type)
{
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		if (types[i].type == type)
			return &types[i];
	}
	return NULL;
}

const char *dequant_names(void)
{
	return "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K";
}
