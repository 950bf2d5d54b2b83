/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The smallest client of an engine's stream: one request, then whatever comes is looked at for the
 * beginnings of events. When an answer ends the next one is asked for.
 */
#include "tools/kvbench/bench_stream.h"

#include "tools/kvbench/daemon.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define STREAM_BODY                                                                                \
	"{\"prompt\":\"The history of the sea, and of those who crossed it, begins\","             \
	"\"max_tokens\":2000,\"temperature\":0,\"ignore_eos\":true,\"stream\":true}"

/* kvengine in a build folder lies beside the folder of kvd; installed, beside kvd. */
static const char *bench_stream_program(const char *kvd_program)
{
	static char path[4300];
	static const char *const beside[] = {"../engine/kvengine", "kvengine"};
	const char *slash = strrchr(kvd_program, '/');

	for (size_t i = 0; slash && i < 2; i++) {
		snprintf(path, sizeof(path), "%.*s%s", (int)(slash - kvd_program + 1), kvd_program,
			 beside[i]);
		if (access(path, X_OK) == 0)
			return path;
	}
	return "kvengine";
}

int bench_stream_start(struct bench_stream *s, const char *kvd_program, const char *model,
		       const char *socket, const char *log)
{
	const char *argv[16] = {bench_stream_program(kvd_program),
				"--model",
				model,
				"--socket",
				socket,
				"--port",
				"0",
				"--log-level",
				"warning"};
	char line[256];
	unsigned int port;

	*s = (struct bench_stream){.fd = -1};
	int err = daemon_program(argv, 9, log, &s->pid, line, sizeof(line));
	if (err)
		return err;
	const char *colon = strrchr(line, ':');
	if (!colon || sscanf(colon, ":%u", &port) != 1 || port == 0 || port > UINT16_MAX) {
		fprintf(stderr, "kvbench: kvengine says %s\n", line);
		return -EPROTO;
	}
	s->port = (uint16_t)port;
	return 0;
}

void bench_stream_stop(struct bench_stream *s)
{
	if (s->fd >= 0)
		close(s->fd);
	if (s->pid > 0) {
		kill(s->pid, SIGTERM);
		waitpid(s->pid, NULL, 0);
	}
	*s = (struct bench_stream){.fd = -1};
}

static int bench_stream_ask(struct bench_stream *s)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons(s->port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	char text[1024];
	int n = snprintf(text, sizeof(text),
			 "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
			 "Connection: close\r\nContent-Type: application/json\r\n"
			 "Content-Length: %zu\r\n\r\n%s",
			 strlen(STREAM_BODY), STREAM_BODY);

	s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (s->fd < 0 || connect(s->fd, (struct sockaddr *)&to, sizeof(to)) < 0 ||
	    send(s->fd, text, (size_t)n, MSG_NOSIGNAL) != n) {
		int err = -errno;
		fprintf(stderr, "kvbench: kvengine: %s\n", strerror(-err));
		return err;
	}
	return 0;
}

/* Headers come first, and alone. */
static int bench_stream_head(struct bench_stream *s)
{
	char text[4096];
	ssize_t n = recv(s->fd, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return -EPIPE;
	text[n] = '\0';
	if (strncmp(text, "HTTP/1.1 200", 12) == 0)
		return 0;
	fprintf(stderr, "kvbench: kvengine answers %s\n", text);
	return -EPROTO;
}

int bench_stream_next(struct bench_stream *s, int timeout_ms)
{
	char text[65536];
	bool first = s->fd < 0;
	int err = first ? bench_stream_ask(s) : 0;

	if (!err && first)
		err = bench_stream_head(s);
	if (err)
		return err;
	for (;;) {
		struct pollfd p = {.fd = s->fd, .events = POLLIN};
		if (poll(&p, 1, first ? -1 : timeout_ms) == 0)
			return 0;
		ssize_t n = recv(s->fd, text, sizeof(text) - 1, 0);
		if (n <= 0) {
			close(s->fd);
			s->fd = -1;
			return 0;
		}
		text[n] = '\0';
		if (strstr(text, "data: {"))
			return first ? 2 : 1;
	}
}
