/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine that does what it is told on stdin and answers on stdout, with digests of all that must
 * be equal: the bits of the sampled rows' logits, the bits of K and V of every computed token, and
 * the tokens. Usage: engine_worker SOCKET MODEL [name=value]...
 *
 *   run SEED COUNT MAX CACHE         one request, alone
 *   many SEED COUNT MAX REQUESTS     so many at once, seeds from SEED on; digest of all tokens
 *   beside SEED COUNT MAX SEED COUNT a second request, submitted in the middle of the first one;
 *                                    `between`: tokens of the first before the second has any
 *   stats                            counters of the engine
 *   close                            a clean end
 *
 * Prompts of one seed are prefixes of one another. Logits are seen by wrapping forward_submit() and
 * forward_wait().
 */
#include "base/units.h"
#include "engine/engine.h"
#include "engine/forward.h"
#include "engine/model/gguf.h"
#include "engine/seq.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define REQUESTS_MAX 32u
#define TOKENS_MAX 2048u
#define BESIDE_AT 5u
#define BESIDE_TOKENS 20u

struct worker {
	struct engine *engine;
	const struct model *model;
	struct kvd_layout layout;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	uint32_t running;
};

struct request {
	struct worker *w;
	struct engine_request *handle;
	struct engine_done done;
	uint32_t tokens[TOKENS_MAX];
	uint32_t count;
	uint64_t kv;
	struct request *second; /* submitted when this one has BESIDE_AT tokens */
	struct request *first;
	uint32_t between;
	uint64_t seed;
	uint32_t prompt_count;
};

static XXH3_state_t *logits_state;
static uint32_t logits_vocab;

static uint32_t logits_rows;

void __real_forward_submit(struct forward *f, const struct kernel_batch *b);
void __wrap_forward_submit(struct forward *f, const struct kernel_batch *b);
int __real_forward_wait(struct forward *f);
int __wrap_forward_wait(struct forward *f);

void __wrap_forward_submit(struct forward *f, const struct kernel_batch *b)
{
	logits_rows = b->sampled_count;
	__real_forward_submit(f, b);
}

int __wrap_forward_wait(struct forward *f)
{
	int r = __real_forward_wait(f);

	for (uint32_t i = 0; r == 0 && i < logits_rows; i++)
		XXH3_64bits_update(logits_state, forward_logits(f, i),
				   (size_t)logits_vocab * sizeof(float));
	return r;
}

static uint64_t random_word(uint64_t z)
{
	z = (z + 0x9e3779b97f4a7c15ull) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

/* --- the answer's digests ------------------------------------------------------------------------
 */

static void hash_token(const struct kvd_layout *l, XXH3_state_t *state, const char *page,
		       uint32_t t)
{
	for (uint32_t layer = 0; layer < l->layers; layer++) {
		for (uint32_t h = 0; h < l->kv_heads; h++) {
			const char *k = page + kvd_layout_k(l, layer, h);
			const char *v = page + kvd_layout_v(l, layer, h);

			for (uint32_t d = 0; d < l->head_dim; d++) {
				XXH3_64bits_update(state, k + 2 * kvd_layout_k16_index(l, t, d), 2);
				XXH3_64bits_update(state, v + 2 * kvd_layout_v2_index(l, t, d), 2);
			}
		}
	}
}

/* While done() runs, the lease is still there. */
static uint64_t hash_kv(const struct worker *w, struct seq *s)
{
	XXH3_state_t *state = XXH3_createState();
	uint32_t count = 0;

	XXH3_64bits_reset(state);
	const uint64_t *pages = s->lease ? kv_pages(s->lease, &count) : NULL;

	for (uint32_t t = 0; pages && t < s->done; t++) {
		uint64_t page = pages[t / w->layout.page_tokens];

		hash_token(&w->layout, state, (const char *)(uintptr_t)page,
			   t % w->layout.page_tokens);
	}
	uint64_t digest = XXH3_64bits_digest(state);

	XXH3_freeState(state);
	return digest;
}

static void submit_second(struct worker *w, struct request *first);

static void on_token(void *ctx, const struct engine_token *t)
{
	struct request *r = ctx;

	r->tokens[r->count++] = t->token;
	if (r->second && r->count == BESIDE_AT)
		submit_second(r->w, r);
	if (r->first && r->count == 1)
		r->between = r->first->count - BESIDE_AT;
}

static void on_done(void *ctx, const struct engine_done *d)
{
	struct request *r = ctx;

	r->done = *d;
	r->kv = hash_kv(r->w, (struct seq *)r->handle);
	pthread_mutex_lock(&r->w->lock);
	r->w->running--;
	pthread_cond_signal(&r->w->cond);
	pthread_mutex_unlock(&r->w->lock);
}

/* --- commands ------------------------------------------------------------------------------------
 */

static int submit(struct worker *w, struct request *r, uint64_t seed, uint32_t count, uint32_t max,
		  bool cache)
{
	uint32_t tokens[TOKENS_MAX];

	for (uint32_t i = 0; i < count; i++)
		tokens[i] = (uint32_t)(random_word(seed * 1000003 + i) % w->model->h.vocab);
	r->w = w;
	const struct engine_submit_args args = {
		.tokens = tokens,
		.token_count = count,
		.max_tokens = max,
		.use_cache = cache,
		.sampling = {.temperature = 0.9f, .top_p = 0.95f, .seed = seed},
		.sink = {on_token, on_done, r},
	};

	pthread_mutex_lock(&w->lock);
	w->running++;
	pthread_mutex_unlock(&w->lock);
	int result = engine_submit(w->engine, &args, &r->handle);

	if (result < 0)
		w->running--;
	return result;
}

static void wait_all(struct worker *w)
{
	pthread_mutex_lock(&w->lock);
	while (w->running > 0)
		pthread_cond_wait(&w->cond, &w->lock);
	pthread_mutex_unlock(&w->lock);
}

static void run(struct worker *w, const char *args)
{
	static struct request r;
	unsigned long long seed;
	unsigned int count, max, cache;

	if (sscanf(args, "%llu %u %u %u", &seed, &count, &max, &cache) != 4 ||
	    count + max > TOKENS_MAX) {
		printf("usage\n");
		return;
	}
	XXH3_64bits_reset(logits_state);
	r = (struct request){0};
	int result = submit(w, &r, seed, count, max, cache);

	if (result < 0) {
		printf("refused errno=%d\n", -result);
		return;
	}
	wait_all(w);
	if (r.done.finish == ENGINE_FINISH_ERROR) {
		printf("error status=%d %s\n", r.done.status, r.done.error);
		return;
	}
	printf("ok tokens=%llu count=%u logits=%llu kv=%llu cached=%u tail_bytes=%llu\n",
	       (unsigned long long)XXH3_64bits(r.tokens, r.count * sizeof(*r.tokens)), r.count,
	       (unsigned long long)XXH3_64bits_digest(logits_state), (unsigned long long)r.kv,
	       r.done.cached_tokens, (unsigned long long)r.done.tail_bytes_copied);
}

static void many(struct worker *w, const char *args)
{
	static struct request r[REQUESTS_MAX];
	unsigned long long seed;
	unsigned int count, max, requests;
	uint64_t digest = 0;
	uint32_t errors = 0;

	if (sscanf(args, "%llu %u %u %u", &seed, &count, &max, &requests) != 4 ||
	    count + max > TOKENS_MAX || requests > REQUESTS_MAX) {
		printf("usage\n");
		return;
	}
	memset(r, 0, sizeof(r));
	for (uint32_t i = 0; i < requests; i++)
		errors += submit(w, &r[i], seed + i, count, max, true) < 0;
	wait_all(w);
	for (uint32_t i = 0; i < requests; i++) {
		errors += r[i].done.finish == ENGINE_FINISH_ERROR;
		if (r[i].done.finish == ENGINE_FINISH_ERROR)
			fprintf(stderr, "request: %s\n", r[i].done.error);
		digest = XXH3_64bits_withSeed(r[i].tokens, r[i].count * sizeof(*r[i].tokens),
					      digest);
	}
	printf("ok tokens=%llu errors=%u\n", (unsigned long long)digest, errors);
}

/* On the engine's thread: what is counted is counted there. */
static void submit_second(struct worker *w, struct request *first)
{
	struct request *r = first->second;

	if (submit(w, r, r->seed, r->prompt_count, BESIDE_TOKENS, true) < 0)
		r->done.finish = ENGINE_FINISH_ERROR;
}

static void beside(struct worker *w, const char *args)
{
	static struct request r[2];
	unsigned long long seed, seed_2;
	unsigned int count, max, count_2;

	if (sscanf(args, "%llu %u %u %llu %u", &seed, &count, &max, &seed_2, &count_2) != 5 ||
	    count + max > TOKENS_MAX || count_2 + BESIDE_TOKENS > TOKENS_MAX) {
		printf("usage\n");
		return;
	}
	r[0] = (struct request){.second = &r[1]};
	r[1] = (struct request){.first = &r[0], .seed = seed_2, .prompt_count = count_2};
	uint32_t errors = submit(w, &r[0], seed, count, max, true) < 0;

	wait_all(w);
	for (int i = 0; i < 2; i++)
		errors += r[i].done.finish == ENGINE_FINISH_ERROR;
	printf("ok tokens=%llu second=%llu errors=%u between=%u cached=%u\n",
	       (unsigned long long)XXH3_64bits(r[0].tokens, r[0].count * sizeof(*r[0].tokens)),
	       (unsigned long long)XXH3_64bits(r[1].tokens, r[1].count * sizeof(*r[1].tokens)),
	       errors, r[1].between, r[1].done.cached_tokens);
}

static void stats(struct worker *w)
{
	struct engine_stats s;

	engine_stats(w->engine, &s);
	printf("ok reconnects=%llu preemptions=%llu ready=%d private=%d cached=%llu\n",
	       (unsigned long long)s.kvd_reconnects, (unsigned long long)s.preemptions, s.kvd_ready,
	       s.private_kvd, (unsigned long long)s.cached_tokens);
}

/* --- start -------------------------------------------------------------------------------------
 */

static void set_option(struct engine_config *c, const char *arg)
{
	const char *value = strchr(arg, '=');

	if (!value)
		return;
	uint32_t v = (uint32_t)strtoul(++value, NULL, 10);

	if (strncmp(arg, "threads=", 8) == 0)
		c->threads = v;
	else if (strncmp(arg, "chunk=", 6) == 0)
		c->chunk_tokens = v;
	else if (strncmp(arg, "page=", 5) == 0)
		c->page_tokens = v;
	else if (strncmp(arg, "pool=", 5) == 0)
		c->kvd_pool_bytes = v;
}

static struct model *load(const char *path)
{
	struct gguf *file;
	struct model *m;
	char error[MODEL_ERROR_MAX];

	if (gguf_open(path, &file, error, sizeof(error)) < 0 ||
	    model_load(file, kernels_cpu(NULL), MODEL_DTYPE_AUTO, NULL, NULL, &m, error) < 0) {
		printf("failed %s\n", error);
		exit(1);
	}
	gguf_close(file);
	return m;
}

static void commands(struct worker *w)
{
	char line[512];

	while (fgets(line, sizeof(line), stdin)) {
		if (strncmp(line, "run ", 4) == 0)
			run(w, line + 4);
		else if (strncmp(line, "many ", 5) == 0)
			many(w, line + 5);
		else if (strncmp(line, "beside ", 7) == 0)
			beside(w, line + 7);
		else if (strncmp(line, "stats", 5) == 0)
			stats(w);
		else if (strncmp(line, "close", 5) == 0)
			return;
		else
			printf("unknown\n");
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	struct worker w = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
	char error[512];

	if (argc < 3)
		return 2;
	struct model *model = load(argv[2]);
	bool private = strcmp(argv[1], "private") == 0;
	struct engine_config config = {.model = model,
				       .kvd_mode =
					       private ? ENGINE_KVD_PRIVATE : ENGINE_KVD_REQUIRE,
				       .kvd_socket = private ? NULL : argv[1],
				       .kvd_program = getenv("KVD_BIN"),
				       .name = "engine_worker"};

	for (int i = 3; i < argc; i++)
		set_option(&config, argv[i]);
	w.model = model;
	w.layout = (struct kvd_layout){.layers = model->h.layers,
				       .kv_heads = model->h.kv_heads,
				       .head_dim = model->h.head_dim,
				       .page_tokens = config.page_tokens ? config.page_tokens : 64,
				       .element_bytes = 2};
	logits_state = XXH3_createState();
	XXH3_64bits_reset(logits_state);
	logits_vocab = model->h.vocab;
	if (engine_new(&config, &w.engine, error, sizeof(error)) < 0) {
		printf("failed %s\n", error);
		return 1;
	}
	printf("ok\n");
	fflush(stdout);
	commands(&w);
	engine_free(w.engine);
	model_free(model);
	XXH3_freeState(logits_state);
	printf("ok\n");
	return 0;
}
