/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's thread and a reader: all tokens, a client that goes, leaving at any time. */
#include "engine/http/stream.h"
#include "tests/test.h"
#include "tests/unit/engine/http/fake_engine.h"
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

struct fixture {
	struct engine engine;
	struct stream *stream;
	int socket[2]; /* ours, the client's */
};

static void start(struct fixture *f, const char *reply, uint32_t logs)
{
	fake_engine_init(&f->engine, reply);
	assert_int_equal(stream_new(&f->engine, logs, &f->stream), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, f->socket), 0);
}

static void finish(struct fixture *f)
{
	stream_leave(f->stream);
	fake_engine_fini(&f->engine);
	close(f->socket[0]);
	close(f->socket[1]);
}

static int submit(struct fixture *f, uint32_t max_tokens, uint32_t logprobs)
{
	const uint32_t tokens[] = {1, 2, 3};
	struct engine_submit_args args = {
		.tokens = tokens, .token_count = 3, .max_tokens = max_tokens, .logprobs = logprobs};

	return stream_submit(f->stream, &args, max_tokens + 1);
}

static void test_reads_all_tokens_of_many_logs(void **state)
{
	struct fixture f;
	const uint32_t logs = 20;

	start(&f, "hello world", logs);
	for (uint32_t i = 0; i < logs; i++)
		assert_int_equal(submit(&f, 100, 2), 0);
	for (uint32_t i = 0; i < logs; i++) {
		while (!stream_see(f.stream, i).done)
			assert_int_equal(stream_wait(f.stream, f.socket[0]), 0);
		struct stream_view v = stream_see(f.stream, i);

		assert_int_equal(v.count, 12);
		assert_int_equal(v.token[4].token, 'o');
		assert_int_equal(v.top[4 * 2 + 1].token, 'p');
		assert_int_equal(v.done->finish, ENGINE_FINISH_STOP);
	}
	finish(&f);
}

static void test_sees_a_client_go_before_the_first_token(void **state)
{
	struct fixture f;

	start(&f, "hello", 1);
	f.engine.hold_at = 1;
	assert_int_equal(submit(&f, 10, 0), 0);
	shutdown(f.socket[1], SHUT_RDWR);
	assert_int_equal(stream_wait(f.stream, f.socket[0]), -EPIPE);
	finish(&f); /* leaves: cancels, or joining the fake engine would not end */
	assert_int_equal(f.engine.cancelled, 1);
}

static void test_stop_of_one_leaves_the_other(void **state)
{
	struct fixture f;

	start(&f, "hello", 2);
	f.engine.hold_at = 4;
	assert_int_equal(submit(&f, 10, 0), 0);
	assert_int_equal(submit(&f, 10, 0), 0);
	stream_stop(f.stream, 1);
	stream_stop(f.stream, 1);
	while (!stream_see(f.stream, 1).done)
		assert_int_equal(stream_wait(f.stream, f.socket[0]), 0);
	assert_int_equal(stream_see(f.stream, 1).done->finish, ENGINE_FINISH_STOP);
	assert_null(stream_see(f.stream, 0).done);
	finish(&f);
}

static void test_refused_submit(void **state)
{
	struct fixture f;

	start(&f, "hello", 1);
	f.engine.submit_result = -EAGAIN;
	assert_int_equal(submit(&f, 10, 0), -EAGAIN);
	finish(&f);
}

/* Leaving while the engine is giving tokens: the last one to leave frees. */
static void test_leaves_at_any_time(void **state)
{
	struct fixture f;

	for (int round = 0; round < 100; round++) {
		start(&f, "some longer text to be in the middle of", 2);
		assert_int_equal(submit(&f, 60, 1), 0);
		assert_int_equal(submit(&f, 60, 1), 0);
		for (int waits = round % 7; waits > 0 && !stream_see(f.stream, 1).done; waits--)
			assert_int_equal(stream_wait(f.stream, f.socket[0]), 0);
		finish(&f);
	}
}

TEST_MAIN(stream, cmocka_unit_test(test_reads_all_tokens_of_many_logs),
	  cmocka_unit_test(test_sees_a_client_go_before_the_first_token),
	  cmocka_unit_test(test_stop_of_one_leaves_the_other),
	  cmocka_unit_test(test_refused_submit), cmocka_unit_test(test_leaves_at_any_time))
