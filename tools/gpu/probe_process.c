/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Children of a probe: this program again, with a role and a socket in its arguments. A child ends
 * when its lead does, whatever it waits for in CUDA: the lead's death is a signal to it.
 */
#include "tools/gpu/probe.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

int probe_main(int argc, char **argv, const struct probe_role *roles, int (*lead)(void))
{
	if (argc == 1)
		return lead();
	for (; argc == 3 && roles->name; roles++) {
		if (strcmp(roles->name, argv[1]) == 0)
			return roles->run(atoi(argv[2]));
	}
	fprintf(stderr, "usage: %s\n", argv[0]);
	return 2;
}

struct probe_child probe_spawn_with(const char *role, const char *const *environment)
{
	struct probe_child c;
	char number[16];
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		probe_fail("socketpair: %s", strerror(errno));
	c.sock = pair[0];
	c.pid = fork();
	if (c.pid < 0)
		probe_fail("fork: %s", strerror(errno));
	if (c.pid == 0) {
		int sock = dup(pair[1]); /* not closed by exec */

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (; environment && environment[0]; environment += 2)
			setenv(environment[0], environment[1], 1);
		snprintf(number, sizeof(number), "%d", sock);
		execl("/proc/self/exe", program_invocation_name, role, number, (char *)NULL);
		_exit(127);
	}
	close(pair[1]);
	return c;
}

struct probe_child probe_spawn(const char *role)
{
	return probe_spawn_with(role, NULL);
}

void probe_send(int sock, const struct probe_message *m, int fd)
{
	struct iovec part = {(void *)m, sizeof(*m)};
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct msghdr head = {.msg_iov = &part, .msg_iovlen = 1};

	if (fd >= 0) {
		head.msg_control = control.room;
		head.msg_controllen = sizeof(control.room);
		struct cmsghdr *c = CMSG_FIRSTHDR(&head);
		*c = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)),
				      .cmsg_level = SOL_SOCKET,
				      .cmsg_type = SCM_RIGHTS};
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	if (sendmsg(sock, &head, MSG_NOSIGNAL) < 0)
		probe_fail("a message cannot be sent: %s", strerror(errno));
}

bool probe_receive(int sock, struct probe_message *m, int *out_fd)
{
	struct iovec part = {m, sizeof(*m)};
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr head = {.msg_iov = &part,
			      .msg_iovlen = 1,
			      .msg_control = control.room,
			      .msg_controllen = sizeof(control.room)};
	ssize_t got = recvmsg(sock, &head, MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = got > 0 ? CMSG_FIRSTHDR(&head) : NULL;
	int fd = -1;

	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	if (out_fd)
		*out_fd = fd;
	else if (fd >= 0)
		close(fd);
	return got == sizeof(*m);
}

static void wait_end(struct probe_child *c, int *out_status)
{
	while (waitpid(c->pid, out_status, 0) < 0 && errno == EINTR)
		;
	close(c->sock);
	*c = (struct probe_child){.pid = -1, .sock = -1};
}

void probe_expect(struct probe_child *c, struct probe_message *m, int *out_fd)
{
	int status;

	if (probe_receive(c->sock, m, out_fd))
		return;
	wait_end(c, &status);
	if (WIFEXITED(status) && WEXITSTATUS(status) == PROBE_EXIT_IMPOSSIBLE)
		exit(PROBE_EXIT_IMPOSSIBLE); /* it has said why */
	if (WIFSIGNALED(status))
		probe_fail("a child was ended by signal %d", WTERMSIG(status));
	probe_fail("a child ended with status %d", WEXITSTATUS(status));
}

void probe_kill(struct probe_child *c)
{
	int status;

	kill(c->pid, SIGKILL);
	wait_end(c, &status);
}

void probe_finish(struct probe_child *c)
{
	int status;

	shutdown(c->sock, SHUT_RDWR);
	wait_end(c, &status);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		probe_fail("a child did not end well: wait status 0x%x", (unsigned)status);
}
