/* SPDX-License-Identifier: Apache-2.0 */
/* See workers.h. */
#include "tests/e2e/workers.h"
#include "base/units.h"
#include "tests/model/tiny.h"
#include "tests/test.h"
#include <errno.h>
#include <fcntl.h>
#include <kvd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#define ARGS_MAX 16
#define ANSWER_TOKENS 20u

static void exec_worker(const struct harness_kvd *k, const char *const *argv, int in, int out,
			const char *crash_at)
{
	int log = open(k->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(in, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	dup2(log, STDERR_FILENO);
	if (crash_at)
		setenv("KVD_CRASH_AT", crash_at, 1);
	else
		unsetenv("KVD_CRASH_AT");
	execv(argv[0], (char **)(uintptr_t)argv);
	_exit(127);
}

static void spawn(struct harness_client *c, const struct harness_kvd *k, const char *const *argv,
		  const char *crash_at)
{
	int to[2], from[2];

	signal(SIGPIPE, SIG_IGN);
	*c = (struct harness_client){0};
	assert_int_equal(pipe2(to, O_CLOEXEC), 0);
	assert_int_equal(pipe2(from, O_CLOEXEC), 0);
	c->pid = fork();
	assert_true(c->pid >= 0);
	if (c->pid == 0)
		exec_worker(k, argv, to[0], from[1], crash_at);
	close(to[0]);
	close(from[1]);
	c->to = fdopen(to[1], "we");
	c->from = fdopen(from[0], "re");
	harness_answer(c);
}

void workers_start(struct harness_client *c, const struct harness_kvd *k, const char *socket,
		   const char *model, const char *const options[])
{
	const char *argv[ARGS_MAX] = {getenv("ENGINE_WORKER_BIN"), socket, model};

	assert_non_null(argv[0]);
	for (int i = 0; options && options[i]; i++)
		argv[3 + i] = options[i];
	spawn(c, k, argv, NULL);
	assert_true(harness_is(c, "ok"));
}

void workers_start_fragile(struct harness_client *c, const struct harness_kvd *k, const char *model,
			   const char *crash_at)
{
	const char *argv[] = {getenv("ENGINE_WORKER_BIN"), k->socket, model, "page=16", NULL};

	assert_non_null(argv[0]);
	spawn(c, k, argv, crash_at);
}

void workers_evict_all(const struct harness_kvd *k)
{
	const struct kvd_options o = {
		.socket_path = k->socket, .hello_flags = KVD_HELLO_ADMIN, .name = "evict"};
	const struct kvd_req req = {
		.op = KVD_OP_EVICT, .flags = KVD_EVICT_ALL_SPACES, .arg64 = UINT32_MAX};
	struct kvd_rep rep;
	struct kvd *kvd;

	assert_int_equal(kvd_open(&o, &kvd), 0);
	assert_int_equal(kvd_call(kvd, &req, NULL, &rep, NULL, 0), 0);
	assert_int_equal(rep.result, 0);
	kvd_close(kvd);
}

static uint64_t leases(const struct kvd_status *s)
{
	return s->leases;
}

void workers_forget_all(const struct harness_kvd *k)
{
	harness_wait_figure(k, leases, 0);
	workers_evict_all(k);
}

void workers_send(struct harness_client *w, uint64_t seed, uint32_t count, int cache)
{
	harness_send(w, "run %llu %u %u %d", (unsigned long long)seed, count, ANSWER_TOKENS, cache);
}

struct workers_answer workers_answer(struct harness_client *w)
{
	harness_answer(w);
	assert_true(harness_is(w, "ok"));
	return (struct workers_answer){.tokens = harness_field(w, "tokens"),
				       .logits = harness_field(w, "logits"),
				       .kv = harness_field(w, "kv"),
				       .cached = harness_field(w, "cached"),
				       .tail_bytes = harness_field(w, "tail_bytes")};
}

struct workers_answer workers_ask(struct harness_client *w, uint64_t seed, uint32_t count,
				  int cache)
{
	workers_send(w, seed, count, cache);
	return workers_answer(w);
}

void workers_assert_same(const struct workers_answer *x, const struct workers_answer *y)
{
	assert_int_equal(x->tokens, y->tokens);
	assert_int_equal(x->logits, y->logits);
	assert_int_equal(x->kv, y->kv);
}

const char *workers_tiny_model(const struct harness_kvd *k)
{
	static char path[128];
	struct tiny_options o = tiny_defaults(7);

	snprintf(path, sizeof(path), "%s/tiny.gguf", k->dir);
	if (access(path, R_OK) < 0)
		assert_int_equal(tiny_write(&o, path), 0);
	return path;
}

const char *workers_real_model(void)
{
	const char *path = getenv("KVD_MODEL");

#ifdef KVD_SANITIZED
	/* Minutes, with the portable kernels: the tiny models do the same. */
	print_message("skipped: not with sanitizers\n");
	path = NULL;
#endif
	if (!path || access(path, R_OK) < 0)
		skip();
	return path;
}
