/* SPDX-License-Identifier: Apache-2.0 */
/* What sets one family of models apart, as flags: the loader and the forward pass ask those. */
#ifndef ENGINE_MODEL_FAMILY_H
#define ENGINE_MODEL_FAMILY_H

#include <engine/model/gguf.h>

enum family_flag {
	/* q and k rows of a head alternate between its two halves: undone at load. */
	FAMILY_QK_INTERLEAVED = 1u << 0,
};

struct family {
	const char *arch; /* general.architecture, and the prefix of its keys */
	uint32_t flags;
};

/* 0; -ENOTSUP or -EINVAL with a sentence in error[size]. */
int family_find(const struct gguf *g, const struct family **out, char *error, size_t size);

#endif
