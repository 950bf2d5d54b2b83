/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads hparams. A key that is missing and has no default, is out of bounds, or asks for something
 * this engine does not compute is an error here: a wrong guess would give a model that talks, and
 * is wrong. The bounds also keep every later product of sizes far from overflow.
 */
#include "engine/model/hparams.h"

#include "engine/model/fail.h"

#include <base/log.h>

#define LAYERS_MAX 512u
#define HIDDEN_MAX (1u << 16)
#define FFN_MAX (1u << 18)
#define HEADS_MAX 1024u
#define HEAD_DIM_MAX 1024u
#define VOCAB_MAX (1u << 21)
#define CONTEXT_MAX (1u << 24)

struct reader {
	const struct gguf *g;
	const char *arch;
	char *error;
};

static const char *key(const struct reader *r, const char *name, char out[96])
{
	snprintf(out, 96, "%s.%s", r->arch, name);
	return out;
}

/* *out is left alone when the key is missing: callers put the default there, 0 for none. */
static int read_count(const struct reader *r, const char *name, uint32_t max, uint32_t *out)
{
	char full[96];
	int status = gguf_get_u32(r->g, key(r, name, full), out);

	if (status == -EINVAL)
		return fail_with(
			r->error, MODEL_ERROR_MAX, -ENOTSUP,
			"%s is not one whole number: this model needs something unsupported", full);
	if (*out < 1)
		return fail_with(r->error, MODEL_ERROR_MAX, -EINVAL, "%s is %s", full,
				 status ? "missing" : "zero");
	if (*out > max)
		return fail_with(r->error, MODEL_ERROR_MAX, -EINVAL, "%s is %u, more than %u", full,
				 *out, max);
	return 0;
}

static int read_real(const struct reader *r, const char *name, float min, float max, float *out)
{
	char full[96];

	if (gguf_get_f32(r->g, key(r, name, full), out) == -EINVAL)
		return fail_with(r->error, MODEL_ERROR_MAX, -EINVAL, "%s is not a number", full);
	if (!(*out >= min && *out <= max))
		return fail_with(r->error, MODEL_ERROR_MAX, -EINVAL,
				 "%s is missing or not in [%g, %g]", full, (double)min,
				 (double)max);
	return 0;
}

static int read_sizes(const struct reader *r, struct model_hparams *h)
{
	int status = read_count(r, "block_count", LAYERS_MAX, &h->layers);

	if (!status)
		status = read_count(r, "context_length", CONTEXT_MAX, &h->context);
	if (!status)
		status = read_count(r, "embedding_length", HIDDEN_MAX, &h->hidden);
	if (!status)
		status = read_count(r, "feed_forward_length", FFN_MAX, &h->ffn);
	if (!status)
		status = read_count(r, "attention.head_count", HEADS_MAX, &h->heads);
	h->kv_heads = h->heads;
	if (!status)
		status = read_count(r, "attention.head_count_kv", HEADS_MAX, &h->kv_heads);
	if (!status)
		status = read_real(r, "attention.layer_norm_rms_epsilon", 1e-12f, 1e-1f,
				   &h->norm_eps);
	return status;
}

static int read_head(const struct reader *r, struct model_hparams *h)
{
	uint32_t value_dim;

	h->head_dim = h->hidden / h->heads;
	int status = read_count(r, "attention.key_length", HEAD_DIM_MAX, &h->head_dim);
	value_dim = h->head_dim;
	if (!status)
		status = read_count(r, "attention.value_length", HEAD_DIM_MAX, &value_dim);
	h->rope_dim = h->head_dim;
	if (!status)
		status = read_count(r, "rope.dimension_count", HEAD_DIM_MAX, &h->rope_dim);
	h->rope_theta = 10000.0f;
	if (!status)
		status = read_real(r, "rope.freq_base", 1.0f, 1e12f, &h->rope_theta);
	if (status)
		return status;
	if (h->heads % h->kv_heads)
		return fail_with(r->error, MODEL_ERROR_MAX, -EINVAL,
				 "%u query heads cannot share %u key heads evenly", h->heads,
				 h->kv_heads);
	if (value_dim != h->head_dim || h->rope_dim != h->head_dim || h->head_dim % 16)
		return fail_with(r->error, MODEL_ERROR_MAX, -ENOTSUP,
				 "heads of %u (keys), %u (values) and %u (rotated) dimensions are "
				 "not supported: all must be one multiple of 16",
				 h->head_dim, value_dim, h->rope_dim);
	return 0;
}

/* Things that other models of the same architecture name have and this engine does not compute. */
static int refuse_unknown(const struct reader *r)
{
	static const char *const zero_only[] = {"expert_count", "attention.sliding_window"};
	char full[96];

	for (size_t i = 0; i < sizeof(zero_only) / sizeof(zero_only[0]); i++) {
		uint32_t v = 0;
		int status = gguf_get_u32(r->g, key(r, zero_only[i], full), &v);

		if (status == -EINVAL || v)
			return fail_with(r->error, MODEL_ERROR_MAX, -ENOTSUP,
					 "the model uses %s, which is not supported", full);
	}
	return 0;
}

/* The embedding decides the vocabulary: there may be fewer tokens, never more rows. */
static int read_vocab(const struct reader *r, struct model_hparams *h)
{
	const struct gguf_tensor *embed = gguf_tensor_find(r->g, "token_embd.weight");

	if (!embed || embed->dims != 2 || embed->ne[1] > VOCAB_MAX)
		return fail_with(
			r->error, MODEL_ERROR_MAX, -EINVAL,
			"tensor \"token_embd.weight\" is missing or is not a table of at most "
			"%u rows",
			VOCAB_MAX);
	h->vocab = (uint32_t)embed->ne[1];
	h->tied = !gguf_tensor_find(r->g, "output.weight");
	return 0;
}

int hparams_read(const struct gguf *g, const struct family *family, struct model_hparams *out,
		 char *error)
{
	struct reader r = {g, family->arch, error};
	struct model_hparams h = {0};
	struct gguf_string name = {"unnamed", 7};

	(void)gguf_get_string(g, "general.name", &name);
	log_safe(name.text, name.bytes, h.name, sizeof(h.name));
	log_safe(family->arch, strlen(family->arch), h.arch, sizeof(h.arch));
	int status = refuse_unknown(&r);
	if (!status)
		status = read_sizes(&r, &h);
	if (!status)
		status = read_head(&r, &h);
	if (!status)
		status = read_vocab(&r, &h);
	if (status)
		return status;
	if (h.hidden % 32 || h.ffn % 32)
		return fail_with(
			error, MODEL_ERROR_MAX, -ENOTSUP,
			"widths of %u and %u are not supported: both must be multiples of 32",
			h.hidden, h.ffn);
	*out = h;
	return 0;
}
