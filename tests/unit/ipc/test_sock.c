/* SPDX-License-Identifier: Apache-2.0 */
/* Packets whole or refused, descriptors never leaked, sockets replaced only when nobody answers. */
#include "tests/test.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ipc/sock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sock_packet packet;
static char folder[] = "/tmp/kvd-test-sock-XXXXXX";

static int open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void pair(int fds[2])
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
}

/* Raw: any number of descriptors, any size. */
static void send_raw(int fd, const void *data, size_t bytes, int descriptor, int count)
{
	char control[CMSG_SPACE(sizeof(int) * 32)] = {0};
	struct iovec iov = {(void *)(uintptr_t)data, bytes};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (count) {
		msg.msg_control = control;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)count);
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)count);
		for (int i = 0; i < count; i++)
			memcpy(CMSG_DATA(c) + i * (int)sizeof(int), &descriptor, sizeof(int));
	}
	assert_int_equal(sendmsg(fd, &msg, 0), bytes);
}

static void sock_carries_packets_and_descriptors(void **state)
{
	static uint8_t payload[KVD_SOCK_PAYLOAD_MAX + 1];
	uint8_t head[64] = {1, 2, 3};
	int fds[2], passed[2] = {STDIN_FILENO, STDERR_FILENO};

	pair(fds);
	assert_int_equal(sock_recv(fds[1], &packet), -EAGAIN);
	assert_int_equal(sock_wait_readable(fds[1], 0), 0);
	payload[KVD_SOCK_PAYLOAD_MAX - 1] = 9;
	assert_int_equal(sock_send(fds[0], head, payload, KVD_SOCK_PAYLOAD_MAX, passed, 2), 0);
	assert_int_equal(sock_wait_readable(fds[1], UINT64_MAX), 1);
	assert_int_equal(sock_recv(fds[1], &packet), 1);
	assert_memory_equal(packet.head, head, 64);
	assert_int_equal(packet.payload_bytes, KVD_SOCK_PAYLOAD_MAX);
	assert_memory_equal(packet.payload, payload, KVD_SOCK_PAYLOAD_MAX);
	assert_int_equal(packet.fd_count, 2);
	assert_int_equal(packet.fds[2], -1);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fcntl(packet.fds[i], F_GETFD), FD_CLOEXEC);
		close(packet.fds[i]);
	}
	assert_int_equal(sock_send(fds[0], head, NULL, 0, NULL, 0), 0);
	assert_int_equal(sock_recv(fds[1], &packet), 1);
	assert_int_equal(packet.payload_bytes, 0);
	assert_int_equal(sock_send(fds[0], head, payload, sizeof(payload), NULL, 0), -E2BIG);
	assert_int_equal(sock_send(fds[0], head, NULL, 0, passed, KVD_FDS_MAX + 1), -E2BIG);
	close(fds[0]);
	assert_int_equal(sock_recv(fds[1], &packet), 0);
	assert_int_equal(sock_send(fds[1], head, NULL, 0, NULL, 0), -EPIPE);
	close(fds[1]);
}

static void sock_refuses_what_is_not_a_packet(void **state)
{
	static uint8_t big[64 + KVD_SOCK_PAYLOAD_MAX + 1];
	int fds[2];

	pair(fds);
	int before = open_fds();
	send_raw(fds[0], big, 63, STDIN_FILENO, 3);
	assert_int_equal(sock_recv(fds[1], &packet), -EPROTO);
	send_raw(fds[0], big, sizeof(big), STDIN_FILENO, 1);
	assert_int_equal(sock_recv(fds[1], &packet), -EPROTO);
	for (int count = KVD_FDS_MAX + 1; count < 20; count++) {
		send_raw(fds[0], big, 64, STDIN_FILENO, count);
		assert_int_equal(sock_recv(fds[1], &packet), -EPROTO);
		assert_int_equal(packet.fd_count, 0);
	}
	assert_int_equal(open_fds(), before);
	/* The channel is still good. */
	send_raw(fds[0], big, 64, STDIN_FILENO, KVD_FDS_MAX);
	assert_int_equal(sock_recv(fds[1], &packet), 1);
	assert_int_equal(packet.fd_count, KVD_FDS_MAX);
	for (uint32_t i = 0; i < packet.fd_count; i++)
		close(packet.fds[i]);
	send_raw(fds[0], big, 0, -1, 0);
	assert_int_equal(sock_recv(fds[1], &packet), 0);
	close(fds[0]);
	close(fds[1]);
}

static void sock_would_rather_not_block(void **state)
{
	static uint8_t payload[KVD_SOCK_PAYLOAD_MAX];
	int fds[2], r = 0;

	pair(fds);
	for (int i = 0; i < 10000 && r == 0; i++)
		r = sock_send(fds[0], payload, payload, sizeof(payload), NULL, 0);
	assert_int_equal(r, -EAGAIN);
	close(fds[0]);
	close(fds[1]);
}

static void sock_listens_once(void **state)
{
	char path[64];
	int listener, other, client, server;
	struct sock_peer peer;
	struct stat st;

	snprintf(path, sizeof(path), "%s/a.sock", folder);
	assert_int_equal(sock_connect(path, &client), -ENOENT);
	assert_int_equal(sock_listen(path, 0640, (gid_t)-1, &listener), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0640);
	assert_int_equal(sock_listen(path, 0600, (gid_t)-1, &other), -EADDRINUSE);
	/* That probe connected, and hung up. */
	assert_int_equal(sock_accept(listener, &server, &peer), 0);
	close(server);
	close(peer.pidfd);
	assert_int_equal(sock_accept(listener, &server, &peer), -EAGAIN);
	assert_int_equal(sock_connect(path, &client), 0);
	assert_int_equal(sock_accept(listener, &server, &peer), 0);
	assert_int_equal(peer.pid, getpid());
	assert_int_equal(peer.uid, geteuid());
	close(client);
	close(server);
	close(peer.pidfd);
	close(listener);
	assert_int_equal(sock_connect(path, &client), -ECONNREFUSED);
	assert_int_equal(sock_listen(path, 0600, (gid_t)-1, &listener), 0);
	close(listener);
	unlink(path);
}

static void sock_keeps_files_that_are_no_sockets(void **state)
{
	char path[64], name[200];
	int listener;

	snprintf(path, sizeof(path), "%s/file", folder);
	int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	close(fd);
	assert_int_equal(sock_listen(path, 0600, (gid_t)-1, &listener), -EEXIST);
	assert_int_equal(access(path, F_OK), 0);
	unlink(path);
	memset(name, 'n', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(sock_listen(name, 0600, (gid_t)-1, &listener), -ENAMETOOLONG);
	assert_int_equal(sock_connect("", &listener), -EINVAL);
}

static void sock_peer_is_one_process_for_all_time(void **state)
{
	struct sock_peer self, child;
	int mine[2], theirs[2], status;
	char byte = 0;

	pair(mine);
	assert_int_equal(sock_peer_of(mine[0], &self), 0);
	assert_int_equal(self.pid, getpid());
	struct sock_peer again;
	assert_int_equal(sock_peer_of(mine[1], &again), 0);
	assert_true(self.identity == again.identity && self.identity != 0);
	close(again.pidfd);

	char path[64];
	int listener, fd;
	snprintf(path, sizeof(path), "%s/peer.sock", folder);
	assert_int_equal(sock_listen(path, 0600, (gid_t)-1, &listener), 0);
	assert_int_equal(pipe(theirs), 0);
	pid_t pid = fork();
	if (pid == 0) {
		int r = sock_connect(path, &fd);
		_exit(r < 0 || read(theirs[0], &byte, 1) != 1);
	}
	assert_int_equal(sock_wait_readable(listener, UINT64_MAX), 1);
	assert_int_equal(sock_accept(listener, &fd, &child), 0);
	assert_int_equal(child.pid, pid);
	assert_true(child.identity != self.identity);
	assert_int_equal(sock_wait_readable(child.pidfd, 0), 0);
	assert_int_equal(fcntl(child.pidfd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(write(theirs[1], &byte, 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	/* Dead: the pidfd proves it, and nobody else is taken for it. */
	assert_int_equal(sock_wait_readable(child.pidfd, UINT64_MAX), 1);
	assert_true(sock_peer_of(fd, &again) < 0);
	close(child.pidfd);
	close(self.pidfd);
	close(listener);
	unlink(path);
	close(fd);
	for (int i = 0; i < 2; i++) {
		close(mine[i]);
		close(theirs[i]);
	}
}

static void sock_paths_have_an_order(void **state)
{
	char path[128], expect[128];

	assert_int_equal(setenv("KVD_SOCKET", "/some/where", 1), 0);
	assert_int_equal(sock_default_path(0, path, sizeof(path)), 0);
	assert_string_equal(path, "/some/where");
	assert_int_equal(sock_candidate_path(1, path, sizeof(path)), -ENOENT);
	assert_int_equal(sock_candidate_path(0, path, 4), -ENAMETOOLONG);
	unsetenv("KVD_SOCKET");
	assert_int_equal(setenv("XDG_RUNTIME_DIR", folder, 1), 0);
	assert_int_equal(sock_candidate_path(0, path, sizeof(path)), 0);
	assert_string_equal(path, "/run/kvd/kvd.sock");
	snprintf(expect, sizeof(expect), "%s/kvd/kvd.sock", folder);
	assert_int_equal(sock_candidate_path(1, path, sizeof(path)), 0);
	assert_string_equal(path, expect);
	snprintf(expect, sizeof(expect), "/tmp/kvd-%u/kvd.sock", (unsigned)geteuid());
	assert_int_equal(sock_candidate_path(2, path, sizeof(path)), 0);
	assert_string_equal(path, expect);
	assert_int_equal(sock_candidate_path(3, path, sizeof(path)), -ENOENT);
}

static int sock_setup(void **state)
{
	return mkdtemp(folder) ? 0 : -1;
}

static int sock_teardown(void **state)
{
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sock_carries_packets_and_descriptors),
		cmocka_unit_test(sock_refuses_what_is_not_a_packet),
		cmocka_unit_test(sock_would_rather_not_block),
		cmocka_unit_test(sock_listens_once),
		cmocka_unit_test(sock_keeps_files_that_are_no_sockets),
		cmocka_unit_test(sock_peer_is_one_process_for_all_time),
		cmocka_unit_test(sock_paths_have_an_order),
	};

	return cmocka_run_group_tests_name("sock", tests, sock_setup, sock_teardown);
}
