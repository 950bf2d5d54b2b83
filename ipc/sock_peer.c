/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sock_peer.c: which process is at the other end, for as long as it lives and never mistaken for
 * another one that got its number.
 *
 * A pid alone proves nothing: it is reused. The pidfd names the process itself. Kernels from 6.5
 * on give it for the socket's peer; before that it is opened by number and the socket is looked at
 * again: as long as the peer has not hung up, the number is still its own (a child that
 * inherited the socket can hide a hang-up, and only makes the session end later).
 */
#include "ipc/sock.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

static int sock_peer_ready(int fd, short events)
{
	struct pollfd pfd = {.fd = fd, .events = events};

	if (poll(&pfd, 1, 0) < 0)
		return -errno;
	return pfd.revents != 0;
}

static int sock_peer_pidfd_by_number(int fd, pid_t pid)
{
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (pidfd < 0)
		return -errno;
	/* Only POLLHUP and POLLERR are reported without being asked for. */
	int r = sock_peer_ready(fd, 0);
	if (r != 0) {
		close(pidfd);
		return r < 0 ? r : -ESRCH;
	}
	return pidfd;
}

static int sock_peer_pidfd(int fd, pid_t pid)
{
	int pidfd = -1;
	socklen_t size = sizeof(pidfd);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) == 0) {
		(void)fcntl(pidfd, F_SETFD, FD_CLOEXEC);
		return pidfd;
	}
	if (errno != ENOPROTOOPT)
		return -errno;
	return sock_peer_pidfd_by_number(fd, pid);
}

/* Field 22 of /proc/PID/stat; the name in field 2 may hold anything, so counting starts at ')'. */
static int sock_peer_start_ticks(pid_t pid, uint64_t *out_ticks)
{
	char text[1024], path[32];

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ssize_t got = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (got < 0)
		return -ESRCH;
	text[got] = '\0';
	char *at = strrchr(text, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	if (!at)
		return -EIO;
	*out_ticks = strtoull(at + 1, NULL, 10);
	return 0;
}

/* Spreads pid and start time over 64 bits: the finaliser of SplitMix64 (Steele, Lea, Flood 2014).
 */
static uint64_t sock_peer_identity(pid_t pid, uint64_t start_ticks)
{
	uint64_t z = start_ticks << 22 ^ (uint64_t)pid;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	z ^= z >> 31;
	return z ? z : 1;
}

int sock_peer_of(int fd, struct sock_peer *out_peer)
{
	struct ucred cred;
	socklen_t size = sizeof(cred);
	uint64_t start_ticks;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) < 0)
		return -errno;
	/* 0: a process of a pid namespace that this one cannot see. */
	if (cred.pid <= 0)
		return -ESRCH;
	int pidfd = sock_peer_pidfd(fd, cred.pid);
	if (pidfd < 0)
		return pidfd;
	int r = sock_peer_start_ticks(cred.pid, &start_ticks);
	/* Alive after the file was read: it was the file of this very process. */
	if (r == 0 && sock_peer_ready(pidfd, POLLIN) != 0)
		r = -ESRCH;
	if (r < 0) {
		close(pidfd);
		return r;
	}
	*out_peer = (struct sock_peer){.pid = cred.pid,
				       .uid = cred.uid,
				       .gid = cred.gid,
				       .pidfd = pidfd,
				       .identity = sock_peer_identity(cred.pid, start_ticks)};
	return 0;
}
