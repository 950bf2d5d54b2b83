/* SPDX-License-Identifier: Apache-2.0 */
/* A running server over the fake engine and tokenizer, and what tests ask of it. */
#ifndef TESTS_SERVER_FIXTURE_H
#define TESTS_SERVER_FIXTURE_H

#include "engine/http/http.h"
#include "tests/unit/engine/http/client.h"
#include "tests/unit/engine/http/fake_engine.h"
#include <jansson.h>

struct server_fixture {
	struct engine engine;
	struct http *http;
	uint16_t port;
};

void server_fixture_init(struct server_fixture *f, const char *reply);
/* With a config of one's own, and not ready. */
void server_fixture_init_config(struct server_fixture *f, const char *reply,
				const struct http_config *config);
void server_fixture_ready(struct server_fixture *f);
void server_fixture_fini(struct server_fixture *f);
/* POSTs, checks the status, and returns the JSON: a new reference. */
json_t *server_fixture_post(struct server_fixture *f, const char *path, const char *body,
			    int status);
/* As above for a stream: an array of its events, without the [DONE] that it checks. */
json_t *server_fixture_stream(struct server_fixture *f, const char *path, const char *body);
/* Follows a path as "choices.0.text": borrowed, fails the test if it is not there. */
json_t *server_fixture_at(json_t *root, const char *path);
const char *server_fixture_text(json_t *root, const char *path);

#endif
