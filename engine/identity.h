/* SPDX-License-Identifier: Apache-2.0 */
/* What makes the pages of two engines interchangeable, as one digest and as words for people. */
#ifndef ENGINE_IDENTITY_H
#define ENGINE_IDENTITY_H

#include <engine/model/model.h>
#include <stddef.h>
#include <stdint.h>

/* The digest of everything that decides a KV bit: weights, kernels, layout, page size. */
void identity_digest(const struct model *m, uint32_t page_tokens, uint8_t out[16]);
/* The same for people: WHY names the first word that differs. */
void identity_describe(const struct model *m, uint32_t page_tokens, char *out, size_t size);

#endif
