/* SPDX-License-Identifier: Apache-2.0 */
/* The server itself: readiness, endpoints, refusals, bounds, ports. */
#include "tests/test.h"
#include "tests/unit/engine/http/fake_tokenizer.h"
#include "tests/unit/engine/http/server_fixture.h"
#include <base/units.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#define COMPLETIONS "/v1/completions"

static void asks(struct server_fixture *f, const char *method, const char *path, int status,
		 const char *word)
{
	struct client_answer a = client_ask(f->port, method, path, "");

	assert_int_equal(a.status, status);
	if (!strstr(a.body, word) && !strstr(a.head, word))
		fail_msg("%s %s: no '%s' in: %s%s", method, path, word, a.head, a.body);
	client_answer_fini(&a);
}

static void test_loading_then_ready(void **state)
{
	const struct http_config config = {.model = "tiny"};
	struct server_fixture f;

	server_fixture_init_config(&f, "hello", &config);
	asks(&f, "GET", "/health", 503, "loading");
	asks(&f, "GET", "/v1/models", 503, "Retry-After");
	asks(&f, "POST", COMPLETIONS, 503, "loading");
	asks(&f, "GET", "/version", 200, KVD_VERSION);
	asks(&f, "GET", "/metrics", 200, "kvengine_http_connections");
	server_fixture_ready(&f);
	asks(&f, "GET", "/health", 200, "ok");
	asks(&f, "HEAD", "/health", 200, "200");
	asks(&f, "GET", "/v1/models", 200, "\"id\":\"tiny\"");
	asks(&f, "GET", "/v1/models", 200, "\"max_model_len\":4096");
	f.engine.kvd_gone = true;
	asks(&f, "GET", "/health", 503, "kvd");
	server_fixture_fini(&f);
}

static void test_unknown_paths_and_methods(void **state)
{
	struct server_fixture f;

	server_fixture_init(&f, "hello");
	asks(&f, "GET", "/", 404, "not_found");
	asks(&f, "GET", "/v1/completions/", 404, "not_found");
	asks(&f, "GET", COMPLETIONS, 405, "Allow: POST");
	asks(&f, "DELETE", "/v1/models", 405, "Allow: GET");
	asks(&f, "POST", COMPLETIONS, 400, "empty");
	server_fixture_fini(&f);
}

static void test_metrics(void **state)
{
	const struct http_config config = {.model = "a\"b\\c\n"};
	struct server_fixture f;

	server_fixture_init_config(&f, "hello", &config);
	server_fixture_ready(&f);
	asks(&f, "GET", "/nowhere", 404, "not_found");
	struct client_answer a = client_ask(f.port, "GET", "/metrics", "");
	assert_non_null(strstr(a.body, "kvengine_prefix_cache_hits_total{model_name=\"a\\\"b\\\\c?"
				       "\"} 42\n"));
	assert_non_null(strstr(a.body, "status=\"4xx\"} 1\n"));
	assert_non_null(strstr(a.body, "kvengine_time_to_first_token_seconds_sum{"));
	assert_non_null(strstr(a.body, "le=\"+Inf\"} 3\n"));
	client_answer_fini(&a);
	server_fixture_fini(&f);
}

static void test_tokenize_and_back(void **state)
{
	struct server_fixture f;

	server_fixture_init(&f, "hello");
	json_t *a = server_fixture_post(&f, "/tokenize", "{\"prompt\": \"ab\"}", 200);
	assert_int_equal(json_integer_value(server_fixture_at(a, "count")), 2);
	assert_int_equal(json_integer_value(server_fixture_at(a, "tokens.1")), 'b');
	json_decref(a);
	a = server_fixture_post(&f, "/tokenize",
				"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}", 200);
	json_decref(a);
	a = server_fixture_post(&f, "/detokenize", "{\"tokens\": [97, 98]}", 200);
	assert_string_equal(server_fixture_text(a, "prompt"), "ab");
	json_decref(a);
	json_decref(server_fixture_post(&f, "/detokenize", "{\"tokens\": \"x\"}", 400));
	json_decref(server_fixture_post(&f, "/detokenize", "{\"tokens\": [999]}", 400));
	json_decref(server_fixture_post(&f, "/detokenize", "{}", 400));
	json_decref(server_fixture_post(&f, "/tokenize", "{\"prompt\": [\"a\", \"b\"]}", 400));
	server_fixture_fini(&f);
}

static struct client_answer ask_large(struct server_fixture *f, const char *headers, size_t bytes)
{
	int fd = client_connect(f->port);
	char head[256];
	char *body = malloc(bytes);

	assert_non_null(body);
	memset(body, ' ', bytes);
	int n = snprintf(head, sizeof(head),
			 "POST " COMPLETIONS " HTTP/1.1\r\nHost: t\r\nConnection: close\r\n"
			 "Content-Length: %zu\r\n%s\r\n",
			 bytes, headers);
	client_send(fd, head, (size_t)n);
	if (!headers[0])
		client_send(fd, body, bytes);
	free(body);
	struct client_answer a = client_read(fd);
	close(fd);
	return a;
}

static void test_large_bodies(void **state)
{
	const struct http_config config = {.model = "tiny", .body_bytes_max = 100000};
	struct server_fixture f;

	server_fixture_init_config(&f, "hello", &config);
	server_fixture_ready(&f);
	struct client_answer a = ask_large(&f, "", 100001);
	assert_int_equal(a.status, 413);
	client_answer_fini(&a);
	a = ask_large(&f, "Expect: 100-continue\r\n", 1000000000);
	assert_int_equal(a.status, 413);
	client_answer_fini(&a);
	a = ask_large(&f, "", 100000);
	assert_int_equal(a.status, 400); /* blanks are no JSON */
	client_answer_fini(&a);
	server_fixture_fini(&f);
}

/* A chunked body says its size only as it comes. */
static void test_large_chunked_body(void **state)
{
	const struct http_config config = {.model = "tiny", .body_bytes_max = 100};
	struct server_fixture f;

	server_fixture_init_config(&f, "hello", &config);
	server_fixture_ready(&f);
	int fd = client_connect(f.port);
	const char *head = "POST " COMPLETIONS " HTTP/1.1\r\nHost: t\r\nConnection: close\r\n"
			   "Transfer-Encoding: chunked\r\n\r\n";
	client_send(fd, head, strlen(head));
	for (int i = 0; i < 20; i++)
		client_send(fd, "10\r\n0123456789abcdef\r\n", 22);
	client_send(fd, "0\r\n\r\n", 5);
	struct client_answer a = client_read(fd);
	assert_int_equal(a.status, 413);
	client_answer_fini(&a);
	close(fd);
	server_fixture_fini(&f);
}

/* A client that stops at any byte is no reason for anything. */
static void test_clients_that_vanish(void **state)
{
	struct server_fixture f;
	const char *whole = "POST " COMPLETIONS " HTTP/1.1\r\nHost: t\r\nContent-Length: 15\r\n\r\n"
			    "{\"prompt\": \"a\"}";

	server_fixture_init(&f, "hello");
	for (size_t n = 0; n <= strlen(whole); n++) {
		int fd = client_connect(f.port);

		client_send(fd, whole, n);
		close(fd);
	}
	asks(&f, "GET", "/health", 200, "ok");
	server_fixture_fini(&f);
}

/* Two requests on one connection, and an answer to HTTP/1.0. */
static void test_keep_alive(void **state)
{
	struct server_fixture f;
	const char *two = "GET /health HTTP/1.1\r\nHost: t\r\n\r\n"
			  "POST " COMPLETIONS " HTTP/1.1\r\nHost: t\r\nContent-Length: 15\r\n"
			  "Connection: close\r\n\r\n{\"prompt\": \"a\"}";

	server_fixture_init(&f, "hello");
	int fd = client_connect(f.port);
	client_send(fd, two, strlen(two));
	client_read_until(fd, "\"ok\"");
	struct client_answer a = client_read(fd);
	assert_int_equal(a.status, 200);
	assert_non_null(strstr(a.body, "hello"));
	client_answer_fini(&a);
	close(fd);
	server_fixture_fini(&f);
}

static uint64_t open_connections(struct server_fixture *f)
{
	static const char name[] = "kvengine_http_connections{model_name=\"tiny\"} ";
	struct client_answer a = client_ask(f->port, "GET", "/metrics", "");
	const char *at = strstr(a.body, name);

	assert_non_null(at);
	uint64_t n = strtoull(at + sizeof(name) - 1, NULL, 10);
	client_answer_fini(&a);
	return n;
}

/* It must not keep its thread: more than the sockets' buffers hold is waiting for it. */
static void never_reads(const char *body)
{
	const struct http_config config = {.model = "tiny", .idle_timeout_ns = UNITS_NS_PER_S};
	struct server_fixture f;

	server_fixture_init_config(&f, "hello", &config);
	server_fixture_ready(&f);
	int fd = client_connect(f.port);
	client_request(fd, "POST", COMPLETIONS, body);
	fake_engine_wait_submitted(&f.engine, 16);
	while (open_connections(&f) > 1)
		usleep(10000);
	close(fd);
	server_fixture_fini(&f);
}

static void test_client_that_never_reads(void **state)
{
	never_reads("{\"prompt\": \"a\", \"max_tokens\": 4000, \"ignore_eos\": true, "
		    "\"n\": 16, \"stream\": true}");
	never_reads("{\"prompt\": \"a\", \"max_tokens\": 4000, \"ignore_eos\": true, "
		    "\"n\": 16, \"logprobs\": 5}");
}

/* The model's name may be known only once it is loaded. */
static void test_name_of_the_service(void **state)
{
	const struct http_config config = {0};
	struct server_fixture f;

	server_fixture_init_config(&f, "hello", &config);
	asks(&f, "GET", "/metrics", 200, "model_name=\"kvengine\"");
	const struct http_service service = {
		.engine = &f.engine, .tokenizer = fake_tokenizer(false), .model = "later"};
	http_set_ready(f.http, &service);
	asks(&f, "GET", "/metrics", 200, "model_name=\"later\"");
	asks(&f, "GET", "/v1/models", 200, "\"id\":\"later\"");
	server_fixture_fini(&f);
}

static void test_port_in_use(void **state)
{
	struct server_fixture f;
	struct http *second;
	char error[256];

	server_fixture_init(&f, "hello");
	const struct http_config config = {.model = "tiny", .port = f.port};
	assert_int_equal(http_start(&config, &second, error, sizeof(error)), -EADDRINUSE);
	assert_non_null(strstr(error, "in use"));
	const struct http_config nowhere = {.model = "tiny", .host = "192.0.2.1"};
	assert_int_equal(http_start(&nowhere, &second, error, sizeof(error)), -EADDRNOTAVAIL);
	server_fixture_fini(&f);
}

TEST_MAIN(http, cmocka_unit_test(test_loading_then_ready),
	  cmocka_unit_test(test_unknown_paths_and_methods), cmocka_unit_test(test_metrics),
	  cmocka_unit_test(test_tokenize_and_back), cmocka_unit_test(test_large_bodies),
	  cmocka_unit_test(test_large_chunked_body), cmocka_unit_test(test_clients_that_vanish),
	  cmocka_unit_test(test_keep_alive), cmocka_unit_test(test_client_that_never_reads),
	  cmocka_unit_test(test_name_of_the_service), cmocka_unit_test(test_port_in_use))
