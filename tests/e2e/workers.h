/* SPDX-License-Identifier: Apache-2.0 */
/* engine_worker processes for tests, driven like the harness's other clients. */
#ifndef TESTS_E2E_WORKERS_H
#define TESTS_E2E_WORKERS_H

#include "tests/e2e/harness.h"

/* Digests of what must be equal, and what was found of the prompt. */
struct workers_answer {
	uint64_t tokens, logits, kv, cached, tail_bytes;
};

/* The program comes from $ENGINE_WORKER_BIN; socket may be "private". Options end with NULL. */
void workers_start(struct harness_client *c, const struct harness_kvd *k, const char *socket,
		   const char *model, const char *const options[]);
/* As above with a crash point set; the process may die before it answers. */
void workers_start_fragile(struct harness_client *c, const struct harness_kvd *k, const char *model,
			   const char *crash_at);
/* Evicts all that nobody uses. */
void workers_evict_all(const struct harness_kvd *k);
/* The same when the last answer's lease has gone: the answer is there before that. */
void workers_forget_all(const struct harness_kvd *k);
/* Writes a tiny random model into the harness's directory, once; returns its path. */
const char *workers_tiny_model(const struct harness_kvd *k);

/* $KVD_MODEL. Where that is not there or takes too long, the test ends here as skipped. */
const char *workers_real_model(void);

/* One request of a few tokens. workers_answer() reads the answer to one that was sent. */
struct workers_answer workers_ask(struct harness_client *w, uint64_t seed, uint32_t count,
				  int cache);
void workers_send(struct harness_client *w, uint64_t seed, uint32_t count, int cache);
struct workers_answer workers_answer(struct harness_client *w);
void workers_assert_same(const struct workers_answer *x, const struct workers_answer *y);

#endif
