/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Typed reads of GGUF metadata. Writers disagree on integer widths, so any width is accepted as
 * long as the value fits; everything else must have exactly the type that is asked for.
 */
#include "engine/model/gguf_file.h"

#include <base/bytes.h>
#include <errno.h>

static int64_t sign_extend(uint64_t v, size_t bytes)
{
	uint32_t unused = 64 - 8 * (uint32_t)bytes;

	return (int64_t)(v << unused) >> unused;
}

int gguf_get_u32(const struct gguf *g, const char *key, uint32_t *out)
{
	const struct gguf_kv *kv = gguf_kv_find(g, key);

	if (!kv)
		return -ENOENT;
	struct bytes in = bytes_over(kv->data, kv->bytes);
	uint64_t v = bytes_uint(&in, kv->bytes <= 8 ? kv->bytes : 0);
	switch (kv->type) {
	case GGUF_U8:
	case GGUF_U16:
	case GGUF_U32:
	case GGUF_U64:
		break;
	case GGUF_I8:
	case GGUF_I16:
	case GGUF_I32:
	case GGUF_I64:
		if (sign_extend(v, kv->bytes) < 0)
			return -EINVAL;
		break;
	default:
		return -EINVAL;
	}
	if (v > UINT32_MAX)
		return -EINVAL;
	*out = (uint32_t)v;
	return 0;
}

int gguf_get_f32(const struct gguf *g, const char *key, float *out)
{
	const struct gguf_kv *kv = gguf_kv_find(g, key);
	double wide;

	if (!kv)
		return -ENOENT;
	if (kv->type == GGUF_F32) {
		memcpy(out, kv->data, sizeof(*out));
		return 0;
	}
	if (kv->type != GGUF_F64)
		return -EINVAL;
	memcpy(&wide, kv->data, sizeof(wide));
	if (wide > 3.0e38 || wide < -3.0e38)
		return -EINVAL;
	*out = (float)wide;
	return 0;
}

int gguf_get_bool(const struct gguf *g, const char *key, bool *out)
{
	const struct gguf_kv *kv = gguf_kv_find(g, key);

	if (!kv)
		return -ENOENT;
	if (kv->type != GGUF_BOOL)
		return -EINVAL;
	*out = kv->data[0] != 0;
	return 0;
}

int gguf_get_string(const struct gguf *g, const char *key, struct gguf_string *out)
{
	const struct gguf_kv *kv = gguf_kv_find(g, key);

	if (!kv)
		return -ENOENT;
	if (kv->type != GGUF_STRING)
		return -EINVAL;
	*out = (struct gguf_string){(const char *)kv->data + 8, kv->bytes - 8};
	return 0;
}

int gguf_get_array(const struct gguf *g, const char *key, enum gguf_type type,
		   struct gguf_array *out)
{
	const struct gguf_kv *kv = gguf_kv_find(g, key);

	if (!kv)
		return -ENOENT;
	if (kv->type != GGUF_ARRAY || kv->element != type)
		return -EINVAL;
	*out = (struct gguf_array){kv->element, kv->count, kv->data, kv->bytes};
	return 0;
}
