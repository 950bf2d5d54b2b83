/* SPDX-License-Identifier: Apache-2.0 */
/* engine_worker processes for tests, driven like the harness's other clients. */
#ifndef TESTS_E2E_WORKERS_H
#define TESTS_E2E_WORKERS_H

#include "tests/e2e/harness.h"

/* The program comes from $ENGINE_WORKER_BIN; socket may be "private". Options end with NULL. */
void workers_start(struct harness_client *c, const struct harness_kvd *k, const char *socket,
		   const char *model, const char *const options[]);
/* As above with a crash point set; the process may die before it answers. */
void workers_start_fragile(struct harness_client *c, const struct harness_kvd *k, const char *model,
			   const char *crash_at);
/* Evicts all that nobody uses. */
void workers_evict_all(const struct harness_kvd *k);
/* Writes a tiny random model into the harness's directory, once; returns its path. */
const char *workers_tiny_model(const struct harness_kvd *k);

#endif
