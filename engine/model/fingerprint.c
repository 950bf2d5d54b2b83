/* SPDX-License-Identifier: Apache-2.0 */
/*
 * XXH3-128 over all that decides a bit of K or V: the tensors as they are stored, and the numbers
 * of the forward pass. The context length and the model's name are left out, so that files which
 * differ in those alone share pages. Each record has a fixed width or states its length, so that
 * no two models give one stream of bytes.
 */
#include "engine/model/fingerprint.h"

#include "engine/model/gguf.h"

#include <errno.h>
#include <string.h>
#include <xxhash.h>

static void add_u64(XXH3_state_t *x, uint64_t v)
{
	uint8_t bytes[8];

	for (int i = 0; i < 8; i++)
		bytes[i] = (uint8_t)(v >> (8 * i));
	XXH3_128bits_update(x, bytes, sizeof(bytes));
}

static void add_f32(XXH3_state_t *x, float v)
{
	uint32_t bits;

	memcpy(&bits, &v, sizeof(bits));
	add_u64(x, bits);
}

static void add_bytes(XXH3_state_t *x, const void *data, uint64_t bytes)
{
	add_u64(x, bytes);
	XXH3_128bits_update(x, data, (size_t)bytes);
}

static void add_hparams(XXH3_state_t *x, const struct model *m, const float *inv_freq)
{
	const struct model_hparams *h = &m->h;
	const uint32_t sizes[] = {h->layers,   h->hidden,   h->ffn,   h->heads,
				  h->kv_heads, h->head_dim, h->vocab, h->rope_dim};

	add_bytes(x, h->arch, strlen(h->arch));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		add_u64(x, sizes[i]);
	add_f32(x, h->norm_eps);
	for (uint32_t i = 0; i < h->rope_dim / 2; i++)
		add_f32(x, inv_freq[i]);
}

static void add_tensor(XXH3_state_t *x, const struct gguf_tensor *t)
{
	add_bytes(x, t->name.text, t->name.bytes);
	add_u64(x, t->type);
	for (int i = 0; i < 4; i++)
		add_u64(x, t->ne[i]);
	add_bytes(x, t->data, t->bytes);
}

int fingerprint_model(const struct gguf *g, const struct model *m, const float *inv_freq,
		      uint8_t out[16])
{
	static const char domain[] = "kvd model 1";
	XXH3_state_t *x = XXH3_createState();
	XXH128_canonical_t canonical;

	if (!x)
		return -ENOMEM;
	XXH3_128bits_reset(x);
	add_bytes(x, domain, sizeof(domain) - 1);
	add_hparams(x, m, inv_freq);
	for (uint32_t i = 0; i < gguf_tensor_count(g); i++)
		add_tensor(x, gguf_tensor_at(g, i));
	XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(x));
	XXH3_freeState(x);
	memcpy(out, canonical.digest, 16);
	return 0;
}
