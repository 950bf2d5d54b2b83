/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of a struct gguf, shared by gguf.c and gguf_get.c alone. */
#ifndef ENGINE_MODEL_GGUF_FILE_H
#define ENGINE_MODEL_GGUF_FILE_H

#include <engine/model/gguf.h>

struct gguf_kv {
	struct gguf_string key;
	enum gguf_type type;
	enum gguf_type element; /* of an array */
	uint64_t count;		/* of an array; else 1 */
	const uint8_t *data;	/* after the type (and count); checked to lie in the file */
	size_t bytes;
};

struct gguf {
	const uint8_t *map;
	size_t bytes;
	bool mapped;
	struct gguf_kv *kv; /* sorted by key */
	uint32_t kv_count;
	struct gguf_tensor *tensor; /* in the file's order */
	const struct gguf_tensor **by_name;
	uint32_t tensor_count;
};

/* NULL: no such key. */
const struct gguf_kv *gguf_kv_find(const struct gguf *g, const char *key);

#endif
