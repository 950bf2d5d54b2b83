/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys, then tensors, each filled in the order of the file from one random stream. Matrices are
 * uniform with variance 1 / k, so that activations keep their size through the layers; rows of the
 * embedding are scaled to give logits with a spread of about 3.
 */
#include "tests/model/tiny.h"

#include "engine/model/gguf.h"
#include "kernels/kernels.h"
#include "tests/model/gguf_writer.h"

#include <base/assert.h>
#include <base/bits.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#define CONTROLS 3u
#define VOCAB_STEP 32u
#define KEYS 21u

/* GGUF's numbers of element types. */
#define TYPE_F32 0u
#define TYPE_F16 1u
#define TYPE_BF16 30u

/* In GPT-2's spelling. Later ones build on earlier ones. */
static const char *const merges[] = {
	"Ġ t",	"h e",	 "Ġ a", "i n",	"r e", "o n",  "Ġt he", "e r",	  "Ġ s",  "a t",  "Ġ w",
	"Ġ o",	"e n",	 "Ġ c", "i t",	"i s", "a n",  "o r",	"e s",	  "Ġ b",  "e d",  "Ġ f",
	"in g", "Ġ p",	 "o u", "Ġa n", "a l", "a r",  "Ġt o",	"Ġ m",	  "Ġo f", "Ġ in", "Ġ d",
	"Ġ h",	"Ġan d", "i c", "a s",	"l e", "i on", "o m",	"l l",	  "en t", "Ġ n",  "Ġ l",
	"s t",	"Ġ re",	 "v e", "r o",	"l y", "u r",  "he ll", "hell o", "Ċ Ċ"};

static const char template[] =
	"{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
	"{{ '<|im_start|>system\nYou are tiny.<|im_end|>\n' }}{% endif %}"
	"{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
	"{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

struct tensor {
	char name[40];
	uint32_t k;
	uint32_t n;   /* 0: a norm */
	float spread; /* of the values */
};

uint32_t tiny_vocab(void)
{
	return (uint32_t)bits_align_up(CONTROLS + 256 + ARRAY_LEN(merges), VOCAB_STEP);
}

struct tiny_options tiny_defaults(uint64_t seed)
{
	return (struct tiny_options){.seed = seed,
				     .layers = 2,
				     .hidden = 64,
				     .ffn = 128,
				     .heads = 4,
				     .kv_heads = 2,
				     .head_dim = 32,
				     .context = 1024,
				     .vocab = tiny_vocab()};
}

struct tiny_options tiny_smollm2(uint64_t seed)
{
	return (struct tiny_options){.seed = seed,
				     .layers = 30,
				     .hidden = 576,
				     .ffn = 1536,
				     .heads = 9,
				     .kv_heads = 3,
				     .head_dim = 64,
				     .context = 8192,
				     .vocab = 49152,
				     .bf16 = true};
}

/* Writes the character that stands for a byte, as vocab.c reads it; returns its length. */
static size_t spell(uint32_t byte, char out[2])
{
	uint32_t code = 0x100;

	for (uint32_t b = 0; b <= byte; b++) {
		bool plain = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b != 0xad);

		if (b == byte && plain)
			code = byte;
		else if (b < byte && !plain)
			code++;
	}
	if (code < 0x80) {
		out[0] = (char)code;
		return 1;
	}
	out[0] = (char)(0xc0 | code >> 6);
	out[1] = (char)(0x80 | (code & 0x3f));
	return 2;
}

static void write_token(struct gguf_writer *w, uint32_t id)
{
	static const char *const control[CONTROLS] = {"<|endoftext|>", "<|im_start|>",
						      "<|im_end|>"};
	char text[32];

	if (id < CONTROLS) {
		gguf_writer_text(w, control[id], strlen(control[id]));
	} else if (id < TINY_BYTE0 + 256) {
		gguf_writer_text(w, text, spell(id - TINY_BYTE0, text));
	} else if (id - TINY_BYTE0 - 256 < ARRAY_LEN(merges)) {
		const char *pair = merges[id - TINY_BYTE0 - 256];
		size_t left = strcspn(pair, " ");

		memcpy(text, pair, left);
		strcpy(text + left, pair + left + 1);
		gguf_writer_text(w, text, strlen(text));
	} else {
		bool reserved = id < tiny_vocab();
		int bytes = snprintf(text, sizeof(text), "%s%u%s", reserved ? "<|reserved_" : "Ġw",
				     id, reserved ? "|>" : "");

		gguf_writer_text(w, text, (size_t)bytes);
	}
}

static void write_tokenizer(struct gguf_writer *w, uint32_t vocab)
{
	uint32_t text_end = TINY_BYTE0 + 256 + (uint32_t)ARRAY_LEN(merges);

	gguf_writer_string(w, "tokenizer.ggml.model", "gpt2");
	gguf_writer_string(w, "tokenizer.ggml.pre", "smollm");
	gguf_writer_array(w, "tokenizer.ggml.tokens", GGUF_STRING, vocab);
	for (uint32_t id = 0; id < vocab; id++)
		write_token(w, id);
	gguf_writer_array(w, "tokenizer.ggml.token_type", GGUF_I32, vocab);
	for (uint32_t id = 0; id < vocab; id++)
		gguf_writer_uint(w, id < CONTROLS || (id >= text_end && id < tiny_vocab()) ? 3 : 1,
				 4);
	gguf_writer_array(w, "tokenizer.ggml.merges", GGUF_STRING, ARRAY_LEN(merges));
	for (size_t i = 0; i < ARRAY_LEN(merges); i++)
		gguf_writer_text(w, merges[i], strlen(merges[i]));
	gguf_writer_u32(w, "tokenizer.ggml.bos_token_id", TINY_IM_START);
	gguf_writer_u32(w, "tokenizer.ggml.eos_token_id", TINY_IM_END);
	gguf_writer_bool(w, "tokenizer.ggml.add_bos_token", false);
	gguf_writer_string(w, "tokenizer.chat_template", template);
}

static void write_keys(struct gguf_writer *w, const struct tiny_options *o)
{
	gguf_writer_string(w, "general.architecture", "llama");
	gguf_writer_string(w, "general.name", "tiny");
	gguf_writer_u32(w, "general.alignment", 32);
	gguf_writer_u32(w, "llama.block_count", o->layers);
	gguf_writer_u32(w, "llama.context_length", o->context);
	gguf_writer_u32(w, "llama.embedding_length", o->hidden);
	gguf_writer_u32(w, "llama.feed_forward_length", o->ffn);
	gguf_writer_u32(w, "llama.attention.head_count", o->heads);
	gguf_writer_u32(w, "llama.attention.head_count_kv", o->kv_heads);
	gguf_writer_u32(w, "llama.attention.key_length", o->head_dim);
	gguf_writer_u32(w, "llama.attention.value_length", o->head_dim);
	gguf_writer_f32(w, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
	write_tokenizer(w, o->vocab);
}

static void add(struct tensor *list, uint32_t *count, const char *name, uint32_t k, uint32_t n)
{
	struct tensor *t = &list[(*count)++];

	snprintf(t->name, sizeof(t->name), "%s.weight", name);
	t->k = k;
	t->n = n;
	t->spread = n ? sqrtf(3.0f / (float)k) : 0.1f;
}

static uint32_t list_tensors(const struct tiny_options *o, struct tensor *list)
{
	uint32_t q = o->heads * o->head_dim, kv = o->kv_heads * o->head_dim, count = 0;

	add(list, &count, "token_embd", o->hidden, o->vocab);
	list[0].spread *= 3;
	for (uint32_t i = 0; i < o->layers; i++) {
		const struct {
			const char *name;
			uint32_t k, n;
		} of_layer[] = {{"attn_norm", o->hidden, 0},	 {"ffn_down", o->ffn, o->hidden},
				{"ffn_gate", o->hidden, o->ffn}, {"ffn_up", o->hidden, o->ffn},
				{"ffn_norm", o->hidden, 0},	 {"attn_k", o->hidden, kv},
				{"attn_output", q, o->hidden},	 {"attn_q", o->hidden, q},
				{"attn_v", o->hidden, kv}};

		for (size_t j = 0; j < ARRAY_LEN(of_layer); j++) {
			char name[32];

			snprintf(name, sizeof(name), "blk.%u.%s", i, of_layer[j].name);
			add(list, &count, name, of_layer[j].k, of_layer[j].n);
		}
	}
	add(list, &count, "output_norm", o->hidden, 0);
	if (o->untied)
		add(list, &count, "output", o->hidden, o->vocab);
	return count;
}

/* SplitMix64, to [-1, 1). */
static float uniform(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return (float)(int32_t)(z >> 32) * 0x1p-31f;
}

/* GGUF's number of a tensor's type. */
static uint32_t type_of(const struct tiny_options *o, const struct tensor *t)
{
	if (!t->n)
		return TYPE_F32;
	return o->bf16 ? TYPE_BF16 : o->fp16 ? TYPE_F16 : TYPE_F32;
}

static void write_values(struct gguf_writer *w, const struct tensor *t, uint32_t type,
			 uint64_t *random)
{
	gguf_writer_align(w, 32);
	for (uint64_t j = 0; j < (uint64_t)t->k * (t->n ? t->n : 1); j++) {
		float v = uniform(random) * t->spread + (t->n ? 0.0f : 1.0f);
		uint32_t bits;
		uint16_t half;

		memcpy(&bits, &v, sizeof(bits));
		half = type == TYPE_F16 ? kernel_f32_to_fp16(v) : (uint16_t)(bits >> 16);
		if (type == TYPE_F32)
			gguf_writer_bytes(w, &v, sizeof(v));
		else
			gguf_writer_bytes(w, &half, sizeof(half));
	}
}

uint8_t *tiny_build(const struct tiny_options *o, size_t *out_bytes)
{
	struct gguf_writer w = {0};
	struct tensor *list = calloc(9 * (size_t)o->layers + 3, sizeof(*list));
	uint64_t offset = 0, random = o->seed;

	ASSERT(list);
	uint32_t count = list_tensors(o, list);
	gguf_writer_header(&w, count, KEYS);
	write_keys(&w, o);
	for (uint32_t i = 0; i < count; i++) {
		const struct tensor *t = &list[i];
		uint32_t type = type_of(o, t), bytes = type == TYPE_F32 ? 4 : 2;

		gguf_writer_tensor(&w, t->name, type, t->k, t->n, offset);
		offset = bits_align_up(offset + (uint64_t)bytes * t->k * (t->n ? t->n : 1), 32);
	}
	for (uint32_t i = 0; i < count; i++)
		write_values(&w, &list[i], type_of(o, &list[i]), &random);
	free(list);
	*out_bytes = w.bytes;
	return w.data;
}

int tiny_write(const struct tiny_options *o, const char *path)
{
	size_t bytes;
	uint8_t *data = tiny_build(o, &bytes);
	FILE *f = fopen(path, "wb");
	int status = f ? 0 : -errno;

	if (f && fwrite(data, 1, bytes, f) != bytes)
		status = -EIO;
	if (f && fclose(f) && !status)
		status = -errno;
	free(data);
	return status;
}
