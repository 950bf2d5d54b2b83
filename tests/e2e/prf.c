/* SPDX-License-Identifier: Apache-2.0 */
/* See prf.h. SplitMix64 is the function: fast, and known to mix; nobody attacks it here. */
#include "tests/e2e/prf.h"
#include "tests/test.h"

static uint64_t prf_mix(uint64_t a, uint64_t b)
{
	uint64_t state = a * 0x9e3779b97f4a7c15ull ^ b;

	return test_random(&state);
}

static void prf_push(struct prf_sequence *s, uint32_t token)
{
	uint64_t before = s->count ? s->chain[s->count - 1] : 0;

	s->tokens[s->count] = token;
	s->chain[s->count++] = prf_mix(before, token + 1ull);
}

static void prf_room(struct prf_sequence *s)
{
	if (s->tokens)
		return;
	s->tokens = calloc(PRF_TOKENS_MAX, sizeof(*s->tokens));
	s->chain = calloc(PRF_TOKENS_MAX, sizeof(*s->chain));
	if (!s->tokens || !s->chain)
		abort();
}

int prf_append(struct prf_sequence *s, const char *text)
{
	prf_room(s);
	while (*text) {
		char *end;
		uint64_t seed = strtoull(text, &end, 10);
		if (end == text || *end != ':')
			return -1;
		text = end + 1;
		uint64_t n = strtoull(text, &end, 10);
		if (end == text || n > PRF_TOKENS_MAX - s->count || (*end && *end != '+'))
			return -1;
		for (uint64_t i = 0; i < n; i++)
			prf_push(s, (uint32_t)(prf_mix(seed, i) % 50000));
		text = *end ? end + 1 : end;
	}
	return 0;
}

struct prf_sequence prf_copy(const struct prf_sequence *s, uint32_t count)
{
	struct prf_sequence to = {0};

	prf_room(&to);
	for (uint32_t i = 0; i < count; i++)
		prf_push(&to, s->tokens[i]);
	return to;
}

void prf_fini(struct prf_sequence *s)
{
	free(s->tokens);
	free(s->chain);
	*s = (struct prf_sequence){0};
}

static uint64_t *prf_place(struct prf_page page, uint32_t token, const void *memory)
{
	uint32_t place_bytes = page.bytes / page.tokens;

	return (uint64_t *)((uintptr_t)memory + token % page.tokens * place_bytes);
}

void prf_write(const struct prf_sequence *s, struct prf_page page, uint32_t first, uint32_t end,
	       void *memory)
{
	uint32_t words = page.bytes / page.tokens / 8;

	for (uint32_t t = first; t < end; t++) {
		uint64_t state = s->chain[t];
		uint64_t *to = prf_place(page, t, memory);
		for (uint32_t w = 0; w < words; w++)
			to[w] = test_random(&state);
	}
}

uint32_t prf_wrong(const struct prf_sequence *s, struct prf_page page, uint32_t first, uint32_t end,
		   const void *memory)
{
	uint32_t words = page.bytes / page.tokens / 8, wrong = 0;

	for (uint32_t t = first; t < end; t++) {
		uint64_t state = s->chain[t], diff = 0;
		const uint64_t *at = prf_place(page, t, memory);
		for (uint32_t w = 0; w < words; w++)
			diff |= at[w] ^ test_random(&state);
		wrong += diff != 0;
	}
	return wrong;
}
