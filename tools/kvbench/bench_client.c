/* SPDX-License-Identifier: Apache-2.0 */
/* The few calls of libkvd that the control plane's benches make, each with its wait. */
#include "tools/kvbench/bench_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int bench_client_start(struct bench_client *c, const struct bench *b, uint64_t pool_bytes,
		       uint32_t spin_us)
{
	char spin[32];

	*c = (struct bench_client){0};
	snprintf(spin, sizeof(spin), "%u", spin_us);
	setenv("KVD_SPIN_US", spin, 1);
	int err = daemon_start(&c->daemon, b->kvd_program, pool_bytes, spin_us);
	if (err)
		return err;
	struct kvd_options options = {.socket_path = c->daemon.socket, .name = "kvbench"};
	err = kvd_open(&options, &c->kvd);
	if (err) {
		fprintf(stderr, "kvbench: %s\n", kvd_last_error());
		daemon_stop(&c->daemon);
	}
	return err;
}

void bench_client_stop(struct bench_client *c)
{
	kvd_close(c->kvd);
	daemon_stop(&c->daemon);
}

int bench_client_format(struct bench_client *c, uint32_t page_tokens, uint64_t page_bytes,
			uint32_t *out_format)
{
	struct kvd_format_args args = {.page_tokens = page_tokens,
				       .part_count = 1,
				       .parts = {{.page_bytes = page_bytes, .align = 64}},
				       .layout = "kvbench",
				       .description = "kvbench"};

	memcpy(args.identity, &page_tokens, sizeof(page_tokens));
	memcpy(args.identity + 8, &page_bytes, sizeof(page_bytes));
	int err = kvd_format(c->kvd, &args, out_format);
	if (err)
		fprintf(stderr, "kvbench: format: %s: %s\n", kvd_strresult(err), kvd_last_error());
	return err;
}

/* Takes events until one of this kind for the lease; its result, or -errno. */
static int bench_client_await(struct bench_client *c, uint32_t kind, const struct kvd_lease *lease)
{
	struct kvd_event ev;

	for (;;) {
		int n = kvd_wait(c->kvd, UINT64_MAX, &ev, 1);
		if (n < 0)
			return n;
		if (n == 1 && ev.kind == KVD_EV_GONE)
			return -EPIPE;
		if (n == 1 && ev.kind == kind && ev.lease == lease)
			return ev.result;
	}
}

struct kvd_lease *bench_client_acquire(struct bench_client *c, uint32_t format,
				       const uint32_t *tokens, uint32_t count)
{
	struct kvd_acquire_args args = {.format = format, .tokens = tokens, .token_count = count};
	struct kvd_lease *lease;
	int err = kvd_acquire(c->kvd, &args, &lease);

	if (!err)
		err = bench_client_await(c, KVD_EV_LEASE, lease);
	if (err)
		fprintf(stderr, "kvbench: acquire: %s\n", kvd_strresult(err));
	return err ? NULL : lease;
}

int bench_client_seal(struct bench_client *c, struct kvd_lease *lease, uint32_t block_count)
{
	int err = kvd_seal(c->kvd, lease, 0, block_count, NULL, 0);

	if (!err)
		err = bench_client_await(c, KVD_EV_SEAL, lease);
	if (err)
		fprintf(stderr, "kvbench: seal: %s\n", kvd_strresult(err));
	return err;
}
