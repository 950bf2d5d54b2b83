/* SPDX-License-Identifier: Apache-2.0 */
/* A model's identity: engines with equal digests may read each other's KV pages. */
#ifndef ENGINE_MODEL_FINGERPRINT_H
#define ENGINE_MODEL_FINGERPRINT_H

#include <engine/model/model.h>

/* m needs h; inv_freq is the host's copy. 0 or -ENOMEM. */
int fingerprint_model(const struct gguf *g, const struct model *m, const float *inv_freq,
		      uint8_t out[16]);

#endif
