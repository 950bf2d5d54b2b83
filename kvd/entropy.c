/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One getrandom() for hundreds of requests. The call cannot fail for these sizes once the kernel's
 * pool is ready, for which it waits; a kernel where it fails is not one that we can run on.
 */
#include "kvd/entropy.h"
#include "base/assert.h"
#include <errno.h>
#include <sys/random.h>

static void entropy_fill(struct entropy *e)
{
	size_t have = 0;

	while (have < sizeof(e->bytes)) {
		ssize_t n = getrandom(e->bytes + have, sizeof(e->bytes) - have, 0);
		ASSERT(n > 0 || errno == EINTR);
		if (n > 0)
			have += (size_t)n;
	}
	e->left = sizeof(e->bytes);
}

const uint8_t *entropy_take(struct entropy *e, size_t size)
{
	ASSERT(size <= sizeof(e->bytes));
	if (e->left < size)
		entropy_fill(e);
	e->left -= size;
	return e->bytes + e->left;
}
