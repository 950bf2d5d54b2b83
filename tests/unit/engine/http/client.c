/* SPDX-License-Identifier: Apache-2.0 */
/* See client.h. Every failure of the socket is a failed assertion of the test. */
#include "tests/unit/engine/http/client.h"
#include "tests/test.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

int client_connect(uint16_t port)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
				.sin_port = htons(port),
				.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return fd;
}

void client_send(int fd, const char *data, size_t bytes)
{
	while (bytes > 0) {
		ssize_t n = send(fd, data, bytes, MSG_NOSIGNAL);

		assert_true(n > 0);
		data += n;
		bytes -= (size_t)n;
	}
}

void client_request(int fd, const char *method, const char *path, const char *body)
{
	char head[512];
	int n = snprintf(head, sizeof(head),
			 "%s %s HTTP/1.1\r\nHost: test\r\nConnection: close\r\n"
			 "X-Request-Id: test-1\r\nContent-Length: %zu\r\n\r\n",
			 method, path, strlen(body));

	client_send(fd, head, (size_t)n);
	client_send(fd, body, strlen(body));
}

static char *read_all(int fd)
{
	size_t used = 0;
	size_t size = 1 << 16;
	char *data = malloc(size);
	ssize_t n;

	assert_non_null(data);
	while ((n = recv(fd, data + used, size - used - 1, 0)) > 0) {
		used += (size_t)n;
		if (used + 1 < size)
			continue;
		size *= 2;
		data = realloc(data, size);
		assert_non_null(data);
	}
	data[used] = '\0';
	return data;
}

/* Takes the chunk sizes out, in place. */
static void join_chunks(char *body)
{
	char *from = body;
	char *to = body;

	for (;;) {
		char *end;
		size_t n = strtoul(from, &end, 16);

		if (n == 0 || strlen(end) < n + 2)
			break;
		memmove(to, end + 2, n);
		to += n;
		from = end + 2 + n + 2;
	}
	*to = '\0';
}

struct client_answer client_read(int fd)
{
	struct client_answer a = {0};

	a.head = read_all(fd);
	char *end = strstr(a.head, "\r\n\r\n");
	assert_non_null(end);
	a.body = strdup(end + 4);
	assert_non_null(a.body);
	end[2] = '\0';
	a.status = atoi(a.head + strlen("HTTP/1.1 "));
	if (strstr(a.head, "Transfer-Encoding: chunked"))
		join_chunks(a.body);
	return a;
}

void client_read_until(int fd, const char *text)
{
	char data[1 << 16];
	size_t used = 0;

	data[0] = '\0';
	while (!strstr(data, text)) {
		assert_true(used + 1 < sizeof(data));
		ssize_t n = recv(fd, data + used, 1, 0);
		assert_true(n > 0);
		used += (size_t)n;
		data[used] = '\0';
	}
}

struct client_answer client_ask(uint16_t port, const char *method, const char *path,
				const char *body)
{
	int fd = client_connect(port);

	client_request(fd, method, path, body);
	struct client_answer a = client_read(fd);
	close(fd);
	return a;
}

void client_answer_fini(struct client_answer *a)
{
	free(a->head);
	free(a->body);
}
