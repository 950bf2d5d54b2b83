/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The patterns are those of the models' own tokenizers, with white space written out: PCRE2's \s
 * has a character more (U+180E) than Unicode's White_Space. A match is a word and so is what lies
 * between matches. Every stage sees the pieces of the stage before as whole texts: looking ahead
 * ends at the piece, which is why "a  1" gives "a", "  ", "1" in SmolLM and not "a", " ", " 1".
 *
 * No pattern matches the empty text or backtracks by more than the run of characters at hand, so
 * time is linear in the text. Compiled code is shared by all threads; match data is per encoder.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "engine/text/pretok.h"

#include "engine/model/fail.h"

#include <base/assert.h>
#include <base/bits.h>
#include <errno.h>
#include <pcre2.h>
#include <string.h>

#define STAGES 2u
#define MATCH_LIMIT 10000000u

#define SPACES                                                                                     \
	"\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}"         \
	"\\x{202f}\\x{205f}\\x{3000}"
#define SPACE "[" SPACES "]"
#define NOT_SPACE "[^" SPACES "]"
#define TRAILING_SPACE SPACE "+(?!" NOT_SPACE ")|" SPACE "+"

#define DIGIT "\\p{N}"
#define GPT2                                                                                       \
	"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" SPACES "\\p{L}\\p{N}]+|" TRAILING_SPACE
#define LLAMA3(digits)                                                                             \
	"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| ?[^" SPACES        \
	"\\p{L}\\p{N}]+[\\r\\n]*|" SPACE "*[\\r\\n]+|" TRAILING_SPACE

static const struct pretok_rule rules[] = {
	{.name = "smollm", .pattern = {DIGIT, GPT2}},
	{.name = "gpt-2", .pattern = {GPT2}},
	{.name = "gpt2", .pattern = {GPT2}},
	{.name = "llama-bpe",
	 .pattern = {LLAMA3("\\p{N}{1,3}")},
	 .whole_words = true,
	 .adds_bos = true},
	{.name = "qwen2", .pattern = {LLAMA3("\\p{N}")}, .nfc = true},
};

struct pretok {
	pcre2_code *code[STAGES];
	uint32_t stages;
};

struct pretok_work {
	pcre2_match_context *context;
	pcre2_match_data *match[STAGES];
};

struct split {
	const struct pretok *p;
	struct pretok_work *w;
	pretok_fn *fn;
	void *ctx;
};

const struct pretok_rule *pretok_rule_find(const char *name, size_t bytes)
{
	for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
		if (strlen(rules[i].name) == bytes && memcmp(rules[i].name, name, bytes) == 0)
			return &rules[i];
	}
	return NULL;
}

int pretok_new(const struct pretok_rule *rule, struct pretok **out, char *error, size_t size)
{
	struct pretok *p = calloc(1, sizeof(*p));

	if (!p)
		return fail_with(error, size, -ENOMEM, "no memory for the tokenizer");
	for (; p->stages < STAGES && rule->pattern[p->stages]; p->stages++) {
		int code = 0;
		PCRE2_SIZE at;
		pcre2_code *compiled =
			pcre2_compile((PCRE2_SPTR)rule->pattern[p->stages], PCRE2_ZERO_TERMINATED,
				      PCRE2_UTF, &code, &at, NULL);

		if (!compiled) {
			pretok_free(p);
			return fail_with(error, size, -ENOMEM,
					 "the pattern \"%s\" does not compile (%d)", rule->name,
					 code);
		}
		/* Where the system allows no JIT, matching is slower and gives the same. */
		(void)pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);
		p->code[p->stages] = compiled;
	}
	*out = p;
	return 0;
}

void pretok_free(struct pretok *p)
{
	if (!p)
		return;
	for (uint32_t i = 0; i < STAGES; i++)
		pcre2_code_free(p->code[i]);
	free(p);
}

struct pretok_work *pretok_work_new(const struct pretok *p)
{
	struct pretok_work *w = calloc(1, sizeof(*w));
	bool ok = w != NULL;

	if (ok) {
		w->context = pcre2_match_context_create(NULL);
		ok = w->context != NULL;
	}
	if (ok)
		(void)pcre2_set_match_limit(w->context, MATCH_LIMIT);
	for (uint32_t i = 0; ok && i < p->stages; i++) {
		w->match[i] = pcre2_match_data_create(1, NULL);
		ok = w->match[i] != NULL;
	}
	if (ok)
		return w;
	pretok_work_free(w);
	return NULL;
}

void pretok_work_free(struct pretok_work *w)
{
	if (!w)
		return;
	for (uint32_t i = 0; i < STAGES; i++)
		pcre2_match_data_free(w->match[i]);
	pcre2_match_context_free(w->context);
	free(w);
}

static int split_stage(const struct split *s, uint32_t stage, const char *text, size_t bytes);

static int piece(const struct split *s, uint32_t stage, const char *text, size_t bytes)
{
	if (!bytes)
		return 0;
	if (stage == s->p->stages)
		return s->fn(s->ctx, text, bytes);
	return split_stage(s, stage, text, bytes);
}

static int split_stage(const struct split *s, uint32_t stage, const char *text, size_t bytes)
{
	pcre2_match_data *match = s->w->match[stage];
	size_t at = 0;

	while (at < bytes) {
		int found = pcre2_match(s->p->code[stage], (PCRE2_SPTR)text, bytes, at,
					PCRE2_NO_UTF_CHECK, match, s->w->context);

		if (found == PCRE2_ERROR_NOMATCH)
			break;
		if (found < 0)
			return -ENOMEM; /* limits of PCRE2 itself */
		const PCRE2_SIZE *span = pcre2_get_ovector_pointer(match);
		size_t start = span[0], end = span[1];
		ASSERT(end > start);
		int status = piece(s, stage + 1, text + at, start - at);
		if (!status)
			status = piece(s, stage + 1, text + start, end - start);
		if (status)
			return status;
		at = end;
	}
	return piece(s, stage + 1, text + at, bytes - at);
}

int pretok_split(const struct pretok *p, struct pretok_work *w, const char *text, size_t bytes,
		 pretok_fn *fn, void *ctx)
{
	struct split s = {p, w, fn, ctx};

	return piece(&s, 0, text, bytes);
}
