/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kvctl_run.c: runs kvctl beside a daemon's socket and catches what it says in files of the
 * daemon's directory, so that nothing it writes can block it.
 */
#include "tests/e2e/kvctl_run.h"
#include "tests/test.h"
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

char *kvctl_out, *kvctl_err;
static const struct harness_kvd *kvctl_kvd;

void kvctl_init(const struct harness_kvd *kvd)
{
	kvctl_kvd = kvd;
	kvctl_out = malloc(KVCTL_OUTPUT_MAX);
	kvctl_err = malloc(KVCTL_OUTPUT_MAX);
	assert_true(kvctl_out && kvctl_err);
}

void kvctl_fini(void)
{
	free(kvctl_out);
	free(kvctl_err);
}

const char *kvctl_path(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", kvctl_kvd->dir, name);
	return path;
}

int kvctl_file(const char *name, int flags)
{
	int fd = open(kvctl_path(name), flags | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	return fd;
}

static void read_back(const char *name, char *text)
{
	int fd = kvctl_file(name, O_RDONLY);
	ssize_t n = read(fd, text, KVCTL_OUTPUT_MAX - 1);

	assert_true(n >= 0);
	text[n] = '\0';
	close(fd);
}

/*
 * Copies a program or library to where every user finds it: the build folder may lie in root's
 * home, to which another user has no way.
 */
static void lend(const char *from, const char *name)
{
	int in = open(from, O_RDONLY | O_CLOEXEC);
	int to = kvctl_file(name, O_WRONLY | O_CREAT | O_TRUNC);
	ssize_t n;

	if (in < 0)
		fail_msg("%s: %s", from, strerror(errno));
	while ((n = sendfile(to, in, NULL, 1 << 20)) > 0)
		continue;
	assert_int_equal(n, 0);
	assert_int_equal(fchmod(to, 0755), 0);
	close(in);
	close(to);
}

void kvctl_lend(void)
{
	const char *program = getenv("KVCTL_BIN");
	char folder[512], library[600];

	assert_non_null(program);
	snprintf(folder, sizeof(folder), "%s", program);
	snprintf(library, sizeof(library), "%s/../../ipc/client/libkvd.so.0", dirname(folder));
	lend(program, "kvctl");
	lend(library, "libkvd.so.0");
}

/* Becomes another user, who has the lent program. */
static bool become(uid_t uid, const char **program)
{
	static char lent[128];

	snprintf(lent, sizeof(lent), "%s/kvctl", kvctl_kvd->dir);
	*program = lent;
	return setenv("LD_LIBRARY_PATH", kvctl_kvd->dir, 1) == 0 && setgid(uid) == 0 &&
	       setuid(uid) == 0;
}

/* The child's side: "kvctl --socket SOCKET WORD...", the words parted by spaces. */
static void exec_kvctl(const char *words, uid_t uid)
{
	char copy[512], *save = NULL;
	const char *argv[32] = {getenv("KVCTL_BIN"), "--socket", kvctl_kvd->socket};
	int n = 3;

	snprintf(copy, sizeof(copy), "%s", words);
	for (char *w = strtok_r(copy, " ", &save); w && n < 31; w = strtok_r(NULL, " ", &save))
		argv[n++] = w;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!argv[0] || (uid && !become(uid, &argv[0])))
		_exit(126);
	execv(argv[0], (char **)(uintptr_t)argv);
	_exit(127);
}

pid_t kvctl_start(const char *words, uid_t uid, const char *input)
{
	int in = kvctl_file("stdin", O_RDWR | O_CREAT | O_TRUNC);
	int fd_out = kvctl_file("stdout", O_WRONLY | O_CREAT | O_TRUNC);
	int fd_err = kvctl_file("stderr", O_WRONLY | O_CREAT | O_TRUNC);

	assert_int_equal(write(in, input, strlen(input)), strlen(input));
	assert_int_equal(lseek(in, 0, SEEK_SET), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(in, STDIN_FILENO);
		dup2(fd_out, STDOUT_FILENO);
		dup2(fd_err, STDERR_FILENO);
		exec_kvctl(words, uid);
	}
	close(in);
	close(fd_out);
	close(fd_err);
	return pid;
}

int kvctl_end(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	read_back("stdout", kvctl_out);
	read_back("stderr", kvctl_err);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

int kvctl_run_as(uid_t uid, const char *words)
{
	return kvctl_end(kvctl_start(words, uid, ""));
}

int kvctl_run(const char *words)
{
	return kvctl_run_as(0, words);
}

void kvctl_has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("no '%s' in:\n%s", part, text);
}

void kvctl_one_sentence(void)
{
	assert_memory_equal(kvctl_err, "kvctl: ", 7);
	assert_ptr_equal(strchr(kvctl_err, '\n'), kvctl_err + strlen(kvctl_err) - 1);
}

json_t *kvctl_json(const char *words)
{
	json_error_t e;

	if (kvctl_run(words) != 0)
		fail_msg("%s: %s", words, kvctl_err);
	json_t *j = json_loads(kvctl_out, 0, &e);
	if (!j)
		fail_msg("%s: %s in:\n%s", words, e.text, kvctl_out);
	return j;
}

json_int_t kvctl_number(const json_t *object, const char *key)
{
	const json_t *v = json_object_get(object, key);

	if (!json_is_integer(v))
		fail_msg("no number %s", key);
	return json_integer_value(v);
}

uint64_t kvctl_start_ticks(void)
{
	unsigned long long ticks = 0;
	FILE *f = fopen("/proc/self/stat", "re");

	assert_non_null(f);
	for (int field = 1; field < 22; field++)
		assert_int_equal(fscanf(f, "%*s"), 0);
	assert_int_equal(fscanf(f, "%llu", &ticks), 1);
	fclose(f);
	return ticks;
}
