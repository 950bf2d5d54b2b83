/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes GGUF files in memory, for tests: right ones, and wrong ones to order. It checks nothing.
 * Header first, then all keys, then all tensors, then gguf_writer_align() and their data.
 */
#ifndef TESTS_MODEL_GGUF_WRITER_H
#define TESTS_MODEL_GGUF_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gguf_writer {
	uint8_t *data; /* the owner frees it */
	size_t bytes;
	size_t room;
};

void gguf_writer_bytes(struct gguf_writer *w, const void *data, size_t bytes);
void gguf_writer_uint(struct gguf_writer *w, uint64_t v, size_t bytes);
void gguf_writer_text(struct gguf_writer *w, const char *text, size_t bytes);
void gguf_writer_align(struct gguf_writer *w, size_t align);

void gguf_writer_header(struct gguf_writer *w, uint64_t tensors, uint64_t keys);
void gguf_writer_u32(struct gguf_writer *w, const char *key, uint32_t v);
void gguf_writer_f32(struct gguf_writer *w, const char *key, float v);
void gguf_writer_bool(struct gguf_writer *w, const char *key, bool v);
void gguf_writer_string(struct gguf_writer *w, const char *key, const char *v);
/* The elements follow, written by the caller. */
void gguf_writer_array(struct gguf_writer *w, const char *key, uint32_t type, uint64_t count);
/* ne[1] 0: one dimension. */
void gguf_writer_tensor(struct gguf_writer *w, const char *name, uint32_t type, uint64_t ne0,
			uint64_t ne1, uint64_t offset);

#endif
