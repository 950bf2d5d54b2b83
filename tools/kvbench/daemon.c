/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the real daemon with --ready-fd, and takes it away again. */
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

#define DAEMON_READY_TIMEOUT_MS 20000

static void daemon_exec(const struct daemon *d, const char *program, uint64_t pool_bytes,
			uint32_t spin_us, int ready_fd)
{
	char pool[32], spin[32], ready[32];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(pool, sizeof(pool), "%llu", (unsigned long long)pool_bytes);
	snprintf(spin, sizeof(spin), "%u", spin_us);
	snprintf(ready, sizeof(ready), "%d", ready_fd);
	execlp(program, program, "--socket", d->socket, "--state-dir", d->dir, "--pool-bytes", pool,
	       "--spin-us", spin, "--ready-fd", ready, "--log-level", "error", (char *)NULL);
	fprintf(stderr, "kvbench: %s: %s; name the daemon with --kvd\n", program, strerror(errno));
	_exit(127);
}

int daemon_start(struct daemon *d, const char *program, uint64_t pool_bytes, uint32_t spin_us)
{
	int ready[2];
	char c;

	snprintf(d->dir, sizeof(d->dir), "/tmp/kvbench-XXXXXX");
	if (!mkdtemp(d->dir) || pipe(ready) < 0)
		return -errno;
	snprintf(d->socket, sizeof(d->socket), "%s/kvd.sock", d->dir);
	d->pid = fork();
	if (d->pid == 0) {
		close(ready[0]);
		daemon_exec(d, program, pool_bytes, spin_us, ready[1]);
	}
	close(ready[1]);
	struct pollfd p = {.fd = ready[0], .events = POLLIN};
	bool up = d->pid > 0 && poll(&p, 1, DAEMON_READY_TIMEOUT_MS) > 0 &&
		  read(ready[0], &c, 1) == 1;
	close(ready[0]);
	if (up)
		return 0;
	fprintf(stderr, "kvbench: the daemon did not start\n");
	daemon_stop(d);
	return -ECHILD;
}

static int daemon_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

void daemon_stop(struct daemon *d)
{
	if (d->pid > 0) {
		kill(d->pid, SIGTERM);
		waitpid(d->pid, NULL, 0);
	}
	nftw(d->dir, daemon_remove, 8, FTW_DEPTH | FTW_PHYS);
	d->pid = 0;
}
