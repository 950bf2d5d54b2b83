/* SPDX-License-Identifier: Apache-2.0 */
/* A growing buffer and the records of GGUF v3. Out of memory ends the test. */
#include "tests/model/gguf_writer.h"

#include "engine/model/gguf.h"

#include <base/assert.h>
#include <base/bits.h>
#include <string.h>

void gguf_writer_bytes(struct gguf_writer *w, const void *data, size_t bytes)
{
	if (w->bytes + bytes > w->room) {
		w->room = bits_pow2_up(w->bytes + bytes + 4096);
		w->data = realloc(w->data, w->room);
		ASSERT(w->data);
	}
	if (bytes)
		memcpy(w->data + w->bytes, data, bytes);
	w->bytes += bytes;
}

void gguf_writer_uint(struct gguf_writer *w, uint64_t v, size_t bytes)
{
	uint8_t little[8];

	for (size_t i = 0; i < bytes; i++)
		little[i] = (uint8_t)(v >> (8 * i));
	gguf_writer_bytes(w, little, bytes);
}

void gguf_writer_text(struct gguf_writer *w, const char *text, size_t bytes)
{
	gguf_writer_uint(w, bytes, 8);
	gguf_writer_bytes(w, text, bytes);
}

void gguf_writer_align(struct gguf_writer *w, size_t align)
{
	while (w->bytes % align)
		gguf_writer_uint(w, 0, 1);
}

void gguf_writer_header(struct gguf_writer *w, uint64_t tensors, uint64_t keys)
{
	gguf_writer_bytes(w, "GGUF", 4);
	gguf_writer_uint(w, 3, 4);
	gguf_writer_uint(w, tensors, 8);
	gguf_writer_uint(w, keys, 8);
}

static void key(struct gguf_writer *w, const char *name, uint32_t type)
{
	gguf_writer_text(w, name, strlen(name));
	gguf_writer_uint(w, type, 4);
}

void gguf_writer_u32(struct gguf_writer *w, const char *name, uint32_t v)
{
	key(w, name, GGUF_U32);
	gguf_writer_uint(w, v, 4);
}

void gguf_writer_f32(struct gguf_writer *w, const char *name, float v)
{
	key(w, name, GGUF_F32);
	gguf_writer_bytes(w, &v, sizeof(v));
}

void gguf_writer_bool(struct gguf_writer *w, const char *name, bool v)
{
	key(w, name, GGUF_BOOL);
	gguf_writer_uint(w, v, 1);
}

void gguf_writer_string(struct gguf_writer *w, const char *name, const char *v)
{
	key(w, name, GGUF_STRING);
	gguf_writer_text(w, v, strlen(v));
}

void gguf_writer_array(struct gguf_writer *w, const char *name, uint32_t type, uint64_t count)
{
	key(w, name, GGUF_ARRAY);
	gguf_writer_uint(w, type, 4);
	gguf_writer_uint(w, count, 8);
}

void gguf_writer_tensor(struct gguf_writer *w, const char *name, uint32_t type, uint64_t ne0,
			uint64_t ne1, uint64_t offset)
{
	gguf_writer_text(w, name, strlen(name));
	gguf_writer_uint(w, ne1 ? 2 : 1, 4);
	gguf_writer_uint(w, ne0, 8);
	if (ne1)
		gguf_writer_uint(w, ne1, 8);
	gguf_writer_uint(w, type, 4);
	gguf_writer_uint(w, offset, 8);
}
