/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A llama model of random weights that loads in a millisecond, as a GGUF file: byte-level
 * vocabulary with a few merges, the `smollm` pre-tokenizer, ChatML. It says nothing of sense and
 * says it reproducibly: the same options give the same bytes.
 */
#ifndef TESTS_MODEL_TINY_H
#define TESTS_MODEL_TINY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TINY_ENDOFTEXT 0u
#define TINY_IM_START 1u
#define TINY_IM_END 2u
#define TINY_BYTE0 3u /* the token of byte b is TINY_BYTE0 + b */

struct tiny_options {
	uint64_t seed;
	uint32_t layers;
	uint32_t hidden; /* a multiple of 32, as ffn */
	uint32_t ffn;
	uint32_t heads;
	uint32_t kv_heads;
	uint32_t head_dim;
	uint32_t context;
	uint32_t vocab; /* a multiple of 32; beyond tiny_vocab() words that no merge makes */
	bool untied;
	bool bf16; /* matrices; else fp16, or f32 */
	bool fp16;
};

/* 2 layers, hidden 64, 4 heads of 32 over 2 kv heads, ffn 128, context 1024, tied. */
struct tiny_options tiny_defaults(uint64_t seed);
/* The shape of SmolLM2-135M, for work of a real size where no real model can be had. */
struct tiny_options tiny_smollm2(uint64_t seed);
/* Returns the file, which the caller frees. */
uint8_t *tiny_build(const struct tiny_options *o, size_t *out_bytes);
/* 0 or -errno. */
int tiny_write(const struct tiny_options *o, const char *path);
uint32_t tiny_vocab(void);

#endif
