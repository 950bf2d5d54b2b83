/* SPDX-License-Identifier: Apache-2.0 */
/* A daemon and one client of it, for the benches of the control plane. */
#ifndef TOOLS_KVBENCH_BENCH_CLIENT_H
#define TOOLS_KVBENCH_BENCH_CLIENT_H

#include "tools/kvbench/bench.h"
#include "tools/kvbench/daemon.h"

#include <kvd.h>

struct bench_client {
	struct daemon daemon;
	struct kvd *kvd;
};

/* spin_us: how long both sides spin before they sleep. 0 or -errno after a message. */
int bench_client_start(struct bench_client *c, const struct bench *b, uint64_t pool_bytes,
		       uint32_t spin_us);
void bench_client_stop(struct bench_client *c);
/* A format with one part of page_bytes. 0 or -errno after a message. */
int bench_client_format(struct bench_client *c, uint32_t page_tokens, uint64_t page_bytes,
			uint32_t *out_format);
/* Acquires, waits for the lease. NULL after a message. */
struct kvd_lease *bench_client_acquire(struct bench_client *c, uint32_t format,
				       const uint32_t *tokens, uint32_t count);
/* Seals the lease's blocks from 0 to block_count - 1, all prompt, and waits. 0 or -errno. */
int bench_client_seal(struct bench_client *c, struct kvd_lease *lease, uint32_t block_count);

#endif
