/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The format's identity is XXH3-128 over a text that names every ingredient, one a line, in a fixed
 * order. The model's own digest covers its weights and all hyperparameters; the numerics id covers
 * the instruction set, and bf16 where the last line does not say another type of products; and
 * NUMERICS_REV rises with every change of a KV bit. The text is also what people read when two
 * engines do not share. Thread counts and batch sizes are not in it: they change no bit. Pure, any
 * thread.
 */
#include "engine/identity.h"
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#define IDENTITY_TEXT_MAX 1024u

static void ingredients(const struct model *m, uint32_t page_tokens, char *out, size_t size)
{
	char digest[33];

	for (size_t i = 0; i < sizeof(m->digest); i++)
		snprintf(digest + 2 * i, 3, "%02x", m->digest[i]);
	snprintf(out, size,
		 "weights %s\nnumerics %s revision %d\nlayout %s\npage_tokens %u\nkv bf16\n"
		 "shape %u layers %u kv heads of %u\n%s",
		 digest, m->ops->numerics_id, NUMERICS_REV, m->ops->layout, page_tokens,
		 m->h.layers, m->h.kv_heads, m->h.head_dim,
		 m->type == KERNEL_FP16 ? "products of fp16\n" : "");
}

void identity_digest(const struct model *m, uint32_t page_tokens, uint8_t out[16])
{
	char text[IDENTITY_TEXT_MAX];
	XXH128_canonical_t canonical;

	ingredients(m, page_tokens, text, sizeof(text));
	XXH128_canonicalFromHash(&canonical, XXH3_128bits(text, strlen(text)));
	memcpy(out, canonical.digest, sizeof(canonical.digest));
}

void identity_describe(const struct model *m, uint32_t page_tokens, char *out, size_t size)
{
	int at = snprintf(out, size, "model %s\narchitecture %s\n", m->h.name, m->h.arch);

	if (at > 0 && (size_t)at < size)
		ingredients(m, page_tokens, out + at, size - (size_t)at);
}
