/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text to tokens, in the order of the reference tokenizers: make the text valid UTF-8 (what is
 * not becomes U+FFFD), take out added tokens, normalise and cut what lies between them into words
 * (pretok.c), encode each word (bpe.c).
 *
 * A struct tokenizer is immutable but for what it has learnt of words (struct tokenizer.word);
 * everything else that an encoding changes is its own, so any number of threads may encode at once.
 */
#include "engine/model/fail.h"
#include "engine/text/bpe.h"
#include "engine/text/parts.h"
#include "engine/text/utf8.h"

#include <base/atomic.h>
#include <base/bits.h>
#include <base/log.h>
#include <utf8proc.h>

#define TEXT_BYTES_MAX (256u << 20)
#define TEMPLATE_BYTES_MAX (1u << 20)

struct encoding {
	const struct tokenizer *t;
	struct pretok_work *pretok;
	struct bpe_work bpe;
	struct tokens tokens;
};

/* --- loading -----------------------------------------------------------------------------------
 */

/* A file without the key has no such token; one that names a token outside of the list is wrong. */
static int read_token(const struct gguf *g, const char *key, uint32_t count, uint32_t *out,
		      char *error, size_t size)
{
	uint32_t v = VOCAB_NONE;

	if (gguf_get_u32(g, key, &v) == -EINVAL || (v != VOCAB_NONE && v >= count))
		return fail_with(error, size, -EINVAL, "%s is not one of the %u tokens", key,
				 count);
	*out = v;
	return 0;
}

static void add_end(struct tokenizer *t, uint32_t token)
{
	if (token == VOCAB_NONE || t->end_count == PARTS_ENDS_MAX || tokenizer_is_end(t, token))
		return;
	t->ends[t->end_count++] = token;
}

static int read_ends(struct tokenizer *t, const struct gguf *g, char *error, size_t size)
{
	static const char *const keys[] = {"tokenizer.ggml.eos_token_id",
					   "tokenizer.ggml.eot_token_id",
					   "tokenizer.ggml.eom_token_id"};
	/* Files name one of these as eos, and models write any of them. */
	static const char *const spellings[] = {"<|im_end|>",	   "<|endoftext|>", "<|eot_id|>",
						"<|end_of_text|>", "<|eom_id|>",    "</s>"};

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		uint32_t token = VOCAB_NONE;
		int status = read_token(g, keys[i], t->vocab.count, &token, error, size);

		if (status)
			return status;
		add_end(t, token);
	}
	for (size_t i = 0; i < ARRAY_LEN(spellings); i++)
		add_end(t, vocab_find_added(&t->vocab, spellings[i]));
	return 0;
}

static int read_kind(struct tokenizer *t, const struct gguf *g, char *error, size_t size)
{
	struct gguf_string model = {"", 0}, pre = {"", 0};
	bool prefix = false;
	char shown[64];

	(void)gguf_get_string(g, "tokenizer.ggml.model", &model);
	if (model.bytes != 4 || memcmp(model.text, "gpt2", 4) != 0)
		return fail_with(error, size, -ENOTSUP,
				 "tokenizer \"%s\" is not supported, only byte-level BPE (gpt2)",
				 log_safe(model.text, model.bytes, shown, sizeof(shown)));
	(void)gguf_get_string(g, "tokenizer.ggml.pre", &pre);
	t->rule = pretok_rule_find(pre.text, pre.bytes);
	if (!t->rule)
		return fail_with(
			error, size, -ENOTSUP,
			"pre-tokenizer \"%s\" is not supported: a guess would cut words wrongly",
			log_safe(pre.text, pre.bytes, shown, sizeof(shown)));
	(void)gguf_get_bool(g, "tokenizer.ggml.add_space_prefix", &prefix);
	if (prefix)
		return fail_with(error, size, -ENOTSUP,
				 "the tokenizer adds a space before texts, which is not supported");
	t->adds_bos = t->rule->adds_bos;
	(void)gguf_get_bool(g, "tokenizer.ggml.add_bos_token", &t->adds_bos);
	return 0;
}

static int read_template(struct tokenizer *t, const struct gguf *g, char *error, size_t size)
{
	struct gguf_string text;

	if (gguf_get_string(g, "tokenizer.chat_template", &text) == 0) {
		if (text.bytes > TEMPLATE_BYTES_MAX)
			return fail_with(error, size, -EINVAL,
					 "the chat template is %zu bytes long", text.bytes);
		t->chat_text = strndup(text.text, text.bytes);
		if (!t->chat_text)
			return fail_with(error, size, -ENOMEM, "no memory for the chat template");
	}
	if (chat_init(t))
		return fail_with(error, size, -ENOMEM, "no memory for the chat template");
	return 0;
}

static int load(struct tokenizer *t, const struct gguf *g, char *error, size_t size)
{
	int status = read_kind(t, g, error, size);

	if (!status)
		status = pretok_new(t->rule, &t->pretok, error, size);
	if (!status)
		status = vocab_init(&t->vocab, g, error, size);
	if (!status)
		status = merges_init(&t->merges, &t->vocab, g, error, size);
	if (!status)
		t->word = calloc(t->vocab.count, sizeof(*t->word));
	if (!status && (!t->word || added_init(&t->added, &t->vocab)))
		status = fail_with(error, size, -ENOMEM, "no memory for the tokenizer");
	if (!status)
		status = read_token(g, "tokenizer.ggml.bos_token_id", t->vocab.count, &t->bos,
				    error, size);
	if (!status)
		status = read_ends(t, g, error, size);
	if (!status)
		status = read_template(t, g, error, size);
	if (!status && t->adds_bos && t->bos == VOCAB_NONE)
		status = fail_with(error, size, -EINVAL,
				   "the tokenizer adds a first token, but the file names none");
	return status;
}

int tokenizer_new(const struct gguf *g, struct tokenizer **out, char *error, size_t size)
{
	struct tokenizer *t = calloc(1, sizeof(*t));

	if (!t)
		return fail_with(error, size, -ENOMEM, "no memory for the tokenizer");
	int status = load(t, g, error, size);
	if (status) {
		tokenizer_free(t);
		return status;
	}
	*out = t;
	return 0;
}

void tokenizer_free(struct tokenizer *t)
{
	if (!t)
		return;
	chat_fini(t);
	free(t->chat_text);
	free(t->word);
	added_fini(&t->added);
	merges_fini(&t->merges);
	vocab_fini(&t->vocab);
	pretok_free(t->pretok);
	free(t);
}

/* --- encoding ----------------------------------------------------------------------------------
 */

/* What merging made of a word that is spelled like token `id`. */
static void learn_word(const struct encoding *e, uint32_t id, size_t first)
{
	const struct tokens *out = &e->tokens;

	if (out->count > out->max)
		return; /* nobody knows which tokens they were */
	bool whole = out->count == first + 1 && out->out[first] == id;
	atomic_store_relaxed(&e->t->word[id], whole ? PARTS_WORD_WHOLE : PARTS_WORD_PIECES);
}

/* Most words of a text are one token, which is cheaper to remember than to merge anew. */
static int encode_word(void *ctx, const char *word, size_t bytes)
{
	struct encoding *e = ctx;
	const struct tokenizer *t = e->t;
	uint32_t id = vocab_find(&t->vocab, word, bytes);
	size_t first = e->tokens.count;
	/* Partner: learn_word(). Whoever sees nothing merges, and finds the same. */
	enum parts_word known =
		id == VOCAB_NONE ? PARTS_WORD_PIECES : atomic_load_relaxed(&t->word[id]);

	if (known == PARTS_WORD_WHOLE || (id != VOCAB_NONE && t->rule->whole_words)) {
		tokens_push(&e->tokens, id);
		return 0;
	}
	int status = bpe_encode(&t->vocab, &t->merges, &e->bpe, word, bytes, &e->tokens);
	if (!status && known == PARTS_WORD_NEW)
		learn_word(e, id, first);
	return status;
}

/* Text without added tokens in it. */
static int encode_plain(struct encoding *e, const char *text, size_t bytes)
{
	utf8proc_uint8_t *normal = NULL;

	if (!bytes)
		return 0;
	if (e->t->rule->nfc) {
		utf8proc_ssize_t size =
			utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)bytes,
				     &normal, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
		if (size < 0)
			return -ENOMEM; /* the text is valid, so it is nothing else */
		text = (const char *)normal;
		bytes = (size_t)size;
	}
	int status = pretok_split(e->t->pretok, e->pretok, text, bytes, encode_word, e);
	free(normal);
	return status;
}

static int encode_valid(struct encoding *e, const char *text, size_t bytes, bool special)
{
	size_t from = 0, at = 0;

	while (at < bytes) {
		size_t length = 0;
		uint32_t id = added_match(&e->t->added, text + at, bytes - at, special, &length);

		if (id == VOCAB_NONE) {
			at++;
			continue;
		}
		int status = encode_plain(e, text + from, at - from);
		if (status)
			return status;
		tokens_push(&e->tokens, id);
		at += length;
		from = at;
	}
	return encode_plain(e, text + from, bytes - from);
}

static size_t valid_prefix(const char *text, size_t bytes)
{
	size_t at = 0, step;

	while (at < bytes && utf8_next(text + at, bytes - at, &step) == UTF8_CHARACTER)
		at += step;
	return at;
}

/* Writes text with U+FFFD for what is not UTF-8 to out[3 * bytes]; returns its length. */
static size_t repair(const char *text, size_t bytes, char *out)
{
	size_t used = 0, step;

	for (size_t at = 0; at < bytes; at += step) {
		if (utf8_next(text + at, bytes - at, &step) == UTF8_CHARACTER) {
			memcpy(out + used, text + at, step);
			used += step;
		} else {
			memcpy(out + used, UTF8_REPLACEMENT, UTF8_REPLACEMENT_BYTES);
			used += UTF8_REPLACEMENT_BYTES;
		}
	}
	return used;
}

int tokenizer_encoding_add(struct encoding *e, const char *text, size_t bytes, bool special)
{
	if (bytes > TEXT_BYTES_MAX)
		return -E2BIG;
	if (valid_prefix(text, bytes) == bytes)
		return encode_valid(e, text, bytes, special);
	char *repaired = malloc(UTF8_REPLACEMENT_BYTES * bytes);
	if (!repaired)
		return -ENOMEM;
	int status = encode_valid(e, repaired, repair(text, bytes, repaired), special);
	free(repaired);
	return status;
}

void tokenizer_encoding_push(struct encoding *e, uint32_t token)
{
	tokens_push(&e->tokens, token);
}

struct encoding *tokenizer_encoding_new(const struct tokenizer *t, uint32_t *out, size_t max)
{
	struct encoding *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	*e = (struct encoding){.t = t, .tokens = {out, max, 0}};
	e->pretok = pretok_work_new(t->pretok);
	if (!e->pretok) {
		free(e);
		return NULL;
	}
	return e;
}

int64_t tokenizer_encoding_end(struct encoding *e, int status)
{
	int64_t count = (int64_t)e->tokens.count;

	bpe_work_fini(&e->bpe);
	pretok_work_free(e->pretok);
	free(e);
	return status ? status : count;
}

int64_t tokenizer_encode(const struct tokenizer *t, const char *text, size_t bytes, bool special,
			 uint32_t *out, size_t max)
{
	struct encoding *e = tokenizer_encoding_new(t, out, max);

	if (!e)
		return -ENOMEM;
	return tokenizer_encoding_end(e, tokenizer_encoding_add(e, text, bytes, special));
}

/* --- questions ---------------------------------------------------------------------------------
 */

int tokenizer_piece(const struct tokenizer *t, uint32_t token, bool special, const char **out_text,
		    size_t *out_bytes)
{
	if (token >= t->vocab.count)
		return -EINVAL;
	const struct vocab_token *v = &t->vocab.token[token];
	*out_text = t->vocab.text + v->offset;
	*out_bytes = v->kind == VOCAB_CONTROL && !special ? 0 : v->bytes;
	return 0;
}

uint32_t tokenizer_vocab(const struct tokenizer *t)
{
	return t->vocab.count;
}

uint32_t tokenizer_bos(const struct tokenizer *t)
{
	return t->bos;
}

bool tokenizer_adds_bos(const struct tokenizer *t)
{
	return t->adds_bos;
}

bool tokenizer_is_end(const struct tokenizer *t, uint32_t token)
{
	for (uint32_t i = 0; i < t->end_count; i++) {
		if (t->ends[i] == token)
			return true;
	}
	return false;
}

uint32_t tokenizer_ends(const struct tokenizer *t, uint32_t *out, uint32_t max)
{
	uint32_t count = BITS_MIN(t->end_count, max);

	memcpy(out, t->ends, count * sizeof(*out));
	return count;
}

const char *tokenizer_template(const struct tokenizer *t)
{
	return t->chat_text;
}
