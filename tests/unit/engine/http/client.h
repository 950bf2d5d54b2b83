/* SPDX-License-Identifier: Apache-2.0 */
/* A plain HTTP client over a loopback socket, which can stop at any byte. */
#ifndef TESTS_CLIENT_H
#define TESTS_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct client_answer {
	int status;
	char *head; /* status line and headers; terminated */
	char *body; /* without chunk sizes; terminated */
};

int client_connect(uint16_t port);
void client_send(int fd, const char *data, size_t bytes);
/* Sends a request with a JSON body ("" for none) and leaves the connection open. */
void client_request(int fd, const char *method, const char *path, const char *body);
/* Reads until the server closes. */
struct client_answer client_read(int fd);
/* Reads until `text` has arrived, and no further than needed. */
void client_read_until(int fd, const char *text);
/* Connects, asks, reads, closes. */
struct client_answer client_ask(uint16_t port, const char *method, const char *path,
				const char *body);
void client_answer_fini(struct client_answer *a);

#endif
