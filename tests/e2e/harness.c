/* SPDX-License-Identifier: Apache-2.0 */
/* See harness.h. Waits are long and end early: a slow machine makes a test slow, not red. */
#include "tests/e2e/harness.h"
#include "base/atomic.h"
#include "base/units.h"
#include "tests/test.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <kvd.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARGS_MAX 32

static void harness_show_log(const struct harness_kvd *k)
{
	char text[4096];
	FILE *f = fopen(k->log, "re");

	while (f && fgets(text, sizeof(text), f))
		fprintf(stderr, "  | %s", text);
	if (f)
		fclose(f);
}

#define HARNESS_FAIL(k, ...)                                                                       \
	do {                                                                                       \
		harness_show_log(k);                                                               \
		fail_msg(__VA_ARGS__);                                                             \
	} while (0)

static const char *harness_program(const char *variable)
{
	const char *path = getenv(variable);

	if (!path)
		fail_msg("%s is not set", variable);
	return path;
}

void harness_init(struct harness_kvd *k)
{
	*k = (struct harness_kvd){0};
	strcpy(k->dir, "/tmp/kvd-e2e-XXXXXX");
	assert_non_null(mkdtemp(k->dir));
	snprintf(k->socket, sizeof(k->socket), "%s/kvd.sock", k->dir);
	snprintf(k->log, sizeof(k->log), "%s/log", k->dir);
}

/* The child's side: dies with the parent, its stderr is the log. */
static void harness_exec(const struct harness_kvd *k, const char *const *argv)
{
	int log = open(k->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(log, STDERR_FILENO);
	execv(argv[0], (char **)(uintptr_t)argv);
	_exit(127);
}

static int harness_args(const char **argv, int n, const char *const options[])
{
	for (int i = 0; options && options[i]; i++) {
		assert_true(n < ARGS_MAX - 1);
		argv[n++] = options[i];
	}
	argv[n] = NULL;
	return n;
}

/* False: its end came first. */
static bool harness_wait_ready(struct harness_kvd *k, int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char line[256] = "";

	if (poll(&p, 1, HARNESS_WAIT_MS) != 1)
		HARNESS_FAIL(k, "kvd does not start");
	ssize_t n = read(fd, line, sizeof(line) - 1);
	close(fd);
	if (n > 0)
		assert_memory_equal(line, "ready ", 6);
	return n > 0;
}

bool harness_try_start(struct harness_kvd *k, const char *const options[])
{
	static char state[96], ready[32];
	const char *argv[ARGS_MAX] = {harness_program("KVD_BIN"),
				      "--runtime-dir",
				      k->dir,
				      "--state-dir",
				      state,
				      "--ready-fd",
				      ready,
				      "--pool-bytes",
				      "16MiB",
				      "--log-level",
				      "debug"};
	int fds[2];

	snprintf(state, sizeof(state), "%s/state", k->dir);
	assert_int_equal(pipe(fds), 0);
	snprintf(ready, sizeof(ready), "%d", fds[1]);
	(void)harness_args(argv, 11, options);
	(void)fcntl(fds[0], F_SETFD, FD_CLOEXEC);
	k->pid = fork();
	assert_true(k->pid >= 0);
	if (k->pid == 0)
		harness_exec(k, argv);
	close(fds[1]);
	return harness_wait_ready(k, fds[0]);
}

void harness_start(struct harness_kvd *k, const char *const options[])
{
	if (!harness_try_start(k, options))
		HARNESS_FAIL(k, "kvd did not start");
}

static int harness_status_of(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* A child that does not end is killed, and the test fails. */
static int harness_reap(pid_t pid)
{
	uint64_t end_ns = units_now_ns() + HARNESS_WAIT_MS * UNITS_NS_PER_MS;
	int status;
	pid_t r;

	while ((r = waitpid(pid, &status, WNOHANG)) == 0 && units_now_ns() < end_ns)
		usleep(1000);
	if (r == pid)
		return harness_status_of(status);
	kill(pid, SIGKILL);
	(void)waitpid(pid, &status, 0);
	fail_msg("process %d did not end", pid);
	return -1;
}

int harness_run(struct harness_kvd *k, const char *const options[])
{
	const char *argv[ARGS_MAX] = {harness_program("KVD_BIN")};

	(void)harness_args(argv, 1, options);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)!freopen("/dev/null", "w", stdout);
		harness_exec(k, argv);
	}
	return harness_reap(pid);
}

int harness_end(struct harness_kvd *k, int sig)
{
	pid_t pid = k->pid;

	k->pid = 0;
	kill(pid, sig);
	return harness_reap(pid);
}

static void harness_remove(const char *dir)
{
	char path[512];
	struct dirent *e;
	DIR *d = opendir(dir);

	while (d && (e = readdir(d))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		if (e->d_type == DT_DIR)
			harness_remove(path);
		else
			(void)unlink(path);
	}
	if (d)
		closedir(d);
	(void)rmdir(dir);
}

unsigned int harness_log_count(const struct harness_kvd *k, const char *text)
{
	char line[2048];
	unsigned int found = 0;
	FILE *f = fopen(k->log, "re");

	while (f && fgets(line, sizeof(line), f))
		found += strstr(line, text) != NULL;
	if (f)
		fclose(f);
	return found;
}

bool harness_log_has(const struct harness_kvd *k, const char *text)
{
	return harness_log_count(k, text) > 0;
}

bool harness_log_gets(const struct harness_kvd *k, const char *text)
{
	uint64_t end_ns = units_now_ns() + HARNESS_WAIT_MS * UNITS_NS_PER_MS;
	bool found;

	while (!(found = harness_log_has(k, text)) && units_now_ns() < end_ns)
		usleep(2000);
	return found;
}

/* A daemon that a sanitizer has something to say about is not well, whatever its answers were. */
static void harness_assert_healthy(const struct harness_kvd *k, int status)
{
	static const char *const bad[] = {"runtime error:", "Sanitizer", "assertion failed"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (harness_log_has(k, bad[i]))
			HARNESS_FAIL(k, "the log has '%s'", bad[i]);
	if (status != 0)
		HARNESS_FAIL(k, "the daemon ended with %d", status);
}

void harness_fini(struct harness_kvd *k)
{
	if (k->pid)
		harness_assert_healthy(k, harness_end(k, SIGTERM));
	else
		harness_assert_healthy(k, 0);
	if (k->dir[0])
		harness_remove(k->dir);
	k->dir[0] = '\0';
}

void harness_status(const struct harness_kvd *k, struct kvd_status *out)
{
	char path[96];
	uint32_t seq;

	snprintf(path, sizeof(path), "%s/kvd.status", k->dir);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		HARNESS_FAIL(k, "no status file");
	const struct kvd_status *map = mmap(NULL, sizeof(*map), PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	close(fd);
	do {
		seq = atomic_load_acquire(&map->seq);
		memcpy(out, map, sizeof(*out));
		atomic_fence_seq_cst();
	} while (seq & 1 || atomic_load_relaxed(&map->seq) != seq);
	munmap((void *)(uintptr_t)map, sizeof(*map));
}

void harness_wait_figure(const struct harness_kvd *k, uint64_t (*figure)(const struct kvd_status *),
			 uint64_t want)
{
	static struct kvd_status s;
	uint64_t end_ns = units_now_ns() + HARNESS_WAIT_MS * UNITS_NS_PER_MS;

	do {
		harness_status(k, &s);
		if (figure(&s) == want)
			return;
		usleep(2000);
	} while (units_now_ns() < end_ns);
	HARNESS_FAIL(k, "a figure of the status is %llu, not %llu", (unsigned long long)figure(&s),
		     (unsigned long long)want);
}

static uint64_t harness_figure_busy(const struct kvd_status *s)
{
	return s->leases + s->waiting_requests + s->promised_pages +
	       s->pages_by_state[KVD_PAGE_OPEN] + s->pages_by_state[KVD_PAGE_FILLING] +
	       s->pages_by_state[KVD_PAGE_QUARANTINE];
}

static uint64_t harness_figure_sessions(const struct kvd_status *s)
{
	return s->session_count;
}

void harness_quiet(const struct harness_kvd *k, uint32_t sessions)
{
	harness_wait_figure(k, harness_figure_sessions, sessions);
	harness_wait_figure(k, harness_figure_busy, 0);
	harness_check(k);
}

void harness_check(const struct harness_kvd *k)
{
	struct kvd_options o = {.socket_path = k->socket,
				.hello_flags = KVD_HELLO_ADMIN,
				.name = "harness",
				.timeout_ns = HARNESS_WAIT_MS * UNITS_NS_PER_MS};
	struct kvd_req req = {.op = KVD_OP_CHECK, .out_bytes = 1024};
	struct kvd_rep rep;
	struct kvd *kvd;
	char text[1025] = "";

	if (kvd_open(&o, &kvd) != 0)
		HARNESS_FAIL(k, "CHECK: %s", kvd_last_error());
	int r = kvd_call(kvd, &req, NULL, &rep, text, sizeof(text) - 1);
	if (r != 0 || rep.result != 0)
		HARNESS_FAIL(k, "CHECK: %d %d: %s", r, rep.result, text);
	kvd_close(kvd);
}

void harness_client(struct harness_client *c, const struct harness_kvd *k, const char *space,
		    const char *secret)
{
	harness_client_sized(c, k, space, secret, 16, 4096);
}

static void harness_client_exec(const struct harness_kvd *k, const char *const *argv, int in,
				int out)
{
	dup2(in, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	harness_exec(k, argv);
}

void harness_client_sized(struct harness_client *c, const struct harness_kvd *k, const char *space,
			  const char *secret, unsigned int tokens, unsigned int bytes)
{
	char t[16], b[16];
	const char *argv[] = {harness_program("PRF_CLIENT_BIN"),
			      k->socket,
			      space ? space : "-",
			      secret ? secret : "-",
			      t,
			      b,
			      NULL};
	int to[2], from[2];

	snprintf(t, sizeof(t), "%u", tokens);
	snprintf(b, sizeof(b), "%u", bytes);
	*c = (struct harness_client){0};
	assert_int_equal(pipe2(to, O_CLOEXEC), 0);
	assert_int_equal(pipe2(from, O_CLOEXEC), 0);
	c->pid = fork();
	assert_true(c->pid >= 0);
	if (c->pid == 0)
		harness_client_exec(k, argv, to[0], from[1]);
	close(to[0]);
	close(from[1]);
	c->to = fdopen(to[1], "we");
	c->from = fdopen(from[0], "re");
	assert_non_null(c->to);
	assert_non_null(c->from);
	harness_answer(c);
}

void harness_answer(struct harness_client *c)
{
	struct pollfd p = {.fd = fileno(c->from), .events = POLLIN};

	c->line[0] = '\0';
	if (poll(&p, 1, 3 * HARNESS_WAIT_MS) != 1)
		fail_msg("client %d does not answer", c->pid);
	if (!fgets(c->line, sizeof(c->line), c->from))
		strcpy(c->line, "eof\n");
}

__attribute__((format(printf, 2, 0))) static void harness_write(struct harness_client *c,
								const char *format, va_list args)
{
	signal(SIGPIPE, SIG_IGN);
	vfprintf(c->to, format, args);
	fputc('\n', c->to);
	fflush(c->to);
}

void harness_send(struct harness_client *c, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	harness_write(c, format, args);
	va_end(args);
}

void harness_ask(struct harness_client *c, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	harness_write(c, format, args);
	va_end(args);
	harness_answer(c);
}

bool harness_is(const struct harness_client *c, const char *result)
{
	size_t n = strlen(result);

	if (strncmp(c->line, result, n) == 0 && (c->line[n] == ' ' || c->line[n] == '\n'))
		return true;
	fprintf(stderr, "answer: %s", c->line);
	return false;
}

uint64_t harness_field(const struct harness_client *c, const char *key)
{
	char name[32];

	snprintf(name, sizeof(name), " %s=", key);
	const char *at = strstr(c->line, name);
	if (!at)
		fail_msg("no %s in: %s", key, c->line);
	return strtoull(at + strlen(name), NULL, 10);
}

void harness_client_end(struct harness_client *c, int sig)
{
	if (!c->pid)
		return;
	if (sig)
		kill(c->pid, sig);
	fclose(c->to);
	(void)harness_reap(c->pid);
	fclose(c->from);
	*c = (struct harness_client){0};
}

void harness_client_bye(struct harness_client *c)
{
	harness_ask(c, "close");
	assert_true(harness_is(c, "ok"));
	harness_client_end(c, 0);
}
