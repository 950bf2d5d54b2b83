/* SPDX-License-Identifier: Apache-2.0 */
/* Starts real programs with --ready-fd, and takes them away again. */
#include "tools/kvbench/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define DAEMON_READY_TIMEOUT_MS 60000
#define DAEMON_ARGS_MAX 48

/* --- any program --------------------------------------------------------------------------------
 */

static void daemon_exec(const char *const *argv, const char *log)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (log) {
		int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
		if (fd >= 0)
			(void)dup2(fd, STDERR_FILENO);
	}
	/* stdout is for rows alone. */
	(void)dup2(STDERR_FILENO, STDOUT_FILENO);
	execvp(argv[0], (char *const *)(uintptr_t)argv);
	fprintf(stderr, "kvbench: %s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

/* Whether a line came. */
static bool daemon_read_line(int fd, char *line, size_t size)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	size_t have = 0;

	while (have + 1 < size && poll(&p, 1, DAEMON_READY_TIMEOUT_MS) > 0) {
		ssize_t n = read(fd, line + have, size - 1 - have);
		if (n <= 0)
			break;
		have += (size_t)n;
		line[have] = '\0';
		char *end = strchr(line, '\n');
		if (end) {
			*end = '\0';
			return true;
		}
	}
	return false;
}

static void daemon_show_log(const char *log)
{
	char text[4096];
	size_t n;
	FILE *f = log ? fopen(log, "re") : NULL;

	while (f && (n = fread(text, 1, sizeof(text), f)) > 0)
		(void)fwrite(text, 1, n, stderr);
	if (f)
		fclose(f);
}

int daemon_program(const char **argv, int argv_count, const char *log, pid_t *out_pid, char *line,
		   size_t size)
{
	char number[32];
	int ready[2];

	*out_pid = 0;
	if (pipe(ready) < 0)
		return -errno;
	snprintf(number, sizeof(number), "%d", ready[1]);
	argv[argv_count] = "--ready-fd";
	argv[argv_count + 1] = number;
	argv[argv_count + 2] = NULL;
	pid_t pid = fork();
	if (pid == 0) {
		close(ready[0]);
		daemon_exec(argv, log);
	}
	close(ready[1]);
	bool up = pid > 0 && daemon_read_line(ready[0], line, size);
	close(ready[0]);
	*out_pid = pid > 0 ? pid : 0;
	if (up)
		return 0;
	daemon_show_log(log);
	fprintf(stderr, "kvbench: %s did not start\n", argv[0]);
	return -ECHILD;
}

/* --- kvd ----------------------------------------------------------------------------------------
 */

int daemon_init(struct daemon *d)
{
	*d = (struct daemon){0};
	snprintf(d->dir, sizeof(d->dir), "/tmp/kvbench-XXXXXX");
	if (!mkdtemp(d->dir))
		return -errno;
	snprintf(d->socket, sizeof(d->socket), "%s/kvd.sock", d->dir);
	snprintf(d->log, sizeof(d->log), "%s/log", d->dir);
	return 0;
}

int daemon_spawn(struct daemon *d, const char *program, const char *const options[])
{
	const char *argv[DAEMON_ARGS_MAX] = {program, "--socket", d->socket, "--state-dir", d->dir};
	char line[160];
	int n = 5;

	for (int i = 0; options[i]; i++) {
		if (n + 3 >= DAEMON_ARGS_MAX)
			return -E2BIG;
		argv[n++] = options[i];
	}
	int err = daemon_program(argv, n, d->log, &d->pid, line, sizeof(line));
	if (err)
		daemon_end(d, SIGKILL);
	return err;
}

void daemon_end(struct daemon *d, int sig)
{
	if (d->pid > 0) {
		kill(d->pid, sig);
		waitpid(d->pid, NULL, 0);
	}
	d->pid = 0;
}

int daemon_start(struct daemon *d, const char *program, uint64_t pool_bytes, uint32_t spin_us)
{
	char pool[48], spin[32];
	const char *const options[] = {pool, spin, "--log-level=error", NULL};

	snprintf(pool, sizeof(pool), "--pool-bytes=%llu", (unsigned long long)pool_bytes);
	snprintf(spin, sizeof(spin), "--spin-us=%u", spin_us);
	int err = daemon_init(d);
	if (!err)
		err = daemon_spawn(d, program, options);
	if (err)
		daemon_stop(d);
	return err;
}

static int daemon_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

void daemon_stop(struct daemon *d)
{
	daemon_end(d, SIGTERM);
	if (d->dir[0])
		nftw(d->dir, daemon_remove, 8, FTW_DEPTH | FTW_PHYS);
	d->dir[0] = '\0';
}
