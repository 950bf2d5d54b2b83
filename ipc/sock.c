/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sock.c: packets and descriptors, and where the daemon's socket is when nobody says.
 *
 * Every call is non-blocking whatever the flags of the descriptor say (MSG_DONTWAIT), and raises
 * no SIGPIPE. Descriptors arrive CLOEXEC; a packet that is not well formed leaves none open.
 * An empty packet cannot be told from a hang-up, and is treated as one.
 *
 * No state, any thread; a descriptor belongs to one thread at a time.
 */
#include "ipc/sock.h"
#include <base/units.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#define SOCK_BACKLOG 128
#define SOCK_HEAD_BYTES 64u
#define SOCK_PATH_SYSTEM "/run/kvd/kvd.sock"

static int sock_address(const char *path, struct sockaddr_un *out)
{
	size_t size = strlen(path);

	if (size == 0)
		return -EINVAL;
	if (size >= sizeof(out->sun_path))
		return -ENAMETOOLONG;
	*out = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(out->sun_path, path, size + 1);
	return 0;
}

static int sock_new(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return fd < 0 ? -errno : fd;
}

int sock_connect(const char *path, int *out_fd)
{
	struct sockaddr_un address;
	int r = sock_address(path, &address);

	if (r < 0)
		return r;
	int fd = sock_new();
	if (fd < 0)
		return fd;
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		r = -errno;
		close(fd);
		return r;
	}
	*out_fd = fd;
	return 0;
}

/* Unlinks a socket at which nobody answers. Never touches anything that is not a socket. */
static int sock_unlink_stale(const char *path)
{
	struct stat st;
	int fd;

	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return -EEXIST;
	int r = sock_connect(path, &fd);
	if (r == 0)
		close(fd);
	if (r == 0 || r == -EAGAIN)
		return -EADDRINUSE;
	if (r != -ECONNREFUSED)
		return r;
	return unlink(path) < 0 && errno != ENOENT ? -errno : 0;
}

/* Rights are set before listen(): until then a connect is refused, so there is no open window. */
static int sock_publish(int fd, const char *path, mode_t mode, gid_t gid)
{
	if (chmod(path, mode) < 0)
		return -errno;
	if (gid != (gid_t)-1 && chown(path, (uid_t)-1, gid) < 0)
		return -errno;
	return listen(fd, SOCK_BACKLOG) < 0 ? -errno : 0;
}

int sock_listen(const char *path, mode_t mode, gid_t gid, int *out_fd)
{
	struct sockaddr_un address;
	int r = sock_address(path, &address);

	if (r < 0)
		return r;
	r = sock_unlink_stale(path);
	if (r < 0)
		return r;
	int fd = sock_new();
	if (fd < 0)
		return fd;
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		r = -errno;
		goto close;
	}
	r = sock_publish(fd, path, mode, gid);
	if (r < 0)
		goto unlink;
	*out_fd = fd;
	return 0;
unlink:
	unlink(path);
close:
	close(fd);
	return r;
}

int sock_accept(int listen_fd, int *out_fd, struct sock_peer *out_peer)
{
	int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return errno == EWOULDBLOCK ? -EAGAIN : -errno;
	int r = sock_peer_of(fd, out_peer);
	if (r < 0) {
		close(fd);
		return r;
	}
	*out_fd = fd;
	return 0;
}

int sock_send(int fd, const void *head, const void *payload, size_t payload_bytes, const int *fds,
	      uint32_t fd_count)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * KVD_FDS_MAX)];
	} control = {0};
	struct iovec iov[2] = {{(void *)(uintptr_t)head, SOCK_HEAD_BYTES},
			       {(void *)(uintptr_t)payload, payload_bytes}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = payload_bytes ? 2 : 1};

	if (payload_bytes > KVD_SOCK_PAYLOAD_MAX || fd_count > KVD_FDS_MAX)
		return -E2BIG;
	if (fd_count) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * fd_count);
	}
	ssize_t sent = sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (sent >= 0)
		return 0;
	return errno == EWOULDBLOCK ? -EAGAIN : errno == ECONNRESET ? -EPIPE : -errno;
}

static void sock_close_fds(struct sock_packet *p)
{
	for (uint32_t i = 0; i < p->fd_count; i++)
		close(p->fds[i]);
	for (uint32_t i = 0; i < KVD_FDS_MAX; i++)
		p->fds[i] = -1;
	p->fd_count = 0;
}

/* Collects the descriptors of all control messages; the buffer has room for KVD_FDS_MAX. */
static void sock_take_fds(struct msghdr *msg, struct sock_packet *p)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (p->fd_count < KVD_FDS_MAX)
				p->fds[p->fd_count++] = fd;
			else
				close(fd);
		}
	}
}

int sock_recv(int fd, struct sock_packet *p)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * KVD_FDS_MAX)];
	} control;
	struct iovec iov[2] = {{p->head, sizeof(p->head)}, {p->payload, sizeof(p->payload)}};
	struct msghdr msg = {.msg_iov = iov,
			     .msg_iovlen = 2,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control.bytes)};

	p->fd_count = 0;
	sock_close_fds(p);
	p->payload_bytes = 0;
	ssize_t got = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (got < 0)
		return errno == EWOULDBLOCK ? -EAGAIN : errno == ECONNRESET ? 0 : -errno;
	sock_take_fds(&msg, p);
	if (got == 0 && p->fd_count == 0)
		return 0;
	if ((size_t)got < sizeof(p->head) || (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
		sock_close_fds(p);
		return -EPROTO;
	}
	p->payload_bytes = (size_t)got - sizeof(p->head);
	return 1;
}

int sock_wait_readable(int fd, uint64_t timeout_ns)
{
	uint64_t start_ns = units_now_ns();
	struct pollfd pfd = {.fd = fd, .events = POLLIN};

	for (;;) {
		uint64_t spent_ns = units_now_ns() - start_ns;
		uint64_t left_ns = spent_ns < timeout_ns ? timeout_ns - spent_ns : 0;
		struct timespec ts = {.tv_sec = (time_t)(left_ns / UNITS_NS_PER_S),
				      .tv_nsec = (long)(left_ns % UNITS_NS_PER_S)};
		int r = ppoll(&pfd, 1, timeout_ns == UINT64_MAX ? NULL : &ts, NULL);
		if (r >= 0)
			return r;
		if (errno != EINTR)
			return -errno;
	}
}

static int sock_path_print(char *out, size_t size, const char *before, const char *after)
{
	int length = snprintf(out, size, "%s%s", before, after);

	return length < 0 || (size_t)length >= size ? -ENAMETOOLONG : 0;
}

/*
 * The folder under /tmp is anybody's to make: it is used only when it is a real folder, belongs to
 * this user, and nobody else may write there.
 */
static int sock_path_temporary(char *out, size_t size)
{
	char folder[64];
	struct stat st;

	snprintf(folder, sizeof(folder), "/tmp/kvd-%u", (unsigned int)geteuid());
	if (lstat(folder, &st) == 0 &&
	    (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022)))
		return -EPERM;
	return sock_path_print(out, size, folder, "/kvd.sock");
}

static int sock_path_user(char *out, size_t size)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");

	if (runtime && runtime[0] == '/')
		return sock_path_print(out, size, runtime, "/kvd/kvd.sock");
	return sock_path_temporary(out, size);
}

int sock_candidate_path(uint32_t nth, char *out, size_t size)
{
	const char *given = getenv("KVD_SOCKET");

	/* Who sets the variable wants that one and no other. */
	if (given && given[0])
		return nth == 0 ? sock_path_print(out, size, given, "") : -ENOENT;
	switch (nth) {
	case 0:
		return sock_path_print(out, size, SOCK_PATH_SYSTEM, "");
	case 1:
		return sock_path_user(out, size);
	case 2:
		return sock_path_temporary(out, size);
	default:
		return -ENOENT;
	}
}

int sock_default_path(int server, char *out, size_t size)
{
	struct stat st;

	if (server && geteuid() == 0)
		return sock_path_print(out, size, SOCK_PATH_SYSTEM, "");
	if (server)
		return sock_path_user(out, size);
	for (uint32_t nth = 0; sock_candidate_path(nth, out, size) != -ENOENT; nth++)
		if (stat(out, &st) == 0 && S_ISSOCK(st.st_mode))
			return 0;
	/* None is there: name the first, for the message. */
	return sock_candidate_path(0, out, size);
}
