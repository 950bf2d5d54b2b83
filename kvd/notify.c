/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sd_notify protocol is one datagram to the socket that $NOTIFY_SOCKET names ('@' opens an
 * abstract name). A manager that is not there or does not listen is no reason to fail.
 */
#include "kvd/notify.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void notify_send(const char *text)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	const char *path = getenv("NOTIFY_SOCKET");
	size_t n = path ? strlen(path) : 0;

	if (n < 2 || n >= sizeof(to.sun_path))
		return;
	memcpy(to.sun_path, path, n);
	if (to.sun_path[0] == '@')
		to.sun_path[0] = '\0';
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	(void)!sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&to,
		      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
	close(fd);
}
