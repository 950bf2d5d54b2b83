/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inv_freq[i] = theta^(-2 i / dim), computed in double and rounded once. Two scalings exist in
 * files of the llama family: "linear" divides all of them by one factor; Llama 3 stretches only
 * the slow ones, and its files carry the divisors as a tensor. Other kinds are refused.
 */
#include "engine/model/rope.h"

#include "engine/model/dequant.h"
#include "engine/model/fail.h"
#include "engine/model/gguf.h"

#include <base/log.h>
#include <math.h>

static bool is(const struct gguf_string *s, const char *text)
{
	return s->bytes == strlen(text) && memcmp(s->text, text, s->bytes) == 0;
}

static int read_factor(const struct gguf *g, const char *arch, float *out, char *error)
{
	char key[96], shown[64];
	struct gguf_string type = {"none", 4};

	*out = 1.0f;
	snprintf(key, sizeof(key), "%s.rope.scaling.type", arch);
	(void)gguf_get_string(g, key, &type);
	if (is(&type, "none"))
		return 0;
	if (!is(&type, "linear"))
		return fail_with(error, MODEL_ERROR_MAX, -ENOTSUP,
				 "position scaling \"%s\" is not supported, only linear and llama3",
				 log_safe(type.text, type.bytes, shown, sizeof(shown)));
	snprintf(key, sizeof(key), "%s.rope.scaling.factor", arch);
	if (gguf_get_f32(g, key, out) || !(*out >= 1.0f && *out <= 4096.0f))
		return fail_with(error, MODEL_ERROR_MAX, -EINVAL, "%s is not in [1, 4096]", key);
	return 0;
}

static int divide_by_tensor(const struct gguf *g, uint32_t n, float *inv_freq, char *error)
{
	const struct gguf_tensor *t = gguf_tensor_find(g, ROPE_TENSOR);

	if (!t)
		return 0;
	if (t->dims != 1 || t->ne[0] != n || t->type != 0)
		return fail_with(error, MODEL_ERROR_MAX, -EINVAL,
				 "tensor \"%s\" is not one row of %u F32 numbers", ROPE_TENSOR, n);
	for (uint32_t i = 0; i < n; i++) {
		float divisor;

		dequant_find(0)->row(t->data + 4 * i, 1, &divisor);
		if (!(divisor > 0 && divisor < 1e6f))
			return fail_with(error, MODEL_ERROR_MAX, -EINVAL,
					 "tensor \"%s\" holds a value that is no divisor",
					 ROPE_TENSOR);
		inv_freq[i] /= divisor;
	}
	return 0;
}

int rope_fill(const struct gguf *g, const struct model_hparams *h, float *out, char *error)
{
	float factor;
	int status = read_factor(g, h->arch, &factor, error);

	if (status)
		return status;
	for (uint32_t i = 0; i < h->rope_dim / 2; i++)
		out[i] = (float)(pow((double)h->rope_theta, -2.0 * i / h->rope_dim) /
				 (double)factor);
	return divide_by_tensor(g, h->rope_dim / 2, out, error);
}
