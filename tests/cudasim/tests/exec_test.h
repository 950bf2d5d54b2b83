/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of the executor, which are C++ because they hold kernels: cmocka, buffers, and faults.
 * A fault breaks the device for the process, so each is made in a child, before the parent has used
 * the device itself.
 */
#ifndef CUDASIM_TESTS_EXEC_TEST_H
#define CUDASIM_TESTS_EXEC_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif
#include <cmocka.h>
#ifdef __cplusplus
}
#endif

#include "tests/cudasim/exec/exec.h"
#include "tests/cudasim/exec/twice.h"
#include "tests/test.h"

#if defined(__SANITIZE_ADDRESS__)
#define EXEC_TEST_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EXEC_TEST_ASAN
#endif
#endif

/* `bytes` of device memory with a copy of `host`, or zeros when it is NULL. */
static inline void *device_new(const void *host, size_t bytes)
{
	void *p = NULL;

	assert_int_equal(cudaMalloc(&p, bytes), cudaSuccess);
	if (host)
		assert_int_equal(cudaMemcpy(p, host, bytes, cudaMemcpyHostToDevice), cudaSuccess);
	else
		assert_int_equal(cudaMemset(p, 0, bytes), cudaSuccess);
	return p;
}

/* Waits for the device and copies out. */
static inline void device_read(void *host, const void *device, size_t bytes)
{
	assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
	assert_int_equal(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
}

struct fault {
	cudaError_t error;
	char text[512];
};

/* What launch() ends with in a child: the device's error, and what was said. */
static inline struct fault fault_of(void (*launch)(void))
{
	struct fault f;
	int ends[2], status = 0;
	pid_t child;

	memset(&f, 0, sizeof(f));
	assert_int_equal(pipe(ends), 0);
	child = fork();
	if (child == 0) {
		launch();
		f.error = cudaDeviceSynchronize();
		snprintf(f.text, sizeof(f.text), "%s", sim_fault_text());
		_exit(write(ends[1], &f, sizeof(f)) == (ssize_t)sizeof(f) ? 0 : 1);
	}
	assert_true(child > 0);
	close(ends[1]);
	assert_int_equal(read(ends[0], &f, sizeof(f)), sizeof(f));
	close(ends[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	return f;
}

static inline void assert_fault(void (*launch)(void), cudaError_t error, const char *words)
{
	struct fault f = fault_of(launch);

	assert_int_equal(f.error, error);
	if (!strstr(f.text, words))
		fail_msg("\"%s\" does not say \"%s\"", f.text, words);
}

#endif
