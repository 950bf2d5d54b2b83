/* SPDX-License-Identifier: Apache-2.0 */
/* Copies a page, one piece per thread when it is large enough to pay for a fork. */
#include "kernels/cpu/ctx.h"

#include <base/units.h>
#include <string.h>

#define COPY_FORK_BYTES (256 * UNITS_KIB)

struct copy_job {
	char *dst;
	const char *src;
	uint64_t bytes;
};

static void copy_thread(void *arg, uint32_t index, uint32_t count)
{
	const struct copy_job *j = arg;
	uint64_t piece = bits_align_up(bits_div_ceil(j->bytes, count), 64);
	uint64_t at = BITS_MIN(index * piece, j->bytes);

	memcpy(j->dst + at, j->src + at, BITS_MIN(piece, j->bytes - at));
}

void op_copy_page(struct kernels_ctx *ctx, uint64_t dst, uint64_t src, uint64_t bytes)
{
	struct copy_job j = {(char *)(uintptr_t)dst, (const char *)(uintptr_t)src, bytes};

	if (bytes < COPY_FORK_BYTES)
		copy_thread(&j, 0, 1);
	else
		team_run(ctx->team, copy_thread, &j);
}
