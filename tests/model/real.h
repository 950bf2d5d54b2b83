/* SPDX-License-Identifier: Apache-2.0 */
/* Where the real model is: $KVD_MODEL, or the cache that tests/model/fetch fills. */
#ifndef TESTS_MODEL_REAL_H
#define TESTS_MODEL_REAL_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define REAL_MODEL_FILE "SmolLM2-135M-Instruct.Q4_1.gguf"

/* Static memory. Exits with 77, which meson shows as skipped, when there is no file. */
static inline const char *real_model_or_skip(void)
{
	static char path[4096];
	const char *named = getenv("KVD_MODEL");
	const char *cache = getenv("XDG_CACHE_HOME");
	const char *home = getenv("HOME");

	if (named)
		snprintf(path, sizeof(path), "%s", named);
	else if (cache && *cache)
		snprintf(path, sizeof(path), "%s/kvd/models/" REAL_MODEL_FILE, cache);
	else
		snprintf(path, sizeof(path), "%s/.cache/kvd/models/" REAL_MODEL_FILE,
			 home ? home : "");
	if (access(path, R_OK) == 0)
		return path;
	fprintf(stderr, "skipped: no model at %s: run tests/model/fetch or set KVD_MODEL\n", path);
	exit(77);
}

#endif
