/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where io_uring is forbidden the threads do it, and the reason is said. A child forbids itself a
 * system call, as a container would, and looks what it gets.
 */
#include "kvd/aio.h"
#include "tests/test.h"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void forbid(long call, int error)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = 4, .filter = code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		_exit(TEST_SKIP_STATUS);
}

static int outcome = 1;

static void done(struct aio_op *op, int result)
{
	outcome = result;
}

/* Ends the child with another status if it is not so. */
#define EXPECT(cond)                                                                               \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: not so: %s; why: %s\n", __FILE__, __LINE__, #cond, \
				why);                                                              \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static void child(long call, int error, const char *word)
{
	struct aio *aio = NULL;
	char why[256] = "";
	char byte = 7;

	forbid(call, error);
	EXPECT(aio_new(&aio, AIO_URING, 4, why, sizeof(why)) == -error);
	EXPECT(strstr(why, "no io_uring: ") && strstr(why, word) && !aio);
	EXPECT(aio_new(&aio, AIO_AUTO, 4, why, sizeof(why)) == 0);
	EXPECT(strcmp(aio_name(aio), "threads") == 0);
	EXPECT(strstr(why, "threads: no io_uring: ") == why && strstr(why, word));
	struct aio_op op = {.fd = memfd_create("refused", MFD_CLOEXEC),
			    .write = true,
			    .vecs = {{&byte, 1}},
			    .vec_count = 1,
			    .done = done};
	aio_submit(aio, &op);
	while (aio_turn(aio, 0) == 0) {
		struct pollfd p = {.fd = aio_fd(aio), .events = POLLIN};
		EXPECT(poll(&p, 1, 30000) == 1);
	}
	EXPECT(outcome == 0);
	aio_free(aio);
	_exit(0);
}

static void run(long call, int error, const char *word)
{
	int status = -1;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		child(call, error, word);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == TEST_SKIP_STATUS) {
		print_message("skipped: no seccomp filter can be set here\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* Which words depends: a sysctl may forbid it here already. */
static void test_setup_is_forbidden(void **state)
{
	run(SYS_io_uring_setup, EPERM, "");
}

static void test_there_is_no_such_call(void **state)
{
	run(SYS_io_uring_setup, ENOSYS, "this kernel has none");
}

static void test_no_memory_for_a_ring(void **state)
{
	run(SYS_io_uring_setup, ENOMEM, "RLIMIT_MEMLOCK");
}

/* A ring that cannot be entered is found out before it is used. */
static void test_enter_is_forbidden(void **state)
{
	run(SYS_io_uring_enter, EPERM, "");
}

TEST_MAIN(aio_refused, cmocka_unit_test(test_setup_is_forbidden),
	  cmocka_unit_test(test_there_is_no_such_call), cmocka_unit_test(test_no_memory_for_a_ring),
	  cmocka_unit_test(test_enter_is_forbidden))
