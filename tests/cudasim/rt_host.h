/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory that devices reach by themselves. */
#ifndef TESTS_CUDASIM_RT_HOST_H
#define TESTS_CUDASIM_RT_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rt_host {
	struct rt_host *next;
	uint8_t *base;
	size_t bytes;
	bool owned; /* by cudaHostAlloc */
};

/* The registered area that holds the address, or NULL. */
const struct rt_host *rt_host_find(const void *at);

#endif
