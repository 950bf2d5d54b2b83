/* SPDX-License-Identifier: Apache-2.0 */
/* A client without libkvd, for tests that do what the library never would. */
#ifndef TESTS_E2E_RAW_H
#define TESTS_E2E_RAW_H

#include <ipc/ring.h>
#include <ipc/sock.h>
#include <kvd_abi.h>
#include <stdbool.h>

struct raw {
	int sock;
	struct ring_side ring;
	struct kvd_welcome welcome;
	void *map;
	size_t map_bytes;
	int bells[2];
};

struct kvd_hello raw_hello(void);
/* Connects to the path. */
int raw_connect(const char *path);
/* Connects, says HELLO, maps the rings. Fails the test if that does not work. */
void raw_open(struct raw *r, const char *path);
void raw_open_as(struct raw *r, const char *path, const struct kvd_hello *hello);
/* Sends one packet of these bytes as they are; -errno. */
int raw_send(int sock, const void *head, size_t head_bytes, const void *payload,
	     size_t payload_bytes);
/* Waits for the next packet: 1, or 0 when the daemon hung up. */
int raw_recv(int sock, struct sock_packet *p);
/* Says HELLO with these bytes and returns the result of the reply, -EPIPE if none came. */
int raw_say(int sock, const struct kvd_hello *hello, struct kvd_welcome *out);
/* The same, but -ETIMEDOUT when the daemon says nothing for so long. */
int raw_try(int sock, const struct kvd_hello *hello, struct kvd_welcome *out, int timeout_ms);
/* True when the daemon has closed the socket. */
bool raw_hung_up(const struct raw *r);
void raw_close(struct raw *r);

#endif
