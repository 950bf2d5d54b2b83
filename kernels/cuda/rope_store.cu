/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the QKV product and attention, in one kernel: the norm of q and k, the rotation, the
 * rounding to bf16, q out, k and v into the pages (layout "cuda.bf16.token"). One block a row: its
 * angles are made once, then each warp takes one head after the other. A row of padding writes
 * nothing; one of a sequence that is only asked writes q alone.
 */
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/launch.h"

#include <math.h>

#define ROPE_THREADS 128u
#define ROPE_WARPS (ROPE_THREADS / KV_WARP)
#define ROPE_2_PI 6.283185307179586476925286766559
#define ROPE_2_PI_INVERSE 0.15915494309189533576888376337251

/*
 * Of row `pos`: the whole turns are taken off in double, where what is left of an angle of 2^22
 * keeps 29 bits, so that the sine of a float does.
 */
KV_DEVICE void rope_angles(const cuda_rope &r, uint32_t pos, float *cosines, float *sines)
{
	for (uint32_t i = threadIdx.x; i < r.rope_dim / 2; i += ROPE_THREADS) {
		double angle = static_cast<double>(pos) * static_cast<double>(r.inv_freq[i]);
		double turns = rint(angle * ROPE_2_PI_INVERSE);
		float rest = static_cast<float>(angle - turns * ROPE_2_PI);

		cosines[i] = cosf(rest);
		sines[i] = sinf(rest);
	}
}

/* 1 / rms of a head, the same bits in each lane. */
KV_DEVICE float rope_scale(const float *x, uint32_t head_dim, float eps)
{
	float sum = 0;

	for (uint32_t i = threadIdx.x % KV_WARP; i < head_dim; i += KV_WARP)
		sum = kv_fma(x[i], x[i], sum);
	return 1.0f / sqrtf(kv_warp_sum(sum) / static_cast<float>(head_dim) + eps);
}

/* One head of q or k. */
KV_DEVICE void rope_head(const cuda_rope &r, const float *x, const float *norm,
			 const float *cosines, const float *sines, uint16_t *out)
{
	uint32_t pairs = r.rope_dim / 2;
	float scale = norm ? rope_scale(x, r.head_dim, r.norm_eps) : 1.0f;

	for (uint32_t i = threadIdx.x % KV_WARP; i < pairs; i += KV_WARP) {
		float a = x[i], b = x[i + pairs];

		if (norm) {
			a = a * scale * norm[i];
			b = b * scale * norm[i + pairs];
		}
		out[i] = kv_f32_to_bf16(a * cosines[i] - b * sines[i]);
		out[i + pairs] = kv_f32_to_bf16(a * sines[i] + b * cosines[i]);
	}
	for (uint32_t i = 2 * pairs + threadIdx.x % KV_WARP; i < r.head_dim; i += KV_WARP)
		out[i] = kv_f32_to_bf16(norm ? x[i] * scale * norm[i] : x[i]);
}

KV_DEVICE void rope_round(const float *x, uint32_t count, uint16_t *out)
{
	for (uint32_t i = threadIdx.x % KV_WARP; i < count; i += KV_WARP)
		out[i] = kv_f32_to_bf16(x[i]);
}

KV_KERNEL __launch_bounds__(ROPE_THREADS) rope_rows(cuda_rope r)
{
	KV_SMEM(float, cosines);
	float *sines = cosines + r.rope_dim / 2;
	uint32_t index = r.row_seq[blockIdx.x];
	uint32_t heads = r.heads + 2 * r.kv_heads;

	if (index == CUDA_NONE)
		return;
	cuda_seq seq = r.seqs[index];
	uint32_t pos = seq.pos0 + (blockIdx.x - seq.row0);
	uint64_t row = blockIdx.x;
	const float *x = r.qkv + row * heads * r.head_dim;
	if (KVD_MUTANT(rope_stores_queries))
		seq.store = 1;
	uint64_t page = seq.store ? r.pages[seq.page0 + pos / r.page_tokens] : 0;
	/* K of head 0 for this token. */
	uint64_t k = page + r.layer_k_offset +
		     static_cast<uint64_t>(pos % r.page_tokens) * r.head_dim * sizeof(uint16_t);

	rope_angles(r, pos, cosines, sines);
	__syncthreads();
	for (uint32_t h = threadIdx.x / KV_WARP; h < (seq.store ? heads : r.heads);
	     h += ROPE_WARPS) {
		const float *head = x + h * r.head_dim;
		uint64_t at = k + (h - r.heads) * r.head_bytes;

		if (h < r.heads)
			rope_head(r, head, r.q_norm, cosines, sines,
				  r.q + (row * r.heads + h) * r.head_dim);
		else if (h < r.heads + r.kv_heads)
			rope_head(r, head, r.k_norm, cosines, sines,
				  reinterpret_cast<uint16_t *>(at));
		else
			rope_round(head, r.head_dim, reinterpret_cast<uint16_t *>(at));
	}
}

extern "C" cudaError_t cuda_rope_store(cudaStream_t stream, const struct cuda_rope *r)
{
	return KV_LAUNCH(rope_rows, dim3(r->rows), dim3(ROPE_THREADS), r->rope_dim * sizeof(float),
			 stream, *r);
}
