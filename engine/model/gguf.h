/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GGUF v3 file, mapped and checked: after gguf_open() every offset, size and string in the
 * directory lies in the file. Format: ggml's docs/gguf.md. Everything in it is untrusted.
 */
#ifndef ENGINE_MODEL_GGUF_H
#define ENGINE_MODEL_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gguf;

enum gguf_type {
	GGUF_U8,
	GGUF_I8,
	GGUF_U16,
	GGUF_I16,
	GGUF_U32,
	GGUF_I32,
	GGUF_F32,
	GGUF_BOOL,
	GGUF_STRING,
	GGUF_ARRAY,
	GGUF_U64,
	GGUF_I64,
	GGUF_F64,
	GGUF_TYPES
};

struct gguf_string {
	const char *text; /* not terminated; in the map */
	size_t bytes;
};

struct gguf_array {
	enum gguf_type type;
	uint64_t count;
	const uint8_t
		*data; /* elements, little endian, unaligned; strings are u64 length + bytes */
	size_t bytes;
};

struct gguf_tensor {
	struct gguf_string name;
	uint32_t type; /* ggml's number: see dequant.h */
	uint32_t dims;
	uint64_t ne[4]; /* ne[0] is contiguous */
	const uint8_t *data;
	uint64_t bytes;
};

/* 0 or -errno; error[size] gets one sentence. The file must not change while it is open. */
int gguf_open(const char *path, struct gguf **out, char *error, size_t size);
/* Over memory that stays the caller's: for tests and the fuzzer. */
int gguf_open_memory(const void *data, size_t bytes, struct gguf **out, char *error, size_t size);
void gguf_close(struct gguf *g);
uint64_t gguf_file_bytes(const struct gguf *g);

/* Metadata. 0, -ENOENT, or -EINVAL: another type. Integers of any width are accepted. */
int gguf_get_u32(const struct gguf *g, const char *key, uint32_t *out);
int gguf_get_f32(const struct gguf *g, const char *key, float *out);
int gguf_get_bool(const struct gguf *g, const char *key, bool *out);
int gguf_get_string(const struct gguf *g, const char *key, struct gguf_string *out);
int gguf_get_array(const struct gguf *g, const char *key, enum gguf_type type,
		   struct gguf_array *out);
/* Steps through a string array: *offset starts at 0. 1: got one; 0: end. */
int gguf_next_string(const struct gguf_array *a, size_t *offset, struct gguf_string *out);

uint32_t gguf_tensor_count(const struct gguf *g);
const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, uint32_t i);
const struct gguf_tensor *gguf_tensor_find(const struct gguf *g, const char *name);

#endif
