/* SPDX-License-Identifier: Apache-2.0 */
/* Where encoded tokens go: a caller's array of fixed size, and a count that goes on beyond it. */
#ifndef ENGINE_TEXT_TOKENS_H
#define ENGINE_TEXT_TOKENS_H

#include <stddef.h>
#include <stdint.h>

struct tokens {
	uint32_t *out;
	size_t max;
	size_t count;
};

static inline void tokens_push(struct tokens *t, uint32_t token)
{
	if (t->count < t->max)
		t->out[t->count] = token;
	t->count++;
}

#endif
