/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AF_UNIX SOCK_SEQPACKET with descriptors and credentials. A packet is 64 bytes of request or
 * reply and a payload of at most KVD_SOCK_PAYLOAD_MAX. All descriptors are CLOEXEC; those that are
 * not expected are closed, never leaked.
 */
#ifndef IPC_SOCK_H
#define IPC_SOCK_H

#include <kvd_abi.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct sock_peer {
	pid_t pid;
	uid_t uid;
	gid_t gid;
	int pidfd;	   /* owned by the caller; proves death */
	uint64_t identity; /* names the process for all time: pid and start time, mixed */
};

struct sock_packet {
	uint8_t head[64]; /* struct kvd_req or struct kvd_rep */
	uint8_t payload[KVD_SOCK_PAYLOAD_MAX];
	size_t payload_bytes;
	int fds[KVD_FDS_MAX];
	uint32_t fd_count; /* owned by the caller */
};

/* Binds and listens, mode as given; replaces a stale socket (nobody answers). -EADDRINUSE: alive.
 */
int sock_listen(const char *path, mode_t mode, gid_t gid, int *out_fd);
/* Non-blocking accept; also reads SO_PEERCRED and opens a pidfd. -EAGAIN: none. */
int sock_accept(int listen_fd, int *out_fd, struct sock_peer *out_peer);
/* The peer of a connected socket (socketpair): as sock_accept(). */
int sock_peer_of(int fd, struct sock_peer *out_peer);
int sock_connect(const char *path, int *out_fd);
/* One packet. 0, -EAGAIN (would block), -EPIPE, -errno. fds stay the caller's. */
int sock_send(int fd, const void *head, const void *payload, size_t payload_bytes, const int *fds,
	      uint32_t fd_count);
/*
 * One packet. 1: got one; 0: the peer hung up; -EAGAIN; -EPROTO: too short, too long, or too many
 * descriptors (all closed). p->fds beyond fd_count are -1.
 */
int sock_recv(int fd, struct sock_packet *p);
/* Waits until readable, at most timeout_ns. 1, 0 on timeout, -errno. */
int sock_wait_readable(int fd, uint64_t timeout_ns);
/* The default path for this user, in the order of kvd.h; `server`: the one to bind. */
int sock_default_path(int server, char *out, size_t size);
/* The nth path that a client tries: 0, -ENOENT past the last, -EPERM for a folder not to trust. */
int sock_candidate_path(uint32_t nth, char *out, size_t size);

#endif
