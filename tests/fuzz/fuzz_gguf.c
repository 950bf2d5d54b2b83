/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_gguf.c: a model file that means harm. The input is the file: its directory is read, then a
 * tokenizer and a model are made of it as far as it goes, and used. The op table is a stand-in that
 * keeps weights as f32.
 */
#include <base/assert.h>
#include <engine/model/gguf.h>
#include <engine/model/model.h>
#include <engine/text/tokenizer.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t fuzz_weight_bytes(enum kernel_weight_kind kind, uint32_t n, uint32_t k)
{
	(void)kind;
	return (size_t)n * k * sizeof(float);
}

static void fuzz_weight_pack(const struct kernel_weight *w, uint32_t row0, uint32_t rows,
			     const float *src)
{
	ASSERT(row0 + rows <= w->n);
	memcpy((float *)w->data + (size_t)row0 * w->k, src, (size_t)rows * w->k * sizeof(float));
}

static void *fuzz_memory_new(const struct kernel_ops *self, size_t bytes)
{
	return calloc(1, bytes);
}

static void fuzz_memory_free(const struct kernel_ops *self, void *memory, size_t bytes)
{
	free(memory);
}

static int fuzz_memory_write(const struct kernel_ops *self, void *dst, const void *src,
			     size_t bytes)
{
	memcpy(dst, src, bytes);
	return 0;
}

static const struct kernel_ops ops = {.memory_new = fuzz_memory_new,
				      .memory_free = fuzz_memory_free,
				      .memory_write = fuzz_memory_write,
				      .weight_bytes = fuzz_weight_bytes,
				      .weight_pack = fuzz_weight_pack};

static void fuzz_tokenizer(const struct gguf *g)
{
	static const char text[] =
		"<|im_start|>system\nhello the 12 \xf0\x9f\x98\x80\xff<|im_end|>";
	uint32_t ids[128];
	struct tokenizer *t;
	struct detok d;
	char error[256], out[1024];

	if (tokenizer_new(g, &t, error, sizeof(error)))
		return;
	int64_t count = tokenizer_encode(t, text, sizeof(text) - 1, true, ids, 128);
	ASSERT(count >= 0);
	detok_init(&d, t);
	for (int64_t i = 0; i < count && i < 128; i++) {
		ASSERT(ids[i] < tokenizer_vocab(t));
		ASSERT(detok_push(&d, ids[i], out, sizeof(out)) >= 0);
	}
	for (uint32_t id = 0; id < tokenizer_vocab(t); id++)
		ASSERT(detok_push(&d, id, out, sizeof(out)) >= 0);
	struct chat_message m = {"user", text, sizeof(text) - 1};
	enum chat_kind kind;
	if (chat_detect(t, "auto", &kind, error, sizeof(error)) == 0)
		ASSERT(chat_encode(t, kind, &m, 1, ids, 128) > 0);
	tokenizer_free(t);
}

static void fuzz_model(const struct gguf *g)
{
	char error[MODEL_ERROR_MAX];
	struct model *m;

	if (model_load(g, &ops, MODEL_DTYPE_AUTO, NULL, NULL, &m, error) == 0)
		model_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char error[256] = "";
	struct gguf *g;

	if (gguf_open_memory(data, size, &g, error, sizeof(error))) {
		ASSERT(error[0]);
		return 0;
	}
	for (uint32_t i = 0; i < gguf_tensor_count(g); i++) {
		const struct gguf_tensor *t = gguf_tensor_at(g, i);

		ASSERT(t->data >= data && t->data + t->bytes <= data + size);
	}
	fuzz_tokenizer(g);
	fuzz_model(g);
	gguf_close(g);
	return 0;
}
