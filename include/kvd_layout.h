/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kvd_layout.h: named page layouts: where K and V of (layer, kv head, token) lie in a page.
 * kvd never looks inside a page; engines that name the same layout in their format read each
 * other's pages. All sizes in bytes unless named otherwise.
 *
 * Every layout is, outermost first: [layer][K, then V][kv_head][one head's block], so that a page
 * is one contiguous span for all layers and can be moved as one.
 *
 * "cpu.bf16.k16v2": for processors with dot products of bf16 pairs (vdpbf16ps, AMX).
 *   K of one head: [page_tokens / 16][head_dim / 2][16 tokens][2]: 16 keys side by side, so that
 *     one 64-byte load holds one dimension pair of 16 keys.
 *   V of one head: [page_tokens / 2][head_dim][2 tokens]: token pairs side by side, so that one
 *     load holds 16 dimensions of a token pair.
 *   head_dim is a multiple of 2.
 *   Rule 1: who writes the first token of a group of 32 (token % 32 == 0, position in the page)
 *     first zeroes V of the whole group, or writes the whole group at once: a reader may multiply
 *     the missing tokens of a group by 0, and must not meet a NaN.
 *   Rule 2: K of missing tokens holds anything; a reader masks their scores.
 *
 * "cuda.bf16.token": for GPUs, whose copies and matrix loads take whole rows.
 *   K and V of one head: [page_tokens][head_dim]: token after token.
 *   head_dim is a multiple of 8, so that a token's row is a whole number of 16 bytes.
 *   Missing tokens hold anything, in K and in V: a reader takes zeros in their place.
 */
#ifndef KVD_LAYOUT_H
#define KVD_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#define KVD_LAYOUT_CPU_BF16 "cpu.bf16.k16v2"
#define KVD_LAYOUT_V_GROUP 32u
#define KVD_LAYOUT_CUDA_BF16 "cuda.bf16.token"

struct kvd_layout {
	uint32_t layers;
	uint32_t kv_heads;
	uint32_t head_dim;
	uint32_t page_tokens;
	uint32_t element_bytes;
};

/* Bytes of K (or of V) of one head in one page. */
static inline uint64_t kvd_layout_head_bytes(const struct kvd_layout *l)
{
	return (uint64_t)l->page_tokens * l->head_dim * l->element_bytes;
}

static inline uint64_t kvd_layout_page_bytes(const struct kvd_layout *l)
{
	return 2 * l->layers * l->kv_heads * kvd_layout_head_bytes(l);
}

/* Offset in the page of K of (layer, head); V of the same head is at kvd_layout_v(). */
static inline uint64_t kvd_layout_k(const struct kvd_layout *l, uint32_t layer, uint32_t head)
{
	return ((uint64_t)layer * 2 * l->kv_heads + head) * kvd_layout_head_bytes(l);
}

static inline uint64_t kvd_layout_v(const struct kvd_layout *l, uint32_t layer, uint32_t head)
{
	return (((uint64_t)layer * 2 + 1) * l->kv_heads + head) * kvd_layout_head_bytes(l);
}

/* "cpu.bf16.k16v2": index, in elements from the head's start, of dimension d of token t's key. */
static inline uint64_t kvd_layout_k16_index(const struct kvd_layout *l, uint32_t t, uint32_t d)
{
	return ((uint64_t)(t / 16) * (l->head_dim / 2) + d / 2) * 32 + (t % 16) * 2 + d % 2;
}

/* "cpu.bf16.k16v2": the same for its value. */
static inline uint64_t kvd_layout_v2_index(const struct kvd_layout *l, uint32_t t, uint32_t d)
{
	return ((uint64_t)(t / 2) * l->head_dim + d) * 2 + t % 2;
}

/* "cuda.bf16.token": index, in elements from the head's start, of dimension d of token t. */
static inline uint64_t kvd_layout_token_index(const struct kvd_layout *l, uint32_t t, uint32_t d)
{
	return (uint64_t)t * l->head_dim + d;
}

#endif
