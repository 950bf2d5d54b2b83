/* SPDX-License-Identifier: Apache-2.0 */
/* See server_fixture.h. */
#include "tests/unit/engine/http/server_fixture.h"
#include "tests/test.h"
#include "tests/unit/engine/http/fake_tokenizer.h"

void server_fixture_init_config(struct server_fixture *f, const char *reply,
				const struct http_config *config)
{
	char error[256];

	fake_engine_init(&f->engine, reply);
	assert_int_equal(http_start(config, &f->http, error, sizeof(error)), 0);
	f->port = http_port(f->http);
}

void server_fixture_ready(struct server_fixture *f)
{
	const struct http_service service = {
		.engine = &f->engine, .tokenizer = fake_tokenizer(false), .chat = CHAT_CHATML};

	http_set_ready(f->http, &service);
}

void server_fixture_init(struct server_fixture *f, const char *reply)
{
	const struct http_config config = {.model = "tiny"};

	server_fixture_init_config(f, reply, &config);
	server_fixture_ready(f);
}

void server_fixture_fini(struct server_fixture *f)
{
	http_stop(f->http);
	fake_engine_fini(&f->engine);
}

json_t *server_fixture_post(struct server_fixture *f, const char *path, const char *body,
			    int status)
{
	struct client_answer a = client_ask(f->port, "POST", path, body);
	json_t *root = json_loads(a.body, 0, NULL);

	assert_int_equal(a.status, status);
	assert_non_null(strstr(a.head, "X-Request-Id: test-1\r\n"));
	assert_non_null(root);
	client_answer_fini(&a);
	return root;
}

json_t *server_fixture_stream(struct server_fixture *f, const char *path, const char *body)
{
	struct client_answer a = client_ask(f->port, "POST", path, body);
	json_t *events = json_array();
	char *at = a.body;

	assert_int_equal(a.status, 200);
	assert_non_null(strstr(a.head, "Content-Type: text/event-stream"));
	for (;;) {
		char *end = strstr(at, "\n\n");

		assert_non_null(end);
		*end = '\0';
		assert_memory_equal(at, "data: ", 6);
		if (strcmp(at, "data: [DONE]") == 0) {
			assert_string_equal(end + 2, "");
			break;
		}
		json_t *event = json_loads(at + 6, 0, NULL);
		assert_non_null(event);
		json_array_append_new(events, event);
		at = end + 2;
	}
	client_answer_fini(&a);
	return events;
}

json_t *server_fixture_at(json_t *root, const char *path)
{
	char copy[128];
	char *rest = copy;
	char *name;

	snprintf(copy, sizeof(copy), "%s", path);
	while ((name = strsep(&rest, "."))) {
		if (json_is_array(root))
			root = json_array_get(root, (size_t)atoi(name));
		else
			root = json_object_get(root, name);
		if (!root)
			fail_msg("%s is not there", path);
	}
	return root;
}

const char *server_fixture_text(json_t *root, const char *path)
{
	json_t *v = server_fixture_at(root, path);

	assert_true(json_is_string(v));
	return json_string_value(v);
}
