/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes of the simulator's tests. The parent never calls the simulator: it starts roles, and
 * looks at how they end and what they print.
 */
#include "tests/cudasim/tests/child.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILD_END 3 /* the child's end of the socket */

static char machine[64];
static char said[65536];
static pid_t owner;

void child_fail(const char *file, int line, const char *what, long value)
{
	fprintf(stderr, "%s:%d: %s (%ld)\n", file, line, what, value);
	_exit(1);
}

static void child_clean(void)
{
	char command[160];

	if (owner != getpid())
		return;
	snprintf(command, sizeof(command), "rm -rf '%s'", machine);
	if (system(command) != 0)
		fprintf(stderr, "%s stays\n", machine);
}

static void child_machine(void)
{
	struct statvfs fs;
	bool shm = statvfs("/dev/shm", &fs) == 0 && fs.f_blocks * fs.f_frsize >= 1ull << 30;

	snprintf(machine, sizeof(machine), "%s/cudasim-test-XXXXXX", shm ? "/dev/shm" : "/tmp");
	CHECK(mkdtemp(machine));
	setenv("CUDASIM_DIR", machine, 1);
	owner = getpid();
	atexit(child_clean);
}

int child_main(int argc, char **argv, const struct child_role *roles, int (*tests)(void))
{
	if (argc == 1) {
		child_machine();
		return tests();
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (; roles->name; roles++) {
		if (strcmp(roles->name, argv[1]) != 0)
			continue;
		roles->run();
		return 0;
	}
	fprintf(stderr, "no role %s\n", argv[1]);
	return 2;
}

static void child_exec(const char *role, const char *const *env, int fd, int err)
{
	char *argv[] = {(char *)"child", (char *)role, NULL};

	dup2(fd, CHILD_END);
	if (err >= 0)
		dup2(err, STDERR_FILENO);
	for (; env && *env; env++)
		putenv((char *)*env);
	execv("/proc/self/exe", argv);
	_exit(126);
}

struct child child_start(const char *role, const char *const *env)
{
	struct child c;
	int ends[2];

	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
	c.pid = fork();
	CHECK(c.pid >= 0);
	if (c.pid == 0)
		child_exec(role, env, ends[1], -1);
	close(ends[1]);
	c.fd = ends[0];
	return c;
}

int child_wait(struct child *child)
{
	int status;

	CHECK(waitpid(child->pid, &status, 0) == child->pid);
	close(child->fd);
	return WIFSIGNALED(status) ? CHILD_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

int child_run(const char *role, const char *const *env)
{
	int pipes[2], status;
	size_t length = 0;
	ssize_t n;

	CHECK(pipe2(pipes, O_CLOEXEC) == 0);
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		child_exec(role, env, open("/dev/null", O_RDWR), pipes[1]);
	close(pipes[1]);
	while ((n = read(pipes[0], said + length, sizeof(said) - 1 - length)) > 0)
		length += (size_t)n;
	said[length] = 0;
	close(pipes[0]);
	CHECK(waitpid(pid, &status, 0) == pid);
	status = WIFSIGNALED(status) ? CHILD_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
	if (status)
		fprintf(stderr, "%s: status %d\n%s", role, status, said);
	return status;
}

bool child_said(const char *words)
{
	return strstr(said, words) != NULL;
}

void child_said_word(const char *words, char *out, size_t size)
{
	const char *at = strstr(said, words);

	CHECK(at);
	at += strlen(words);
	snprintf(out, size, "%.*s", (int)strcspn(at, "\n"), at);
}

int child_run_seeds(const char *role, const char *const *env)
{
	static const char *const seeds[] = {"1", "20260"};
	int status = 0;

	for (int i = 0; i < 2 && status == 0; i++) {
		setenv("CUDASIM_SEED", seeds[i], 1);
		status = child_run(role, env);
		unsetenv("CUDASIM_SEED");
	}
	return status;
}

int child_fd(void)
{
	return CHILD_END;
}

void child_send(int fd, const void *data, size_t bytes, int pass_fd)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec part = {.iov_base = (void *)data, .iov_len = bytes};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	if (pass_fd >= 0) {
		message.msg_control = control.space;
		message.msg_controllen = sizeof(control.space);
		struct cmsghdr *c = CMSG_FIRSTHDR(&message);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &pass_fd, sizeof(int));
	}
	IS(sendmsg(fd, &message, MSG_NOSIGNAL), bytes);
}

int child_receive(int fd, void *data, size_t bytes)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec part = {.iov_base = data, .iov_len = bytes};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control.space,
				 .msg_controllen = sizeof(control.space)};
	int passed = -1;

	IS(recvmsg(fd, &message, MSG_CMSG_CLOEXEC), bytes);
	struct cmsghdr *c = CMSG_FIRSTHDR(&message);
	if (c)
		memcpy(&passed, CMSG_DATA(c), sizeof(int));
	return passed;
}

void child_read(void *to, const void *device, size_t bytes)
{
	OK(cudaMemcpy(to, device, bytes, cudaMemcpyDeviceToHost));
}

uint8_t child_byte(const void *device)
{
	uint8_t byte;

	child_read(&byte, device, 1);
	return byte;
}

void *child_driver(const char *name)
{
	enum cudaDriverEntryPointQueryResult found;
	void *function;

	OK(cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found));
	IS(found, cudaDriverEntryPointSuccess);
	return function;
}
