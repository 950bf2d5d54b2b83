/* SPDX-License-Identifier: Apache-2.0 */
/* What a service manager hears. */
#include "kvd/notify.h"
#include "tests/test.h"
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int manager(const char *name, size_t name_bytes)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	memcpy(at.sun_path, name, name_bytes);
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + name_bytes);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, size), 0);
	return fd;
}

static void assert_heard(int fd, const char *want)
{
	char text[64] = "";

	assert_int_equal(recv(fd, text, sizeof(text) - 1, 0), strlen(want));
	assert_string_equal(text, want);
}

static void test_path(void **state)
{
	char path[64];

	snprintf(path, sizeof(path), "/tmp/test_notify_%d", getpid());
	int fd = manager(path, strlen(path) + 1);
	setenv("NOTIFY_SOCKET", path, 1);
	notify_send("READY=1");
	assert_heard(fd, "READY=1");
	close(fd);
	unlink(path);
	notify_send("nobody listens");
}

static void test_abstract(void **state)
{
	char name[64];

	snprintf(name, sizeof(name), "@test_notify_%d", getpid());
	setenv("NOTIFY_SOCKET", name, 1);
	name[0] = '\0';
	int fd = manager(name, 1 + strlen(name + 1));
	notify_send("STOPPING=1");
	assert_heard(fd, "STOPPING=1");
	close(fd);
}

TEST_MAIN(notify, cmocka_unit_test(test_path), cmocka_unit_test(test_abstract))
