/* SPDX-License-Identifier: Apache-2.0 */
/* Answers and streams of both APIs, over a real socket. */
#include "tests/test.h"
#include "tests/unit/engine/http/server_fixture.h"
#include <errno.h>
#include <unistd.h>

#define COMPLETIONS "/v1/completions"
#define CHAT "/v1/chat/completions"
#define HI "\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]"

#define at server_fixture_at
#define text server_fixture_text

static json_int_t number(json_t *root, const char *path)
{
	return json_integer_value(at(root, path));
}

static void test_completion(void **state)
{
	struct server_fixture f;

	server_fixture_init(&f, "hello");
	json_t *a = server_fixture_post(&f, COMPLETIONS, "{\"prompt\": \"abc\"}", 200);
	assert_string_equal(text(a, "object"), "text_completion");
	assert_string_equal(text(a, "model"), "tiny");
	assert_string_equal(text(a, "choices.0.text"), "hello");
	assert_string_equal(text(a, "choices.0.finish_reason"), "stop");
	assert_int_equal(number(a, "usage.prompt_tokens"), 3);
	assert_int_equal(number(a, "usage.completion_tokens"), 6);
	assert_int_equal(number(a, "usage.total_tokens"), 9);
	assert_int_equal(number(a, "usage.prompt_tokens_details.cached_tokens"), 3);
	assert_int_equal(number(a, "kvd.tail_bytes_copied"), 7);
	assert_true(json_real_value(at(a, "kvd.ttft_ms")) == 2.0);
	json_decref(a);
	a = server_fixture_post(&f, COMPLETIONS,
				"{\"prompt\": \"abc\", \"max_tokens\": 2, \"cache\": false}", 200);
	assert_string_equal(text(a, "choices.0.text"), "he");
	assert_string_equal(text(a, "choices.0.finish_reason"), "length");
	assert_int_equal(number(a, "usage.prompt_tokens_details.cached_tokens"), 0);
	json_decref(a);
	server_fixture_fini(&f);
}

static void test_chat(void **state)
{
	struct server_fixture f;

	server_fixture_init(&f, "hello");
	json_t *a = server_fixture_post(&f, CHAT,
					"{" HI ", \"logprobs\": true, \"top_logprobs\": 2}", 200);
	assert_string_equal(text(a, "object"), "chat.completion");
	assert_string_equal(text(a, "choices.0.message.role"), "assistant");
	assert_string_equal(text(a, "choices.0.message.content"), "hello");
	assert_int_equal(json_array_size(at(a, "choices.0.logprobs.content")), 6);
	assert_string_equal(text(a, "choices.0.logprobs.content.1.token"), "e");
	assert_string_equal(text(a, "choices.0.logprobs.content.1.top_logprobs.1.token"), "f");
	assert_int_equal(number(a, "choices.0.logprobs.content.1.bytes.0"), 'e');
	json_decref(a);
	server_fixture_fini(&f);
}

/* One event for each token; the last has the reason; then usage with no choices. */
static void test_chat_stream(void **state)
{
	struct server_fixture f;

	server_fixture_init(&f, "h\xC3\xA9!");
	json_t *events = server_fixture_stream(
		&f, CHAT,
		"{" HI ", \"stream\": true, \"stream_options\": {\"include_usage\": true}}");
	assert_int_equal(json_array_size(events), 1 + 5 + 1);
	assert_string_equal(text(events, "0.choices.0.delta.role"), "assistant");
	assert_string_equal(text(events, "0.object"), "chat.completion.chunk");
	assert_string_equal(text(events, "1.choices.0.delta.content"), "h");
	assert_string_equal(text(events, "2.choices.0.delta.content"), "");
	assert_string_equal(text(events, "3.choices.0.delta.content"), "\xC3\xA9");
	assert_string_equal(text(events, "4.choices.0.delta.content"), "!");
	assert_true(json_is_null(at(events, "4.choices.0.finish_reason")));
	assert_string_equal(text(events, "5.choices.0.finish_reason"), "stop");
	assert_int_equal(json_array_size(at(events, "6.choices")), 0);
	assert_int_equal(number(events, "6.usage.completion_tokens"), 5);
	assert_int_equal(number(events, "6.usage.prompt_tokens_details.cached_tokens"), 3);
	assert_string_equal(text(events, "0.id"), text(events, "6.id"));
	json_decref(events);
	server_fixture_fini(&f);
}

static void test_completion_stream_by_length(void **state)
{
	struct server_fixture f;

	server_fixture_init(&f, "hello");
	json_t *events =
		server_fixture_stream(&f, COMPLETIONS,
				      "{\"prompt\": \"a\", \"max_tokens\": 3, \"stream\": true, "
				      "\"stream_options\": {\"continuous_usage_stats\": true}}");
	assert_int_equal(json_array_size(events), 3);
	assert_string_equal(text(events, "2.choices.0.text"), "l");
	assert_string_equal(text(events, "2.choices.0.finish_reason"), "length");
	assert_int_equal(number(events, "1.usage.completion_tokens"), 2);
	json_decref(events);
	server_fixture_fini(&f);
}

static void test_many_prompts_and_choices(void **state)
{
	struct server_fixture f;

	server_fixture_init(&f, "hello");
	json_t *a = server_fixture_post(
		&f, COMPLETIONS, "{\"prompt\": [\"abc\", \"de\"], \"n\": 2, \"echo\": true}", 200);
	assert_int_equal(json_array_size(at(a, "choices")), 4);
	assert_string_equal(text(a, "choices.1.text"), "abchello");
	assert_string_equal(text(a, "choices.2.text"), "dehello");
	assert_int_equal(number(a, "choices.3.index"), 3);
	assert_int_equal(number(a, "usage.prompt_tokens"), 5);
	assert_int_equal(number(a, "usage.completion_tokens"), 24);
	json_decref(a);
	server_fixture_fini(&f);
}

static void test_stop_string_ends_the_request(void **state)
{
	struct server_fixture f;

	server_fixture_init(&f, "hello wonderful world");
	f.engine.hold_at = 10; /* would wait for ever if it were not stopped */
	json_t *a = server_fixture_post(&f, COMPLETIONS,
					"{\"prompt\": \"a\", \"max_tokens\": 30, "
					"\"stop\": [\"o w\", \"zzz\"]}",
					200);
	assert_string_equal(text(a, "choices.0.text"), "hell");
	assert_string_equal(text(a, "choices.0.finish_reason"), "stop");
	assert_int_equal(number(a, "usage.completion_tokens"), 7);
	json_decref(a);
	/* A request that got what it asked for was not aborted. */
	fake_engine_wait_stopped(&f.engine, 1);
	assert_int_equal(f.engine.cancelled, 0);
	server_fixture_fini(&f);
}

static void test_held_back_text_comes_at_the_end(void **state)
{
	struct server_fixture f;

	server_fixture_init(&f, "abcEN");
	json_t *a =
		server_fixture_post(&f, COMPLETIONS, "{\"prompt\": \"a\", \"stop\": \"END\"}", 200);
	assert_string_equal(text(a, "choices.0.text"), "abcEN");
	json_decref(a);
	server_fixture_fini(&f);
}

static void test_echo_with_logprobs(void **state)
{
	struct server_fixture f;

	server_fixture_init(&f, "xy");
	json_t *a = server_fixture_post(&f, COMPLETIONS,
					"{\"prompt\": [97, 195, 169], \"echo\": true, "
					"\"logprobs\": 1, \"max_tokens\": 1}",
					200);
	assert_string_equal(text(a, "choices.0.text"), "a\xC3\xA9x");
	assert_int_equal(json_array_size(at(a, "choices.0.logprobs.tokens")), 4);
	assert_true(json_is_null(at(a, "choices.0.logprobs.token_logprobs.0")));
	assert_true(json_is_null(at(a, "choices.0.logprobs.top_logprobs.0")));
	assert_string_equal(text(a, "choices.0.logprobs.tokens.1"), "bytes:\\xc3");
	assert_true(json_real_value(at(a, "choices.0.logprobs.token_logprobs.3")) == -0.5);
	assert_int_equal(number(a, "choices.0.logprobs.text_offset.3"), 2);
	assert_true(json_real_value(at(a, "choices.0.logprobs.top_logprobs.3.x")) == -0.5);
	json_decref(a);
	a = server_fixture_post(
		&f, COMPLETIONS,
		"{\"prompt\": \"abc\", \"echo\": true, \"logprobs\": 1, \"max_tokens\": 0}", 200);
	assert_string_equal(text(a, "choices.0.text"), "abc");
	assert_int_equal(json_array_size(at(a, "choices.0.logprobs.tokens")), 3);
	assert_int_equal(number(a, "usage.completion_tokens"), 0);
	json_decref(a);
	server_fixture_fini(&f);
}

static void test_engine_error_before_the_first_token(void **state)
{
	struct server_fixture f;

	server_fixture_init(&f, "hello");
	f.engine.fail_at = 1;
	f.engine.fail_status = 503;
	json_t *a =
		server_fixture_post(&f, COMPLETIONS, "{\"prompt\": \"a\", \"stream\": true}", 503);
	assert_string_equal(text(a, "error.message"), "the pool is full");
	json_decref(a);
	server_fixture_fini(&f);
}

static void test_engine_error_in_a_stream(void **state)
{
	struct server_fixture f;

	server_fixture_init(&f, "hello");
	f.engine.fail_at = 3;
	f.engine.fail_status = 503;
	json_t *events =
		server_fixture_stream(&f, COMPLETIONS, "{\"prompt\": \"a\", \"stream\": true}");
	assert_int_equal(json_array_size(events), 3);
	assert_string_equal(text(events, "1.choices.0.text"), "e");
	assert_string_equal(text(events, "2.error.message"), "the pool is full");
	json_decref(events);
	server_fixture_fini(&f);
}

static void submit_result(int result, int status)
{
	struct server_fixture f;

	server_fixture_init(&f, "hello");
	f.engine.submit_result = result;
	json_t *a = server_fixture_post(&f, COMPLETIONS, "{\"prompt\": \"a\"}", status);
	assert_true(strlen(text(a, "error.message")) > 0);
	json_decref(a);
	server_fixture_fini(&f);
}

static void test_refused_submits(void **state)
{
	submit_result(-EAGAIN, 429);
	submit_result(-ESHUTDOWN, 503);
	submit_result(-E2BIG, 400);
	submit_result(-ENOMEM, 503);
}

static void test_client_leaves_before_the_first_token(void **state)
{
	struct server_fixture f;

	for (int stream = 0; stream < 2; stream++) {
		server_fixture_init(&f, "hello");
		f.engine.hold_at = 1;
		int fd = client_connect(f.port);
		client_request(fd, "POST", COMPLETIONS,
			       stream ? "{\"prompt\": [\"a\", \"b\"], \"stream\": true}"
				      : "{\"prompt\": [\"a\", \"b\"]}");
		fake_engine_wait_submitted(&f.engine, 2);
		close(fd);
		fake_engine_wait_cancelled(&f.engine, 2);
		server_fixture_fini(&f);
	}
}

static void test_client_leaves_in_a_stream(void **state)
{
	struct server_fixture f;

	server_fixture_init(&f, "hello");
	f.engine.hold_at = 4;
	int fd = client_connect(f.port);
	client_request(fd, "POST", CHAT, "{" HI ", \"stream\": true}");
	client_read_until(fd, "\"content\":\"e\"");
	close(fd);
	fake_engine_wait_cancelled(&f.engine, 1);
	server_fixture_fini(&f);
}

static void test_server_stops_with_a_request_under_way(void **state)
{
	struct server_fixture f;

	server_fixture_init(&f, "hello");
	f.engine.hold_at = 3;
	int fd = client_connect(f.port);
	client_request(fd, "POST", CHAT, "{" HI ", \"stream\": true}");
	client_read_until(fd, "\"content\":\"e\"");
	server_fixture_fini(&f);
	assert_int_equal(f.engine.cancelled, 1);
	close(fd);
}

TEST_MAIN(generation, cmocka_unit_test(test_completion), cmocka_unit_test(test_chat),
	  cmocka_unit_test(test_chat_stream), cmocka_unit_test(test_completion_stream_by_length),
	  cmocka_unit_test(test_many_prompts_and_choices),
	  cmocka_unit_test(test_stop_string_ends_the_request),
	  cmocka_unit_test(test_held_back_text_comes_at_the_end),
	  cmocka_unit_test(test_echo_with_logprobs),
	  cmocka_unit_test(test_engine_error_before_the_first_token),
	  cmocka_unit_test(test_engine_error_in_a_stream), cmocka_unit_test(test_refused_submits),
	  cmocka_unit_test(test_client_leaves_before_the_first_token),
	  cmocka_unit_test(test_client_leaves_in_a_stream),
	  cmocka_unit_test(test_server_stops_with_a_request_under_way))
