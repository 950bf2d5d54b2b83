/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork and exec of `kvd --socket-fd 3`. The child gets a death signal for the case that we die
 * without a word, and ends by itself when its socket hangs up. Whether the exec went well comes
 * back over a pipe that the exec closes. Between fork and exec only async-signal-safe calls are
 * made: other threads of this process may hold any lock.
 */
#include "engine/private_kvd.h"
#include "base/bits.h"
#include "base/log.h"
#include "base/units.h"
#include "base/uuid.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILD_SOCKET_FD 3
#define CHILD_ARGS_MAX 16

/* Seen from our own program: where both are installed, and where both are built. */
static const char *const places[] = {"kvd", "../kvd/kvd"};

/* The given program, else one of the places, else the one in PATH. */
static void find_program(const struct engine_config *config, char *out, size_t size)
{
	char own[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", own, sizeof(own));
	const char *slash = n > 0 ? memrchr(own, '/', (size_t)n) : NULL;

	if (config->kvd_program) {
		snprintf(out, size, "%s", config->kvd_program);
		return;
	}
	for (size_t i = 0; slash && i < ARRAY_LEN(places); i++) {
		int folder = (int)(slash + 1 - own);
		int length = snprintf(out, size, "%.*s%s", folder, own, places[i]);

		if (length < (int)size && access(out, X_OK) == 0)
			return;
	}
	snprintf(out, size, "kvd");
}

/* In the child. */
static void become_kvd(const char *const *argv, int socket_fd, int report_fd, pid_t parent)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	/* A ^C at the terminal is the engine's alone, which ends us last. */
	setpgid(0, 0);
	/* A parent that died before the prctl sends no signal. */
	if (getppid() != parent)
		_exit(1);
	/* dup2 onto itself would keep the close-on-exec flag. */
	int ok = socket_fd == CHILD_SOCKET_FD ? fcntl(socket_fd, F_SETFD, 0)
					      : dup2(socket_fd, CHILD_SOCKET_FD);

	if (ok >= 0)
		execvp(argv[0], (char *const *)argv);
	int error = errno;
	ssize_t written = write(report_fd, &error, sizeof(error));

	(void)written;
	_exit(127);
}

/* What kept the child from becoming kvd: 0 or -errno. */
static int exec_result(int report_fd)
{
	int error = 0;
	ssize_t n;

	do {
		n = read(report_fd, &error, sizeof(error));
	} while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof(error) ? -error : 0;
}

static int spawn(struct private_kvd *p, const char *const *argv, int socket_fd)
{
	pid_t parent = getpid();
	int report[2];

	if (pipe2(report, O_CLOEXEC) < 0)
		return -errno;
	/* Above the number that the child gives its socket. */
	int report_fd = fcntl(report[1], F_DUPFD_CLOEXEC, CHILD_SOCKET_FD + 1);

	close(report[1]);
	p->pid = report_fd < 0 ? -1 : fork();
	if (p->pid == 0)
		become_kvd(argv, socket_fd, report_fd, parent);
	int r = p->pid < 0 ? -errno : 0;

	if (report_fd >= 0)
		close(report_fd);
	if (r == 0)
		r = exec_result(report[0]);
	close(report[0]);
	if (r < 0 && p->pid > 0)
		waitpid(p->pid, NULL, 0);
	if (r < 0)
		p->pid = 0;
	return r;
}

/* Pages lie where the model computes. The number of arguments added. */
static size_t add_device(const char **argv, const struct engine_config *config,
			 char uuid[UUID_TEXT])
{
	const uint8_t *device = config->model->ops->device_uuid;

	argv[0] = "--device-memory";
	argv[1] = "host";
	if (uuid_is_zero(device))
		return 2;
	argv[1] = "auto";
	argv[2] = "--devices";
	argv[3] = uuid_format(device, uuid);
	return 4;
}

int private_kvd_start(struct private_kvd *p, const struct engine_config *config, int *out_fd,
		      char *error, size_t size)
{
	char program[PATH_MAX], bytes[32];
	const char *argv[CHILD_ARGS_MAX] = {program, "--socket-fd", "3",      "--session-share",
					    "100",   "--log-level", "warning"};
	char uuid[UUID_TEXT];
	size_t count = 7;
	int pair[2];

	find_program(config, program, sizeof(program));
	count += add_device(&argv[count], config, uuid);
	if (config->kvd_pool_bytes) {
		snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)config->kvd_pool_bytes);
		argv[count++] = "--pool-bytes";
		argv[count++] = bytes;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	int r = spawn(p, argv, pair[1]);

	close(pair[1]);
	if (r < 0) {
		close(pair[0]);
		snprintf(error, size,
			 "could not start a private daemon, %s: %s; start kvd, or name its program "
			 "with --kvd-program",
			 program, strerror(-r));
		return r;
	}
	log_info("kvd", "started a private daemon, pid %d, %s", (int)p->pid, program);
	*out_fd = pair[0];
	return 0;
}

static bool ended_within(pid_t pid, uint32_t ms)
{
	for (uint32_t waited = 0; waited <= ms; waited += 10) {
		pid_t r = waitpid(pid, NULL, WNOHANG);

		if (r == pid || (r < 0 && errno != EINTR))
			return true;
		poll(NULL, 0, 10);
	}
	return false;
}

void private_kvd_stop(struct private_kvd *p, uint32_t wait_ms)
{
	if (p->pid <= 0)
		return;
	if (!ended_within(p->pid, wait_ms)) {
		log_warn("kvd", "private daemon %d does not end, killing it", (int)p->pid);
		kill(p->pid, SIGKILL);
		waitpid(p->pid, NULL, 0);
	}
	p->pid = 0;
}
