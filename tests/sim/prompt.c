/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prompt.c: prompts that meet and part.
 *
 * A few endless streams exist, the same in every history. A sequence follows one of them and may
 * change over to another at a few preferred positions: at block boundaries, just before, and in
 * the middle of a block, so that hits, common tails and branches of a node are frequent. What is
 * generated after the prompt goes on in the same stream, like greedy decoding: two leases with the
 * same prompt race to seal the same blocks.
 */
#include "tests/sim/prompt.h"

#include <base/bits.h>
#include <string.h>

#define PROMPT_STREAMS 16u
#define PROMPT_ALPHABET 29u

static const uint16_t prompt_cuts[] = {0, 8, 16, 25, 32, 44, 48, 64, 64, 75, 96, 128, 140, 200};

static uint32_t prompt_stream_token(uint32_t stream, uint32_t pos)
{
	return (uint32_t)(random_mix(((uint64_t)stream << 32 | pos) + 0x51ed27ull) %
			  PROMPT_ALPHABET);
}

static void prompt_hash_from(struct sim_sequence *seq, uint32_t from)
{
	uint64_t h = from ? seq->hash[from - 1] : random_mix(seq->space * 131 + seq->format + 1);

	for (uint32_t i = from; i < SIM_TOKENS_MAX; i++) {
		h = random_mix((h << 16) ^ seq->tokens[i] ^ 0x5bd1e995u);
		for (uint32_t e = 0; e < seq->extra_count; e++)
			if (seq->extras[e].token_pos == i)
				h = random_mix(h + seq->extras[e].digest[0]);
		h &= UINT32_MAX;
		seq->hash[i] = (uint32_t)h;
	}
}

/* Few streams are popular, all of them occur. */
static uint32_t prompt_stream(struct sim *sim)
{
	return random_below(&sim->random, random_percent(&sim->random, 75) ? 3 : PROMPT_STREAMS);
}

static void prompt_fill(struct sim_sequence *seq, uint32_t from, uint32_t stream)
{
	for (uint32_t i = from; i < SIM_TOKENS_MAX; i++)
		seq->tokens[i] = prompt_stream_token(stream, i);
}

void prompt_make(struct sim *sim, uint32_t space, uint32_t format, struct sim_sequence *out)
{
	out->space = space;
	out->format = format;
	out->extra_count = 0;
	prompt_fill(out, 0, random_below(&sim->random, 2));
	for (uint32_t i = random_below(&sim->random, 3); i > 0; i--)
		prompt_fill(out, prompt_cuts[random_below(&sim->random, ARRAY_LEN(prompt_cuts))],
			    prompt_stream(sim));
	prompt_hash_from(out, 0);
}

void prompt_diverge(struct sim *sim, struct sim_sequence *seq, uint32_t from)
{
	prompt_fill(seq, from, prompt_stream(sim));
	prompt_hash_from(seq, from);
}

void prompt_reformat(struct sim_sequence *seq, uint32_t format)
{
	seq->format = format;
	prompt_hash_from(seq, 0);
}

void prompt_add_extras(struct sim *sim, struct sim_sequence *seq, uint32_t n)
{
	static const uint16_t places[] = {3, 20, 37};
	uint32_t pos = places[random_below(&sim->random, ARRAY_LEN(places))];

	if (pos >= n || !random_percent(&sim->random, 12))
		return;
	seq->extra_count = 1;
	seq->extras[0] = (struct kvd_extra){.token_pos = pos};
	seq->extras[0].digest[0] = (uint8_t)random_range(&sim->random, 1, 2);
	prompt_hash_from(seq, 0);
}

void prompt_cut_extras(struct sim_sequence *seq, uint32_t n)
{
	if (seq->extra_count == 0 || seq->extras[0].token_pos < n)
		return;
	seq->extra_count = 0;
	prompt_hash_from(seq, 0);
}

uint32_t prompt_common(const struct sim_sequence *a, const struct sim_sequence *b, uint32_t n)
{
	uint32_t i = 0;

	if (a->space != b->space || a->format != b->format)
		return 0;
	while (i < n && a->hash[i] == b->hash[i])
		i++;
	return i;
}
