/* SPDX-License-Identifier: Apache-2.0 */
/* See raw.h. Waits end by the daemon's answer or hang-up; a long timeout makes a hang a failure. */
#include "tests/e2e/raw.h"
#include "base/bits.h"
#include "tests/test.h"
#include <errno.h>
#include <ipc/shm.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define RAW_WAIT_MS 20000

struct kvd_hello raw_hello(void)
{
	return (struct kvd_hello){.magic = KVD_ABI_MAGIC,
				  .major = KVD_ABI_MAJOR,
				  .features = KVD_FEATURE_HOST_SLABS,
				  .credits = 64,
				  .leases_max = 64,
				  .in_area_bytes = 1 << 20,
				  .out_area_bytes = 1 << 20,
				  .name = "raw"};
}

int raw_connect(const char *path)
{
	int fd = -1;

	assert_int_equal(sock_connect(path, &fd), 0);
	return fd;
}

int raw_send(int sock, const void *head, size_t head_bytes, const void *payload,
	     size_t payload_bytes)
{
	struct iovec iov[2] = {{(void *)(uintptr_t)head, head_bytes},
			       {(void *)(uintptr_t)payload, payload_bytes}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};

	return sendmsg(sock, &msg, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int raw_recv(int sock, struct sock_packet *p)
{
	struct pollfd pfd = {.fd = sock, .events = POLLIN};
	int r;

	do {
		if (poll(&pfd, 1, RAW_WAIT_MS) != 1)
			fail_msg("the daemon neither answers nor hangs up");
		r = sock_recv(sock, p);
	} while (r == -EAGAIN);
	return r == 1;
}

static int raw_welcome(const struct sock_packet *p, struct kvd_welcome *out)
{
	struct kvd_rep rep;

	memcpy(&rep, p->head, sizeof(rep));
	memset(out, 0, sizeof(*out));
	memcpy(out, p->payload, BITS_MIN(p->payload_bytes, sizeof(*out)));
	for (uint32_t i = 0; i < p->fd_count; i++)
		close(p->fds[i]);
	return rep.result;
}

int raw_say(int sock, const struct kvd_hello *hello, struct kvd_welcome *out)
{
	int r = raw_try(sock, hello, out, RAW_WAIT_MS);

	if (r == -ETIMEDOUT)
		fail_msg("the daemon neither answers nor hangs up");
	return r;
}

int raw_try(int sock, const struct kvd_hello *hello, struct kvd_welcome *out, int timeout_ms)
{
	struct kvd_req req = {
		.op = KVD_OP_HELLO, .in_bytes = sizeof(*hello), .out_bytes = sizeof(*out)};
	struct pollfd pfd = {.fd = sock, .events = POLLIN};
	static struct sock_packet p;

	if (raw_send(sock, &req, sizeof(req), hello, sizeof(*hello)) < 0)
		return -EPIPE;
	if (poll(&pfd, 1, timeout_ms) != 1)
		return -ETIMEDOUT;
	return raw_recv(sock, &p) ? raw_welcome(&p, out) : -EPIPE;
}

void raw_open(struct raw *r, const char *path)
{
	struct kvd_hello hello = raw_hello();

	raw_open_as(r, path, &hello);
}

void raw_open_as(struct raw *r, const char *path, const struct kvd_hello *hello)
{
	static struct sock_packet p;
	struct kvd_req req = {.op = KVD_OP_HELLO,
			      .in_bytes = sizeof(*hello),
			      .out_bytes = sizeof(struct kvd_welcome)};

	*r = (struct raw){.sock = raw_connect(path)};
	assert_int_equal(raw_send(r->sock, &req, sizeof(req), hello, sizeof(*hello)), 0);
	assert_int_equal(raw_recv(r->sock, &p), 1);
	memcpy(&r->welcome, p.payload, sizeof(r->welcome));
	if (p.fd_count != 4)
		fail_msg("refused: %s", r->welcome.message);
	r->map_bytes =
		ring_bytes(r->welcome.credits, r->welcome.in_area_bytes, r->welcome.out_area_bytes);
	assert_int_equal(shm_map(p.fds[KVD_FD_RINGS], r->map_bytes, 1, &r->map), 0);
	assert_int_equal(ring_init_client(&r->ring, r->map, r->map_bytes, &r->welcome), 0);
	close(p.fds[KVD_FD_RINGS]);
	close(p.fds[KVD_FD_LEASES]);
	r->bells[0] = r->ring.bell_to_kvd = p.fds[KVD_FD_TO_KVD];
	r->bells[1] = r->ring.bell_to_client = p.fds[KVD_FD_TO_CLIENT];
}

bool raw_hung_up(const struct raw *r)
{
	static struct sock_packet p;

	return !raw_recv(r->sock, &p);
}

void raw_close(struct raw *r)
{
	shm_unmap(r->map, r->map_bytes);
	close(r->bells[0]);
	close(r->bells[1]);
	close(r->sock);
	*r = (struct raw){0};
}
