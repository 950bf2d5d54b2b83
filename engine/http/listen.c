/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the listening socket ourselves: only so is a port in use a sentence that helps. */
#include "engine/http/listen.h"
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 256

static int bind_to(const struct addrinfo *a)
{
	const int on = 1;
	int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	int ret = -errno;
	close(fd);
	return ret;
}

static int port_of(int fd, uint16_t *out)
{
	struct sockaddr_storage a;
	socklen_t bytes = sizeof(a);

	if (getsockname(fd, (struct sockaddr *)&a, &bytes) < 0)
		return -errno;
	*out = ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port
					     : ((struct sockaddr_in *)&a)->sin_port);
	return 0;
}

static const char *advice(int ret)
{
	switch (ret) {
	case -EADDRINUSE:
		return "is in use: choose another port, or 0 for a free one";
	case -EACCES:
		return "is not allowed: choose a port above 1023";
	case -EADDRNOTAVAIL:
		return "is not an address of this machine";
	default:
		return strerror(-ret);
	}
}

int listen_open(const char *host, uint16_t port, uint16_t *out_port, char *error, size_t size)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
	struct addrinfo *found;
	char service[8];

	snprintf(service, sizeof(service), "%u", port);
	int gai = getaddrinfo(host, service, &hints, &found);
	if (gai != 0) {
		snprintf(error, size, "cannot listen on '%s': %s", host, gai_strerror(gai));
		return -EINVAL;
	}
	int ret = -EADDRNOTAVAIL;
	for (const struct addrinfo *a = found; a && ret < 0; a = a->ai_next)
		ret = bind_to(a);
	freeaddrinfo(found);
	if (ret < 0) {
		snprintf(error, size, "%s port %u %s", host, port, advice(ret));
		return ret;
	}
	int got = port_of(ret, out_port);
	if (got < 0) {
		close(ret);
		return got;
	}
	return ret;
}
