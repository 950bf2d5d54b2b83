/* SPDX-License-Identifier: Apache-2.0 */
/* From the settings' model file to everything that serving it needs. */
#ifndef ENGINE_LOADER_H
#define ENGINE_LOADER_H

#include <engine/model/gguf.h>
#include <engine/model/model.h>
#include <engine/settings.h>
#include <engine/text/tokenizer.h>

struct loader {
	struct gguf *file;
	struct model *model;
	struct tokenizer *tokenizer;
	enum chat_kind chat;
};

/*
 * Opens, checks and packs the model, showing progress on a terminal and as log lines elsewhere.
 * `interrupted` is asked now and then; when it says true the process ends. 0, or -errno with a
 * sentence in error[size]. After a failure loader_free() is still due.
 */
int loader_load(struct loader *l, const struct settings *s, bool (*interrupted)(void), char *error,
		size_t size);
void loader_free(struct loader *l);

#endif
