/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of the simulator run in processes of their own: the program starts itself again (fork and
 * exec) with a role, in an environment of the test's. A role checks by CHECK and OK, and exits 0.
 * All processes of a test program share one machine in a folder that is removed at the end.
 */
#ifndef TESTS_CUDASIM_TESTS_CHILD_H
#define TESTS_CUDASIM_TESTS_CHILD_H

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

#define CHILD_SIGNAL 128 /* status of a process that a signal ended: this and its number */

struct child_role {
	const char *name;
	void (*run)(void);
};

struct child {
	pid_t pid;
	int fd; /* a socket; the child finds its end by child_fd() */
};

/* What CHILD_MAIN calls: runs the role that argv names, or the tests. */
int child_main(int argc, char **argv, const struct child_role *roles, int (*tests)(void));

/* env: "NAME=value", NULL at the end, or NULL. */
struct child child_start(const char *role, const char *const *env);
int child_wait(struct child *child);
/* Runs the role to its end; its standard error is kept for child_said(). */
int child_run(const char *role, const char *const *env);
bool child_said(const char *words);
/* What it said behind those words, up to the line's end. */
void child_said_word(const char *words, char *out, size_t size);
/* Runs the role with two seeds: 0 if both runs exit 0. */
int child_run_seeds(const char *role, const char *const *env);

int child_fd(void);
/* A whole message, and an fd with it (-1: none). The other end must be there. */
void child_send(int fd, const void *data, size_t bytes, int pass_fd);
/* Returns the fd that came along, or -1. */
int child_receive(int fd, void *data, size_t bytes);

void child_fail(const char *file, int line, const char *what, long value);
#define CHECK(x)                                                                                   \
	do {                                                                                       \
		if (!(x))                                                                          \
			child_fail(__FILE__, __LINE__, #x, 0);                                     \
	} while (0)
#define IS(x, expected)                                                                            \
	do {                                                                                       \
		long is_value = (long)(x);                                                         \
		if (is_value != (long)(expected))                                                  \
			child_fail(__FILE__, __LINE__, #x " is not " #expected, is_value);         \
	} while (0)
#define OK(x) IS(x, cudaSuccess)

#define CHILD_MAIN(name, roles, ...)                                                               \
	static int child_tests(void)                                                               \
	{                                                                                          \
		const struct CMUnitTest tests[] = {__VA_ARGS__};                                   \
		return cmocka_run_group_tests_name(#name, tests, NULL, NULL);                      \
	}                                                                                          \
	int main(int argc, char **argv)                                                            \
	{                                                                                          \
		return child_main(argc, argv, roles, child_tests);                                 \
	}

/* Copies by cudaMemcpy for tests that look at device memory. */
void child_read(void *to, const void *device, size_t bytes);
uint8_t child_byte(const void *device);
/* A driver function by its name. */
void *child_driver(const char *name);
#define DRIVER(name) ((__typeof__(&name))child_driver(#name))

#endif
