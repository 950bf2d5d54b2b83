/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One row per architecture. "llama" is the name under which Llama, Mistral and SmolLM2 are
 * stored: RMSNorm, rotary positions, grouped queries, SwiGLU, no biases.
 */
#include "engine/model/family.h"

#include "engine/model/fail.h"

#include <base/bits.h>
#include <base/log.h>

static const struct family families[] = {
	{"llama", FAMILY_QK_INTERLEAVED},
};

int family_find(const struct gguf *g, const struct family **out, char *error, size_t size)
{
	struct gguf_string arch;
	char shown[64];

	if (gguf_get_string(g, "general.architecture", &arch))
		return fail_with(error, size, -EINVAL, "the file names no architecture");
	for (size_t i = 0; i < ARRAY_LEN(families); i++) {
		const char *name = families[i].arch;

		if (strlen(name) == arch.bytes && memcmp(name, arch.text, arch.bytes) == 0) {
			*out = &families[i];
			return 0;
		}
	}
	return fail_with(error, size, -ENOTSUP,
			 "architecture \"%s\" is not supported: use a model of the llama family",
			 log_safe(arch.text, arch.bytes, shown, sizeof(shown)));
}
