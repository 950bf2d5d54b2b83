/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stand-in for the engine: every request runs on a thread of its own and answers with the bytes
 * of `reply`, then with an end token. Set the fields before the first request.
 */
#ifndef TESTS_FAKE_ENGINE_H
#define TESTS_FAKE_ENGINE_H

#include "engine/engine.h"
#include <pthread.h>

#define FAKE_REQUESTS_MAX 256u

struct engine {
	const char *reply;
	uint32_t context;
	bool kvd_gone;
	int submit_result; /* < 0: what engine_submit() returns */
	uint32_t fail_at;  /* ends with an error before this generated token; 0: never */
	uint32_t hold_at;  /* waits before this generated token (from 1) until cancelled */
	int fail_status;

	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t thread[FAKE_REQUESTS_MAX];
	uint32_t submitted;
	uint32_t cancelled;
	uint32_t stopped;
	uint32_t ended;
	struct engine_submit_args last; /* without its tokens */
};

void fake_engine_init(struct engine *e, const char *reply);
/* Joins all. */
void fake_engine_fini(struct engine *e);
/* Waits until so many requests have ended because they were cancelled. */
void fake_engine_wait_cancelled(struct engine *e, uint32_t count);
/* The same for those whose client had all it wanted. */
void fake_engine_wait_stopped(struct engine *e, uint32_t count);
void fake_engine_wait_submitted(struct engine *e, uint32_t count);

#endif
