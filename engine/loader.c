/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading, as a person sees it: what is too large is refused before it is read, progress is shown,
 * and every failure is one sentence with the file's name. Runs on the main thread at start.
 */
#include "engine/loader.h"
#include "base/log.h"
#include "base/units.h"
#include "engine/footprint.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TERMINAL_PERIOD_NS (100 * UNITS_NS_PER_MS)
#define LOG_PERIOD_NS (2 * UNITS_NS_PER_S)
/* Of a packed weight, bf16 or fp16. */
#define WEIGHT_BYTES 2

struct progress {
	bool terminal;
	bool ended;
	uint64_t shown_ns;
	bool (*interrupted)(void);
};

static void show(void *ctx, uint64_t done, uint64_t total)
{
	struct progress *p = ctx;
	uint64_t now_ns = units_now_ns();
	uint64_t period_ns = p->terminal ? TERMINAL_PERIOD_NS : LOG_PERIOD_NS;
	unsigned percent = total ? (unsigned)(100 * done / total) : 100;

	if (p->interrupted()) {
		log_info("model", "stopped while loading");
		_exit(0);
	}
	if (p->ended || (now_ns - p->shown_ns < period_ns && done < total))
		return;
	p->ended = done >= total;
	p->shown_ns = now_ns;
	if (p->terminal)
		fprintf(stderr, "\rloading the model: %3u %%%s", percent, done < total ? "" : "\n");
	else
		log_info("model", "loading, %u %%", percent);
}

/* Before anything is read: a weight that is not there yet cannot be refused later but by the
 * kernel, and that kills. */
static int check_size(const struct gguf *g, const struct kernel_ops *ops, const struct settings *s,
		      char *error, size_t size)
{
	uint64_t room = footprint_room_bytes(ops, s->memory_bytes);
	uint64_t need = 0;
	char a[32], b[32];

	for (uint32_t i = 0; i < gguf_tensor_count(g); i++) {
		const struct gguf_tensor *t = gguf_tensor_at(g, i);
		uint64_t elements = WEIGHT_BYTES;

		for (uint32_t d = 0; d < t->dims; d++) {
			if (__builtin_mul_overflow(elements, t->ne[d], &elements))
				elements = UINT64_MAX;
		}
		if (__builtin_add_overflow(need, elements, &need))
			need = UINT64_MAX;
	}
	if (need <= room)
		return 0;
	snprintf(error, size, "%s needs %s for its weights, and %s of memory are available on %s",
		 s->model, units_format_bytes(need, a, sizeof(a)),
		 units_format_bytes(room, b, sizeof(b)), ops->name);
	return -ENOMEM;
}

/* Token ids of the tokenizer are rows of the embedding: there must be one for each. */
static int check_vocab(const struct loader *l, const struct settings *s, char *error, size_t size)
{
	const struct gguf_tensor *embed = gguf_tensor_find(l->file, "token_embd.weight");
	uint32_t tokens = tokenizer_vocab(l->tokenizer);

	/* A file without it is refused with the model. */
	if (!embed || tokens <= embed->ne[1])
		return 0;
	snprintf(error, size, "%s: the file lists %u tokens and has embeddings for %llu: damaged",
		 s->model, tokens, (unsigned long long)embed->ne[1]);
	return -EINVAL;
}

static enum model_dtype dtype_of(const struct settings *s)
{
	if (strcmp(s->dtype, "fp16") == 0)
		return MODEL_DTYPE_FP16;
	return strcmp(s->dtype, "bf16") == 0 ? MODEL_DTYPE_BF16 : MODEL_DTYPE_AUTO;
}

static int load_model(struct loader *l, const struct kernel_ops *ops, const struct settings *s,
		      bool (*interrupted)(void), char *error, size_t size)
{
	struct progress p = {.terminal = isatty(STDERR_FILENO), .interrupted = interrupted};
	char why[MODEL_ERROR_MAX] = "";
	uint64_t from_ns = units_now_ns();

	int r = model_load(l->file, ops, dtype_of(s), show, &p, &l->model, why);

	if (r < 0) {
		snprintf(error, size, "%s: %s", s->model, why);
		return r;
	}
	log_info("model", "%s, %u layers, context %u, kernels %s, %llu MiB of %s weights, %.1f s",
		 l->model->h.name, l->model->h.layers, l->model->h.context, ops->name,
		 (unsigned long long)(l->model->weight_bytes / UNITS_MIB),
		 l->model->type == KERNEL_FP16 ? "fp16" : "bf16",
		 (double)(units_now_ns() - from_ns) / (double)UNITS_NS_PER_S);
	return 0;
}

int loader_load(struct loader *l, const struct settings *s, bool (*interrupted)(void), char *error,
		size_t size)
{
	const char *device = s->device[0] ? s->device : "auto";
	const struct kernel_ops *ops = kernels_open(device, error, size);
	char why[400] = "";

	if (!ops)
		return -ENODEV;
	if (error[0])
		log_info("engine", "%s takes %s: %s", device, ops->name, error);
	error[0] = '\0';
	int r = gguf_open(s->model, &l->file, why, sizeof(why));

	if (r == 0) {
		r = check_size(l->file, ops, s, error, size);
		if (r < 0)
			return r;
		r = tokenizer_new(l->file, &l->tokenizer, why, sizeof(why));
	}
	if (r == 0)
		r = chat_detect(l->tokenizer, s->chat_template[0] ? s->chat_template : NULL,
				&l->chat, why, sizeof(why));
	if (r < 0) {
		snprintf(error, size, "%s: %s", s->model, why);
		return r;
	}
	r = check_vocab(l, s, error, size);
	if (r == 0)
		r = load_model(l, ops, s, interrupted, error, size);
	/* Everything was copied or packed: its map would only weigh on this process's memory. */
	gguf_close(l->file);
	l->file = NULL;
	return r;
}

void loader_free(struct loader *l)
{
	if (l->model)
		model_free(l->model);
	if (l->tokenizer)
		tokenizer_free(l->tokenizer);
	if (l->file)
		gguf_close(l->file);
}
