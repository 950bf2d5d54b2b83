/* SPDX-License-Identifier: Apache-2.0 */
/* The commands that steer: check, evict, drain. They need root or the daemon's own user. */
#include "tools/kvctl/source.h"

#include <base/bits.h>
#include <base/log.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

static int cmd_admin_check(struct kvctl *k, int argc, char **argv)
{
	char text[1024] = "", safe[1024];
	struct kvd_req req = {.op = KVD_OP_CHECK, .out_bytes = sizeof(text)};
	struct kvd_rep rep;

	if (args_read(&cmd_check, argc, argv, NULL) != 0)
		return EXIT_USAGE;
	if (source_call(k, &req, NULL, &rep, text, sizeof(text)) < 0) {
		if (text[0])
			fprintf(stderr, "kvctl: broken: %s\n",
				log_safe(text, sizeof(text), safe, sizeof(safe)));
		return EXIT_FAILED;
	}
	printf(k->json ? "{\"clean\": true}\n" : "every invariant holds\n");
	return EXIT_OK;
}

/* kvd evicts a slice at a time, so that others are served in between. */
static int cmd_admin_evict_all(struct kvctl *k, struct kvd_req *req, uint64_t *out_pages)
{
	struct kvd_rep rep;
	int err;

	do {
		err = source_call(k, req, NULL, &rep, NULL, 0);
		if (err < 0)
			return err;
		*out_pages += rep.aux;
		req->arg64 -= BITS_MIN(rep.aux, req->arg64);
	} while (rep.aux > 0 && req->arg64 > 0);
	return 0;
}

static int cmd_admin_evict(struct kvctl *k, int argc, char **argv)
{
	const char *values[3] = {NULL, NULL, NULL};
	struct kvd_req req = {.op = KVD_OP_EVICT, .flags = KVD_EVICT_ALL_SPACES};
	uint64_t evicted = 0;

	if (args_read(&cmd_evict, argc, argv, values) != 0)
		return EXIT_USAGE;
	int64_t pages = values[0] ? args_number(values[0], "--pages", 1, UINT32_MAX) : UINT32_MAX;
	int64_t space = values[1] ? args_number(values[1], "--space", 0, 4095) : 0;
	if (pages < 0 || space < 0)
		return EXIT_USAGE;
	req.arg64 = (uint64_t)pages;
	if (values[1]) {
		req.flags = 0;
		req.lease = (uint64_t)space;
	}
	if (values[2])
		req.flags |= KVD_EVICT_TIERS;
	int err = cmd_admin_evict_all(k, &req, &evicted);
	if (err == -EINVAL && values[1])
		fprintf(stderr, "kvctl: is there a namespace %s? see `kvctl spaces`\n", values[1]);
	if (err < 0)
		return EXIT_FAILED;
	printf(k->json ? "{\"evicted_pages\": %" PRIu64 "}\n" : "evicted %" PRIu64 " pages\n",
	       evicted);
	return EXIT_OK;
}

static int cmd_admin_drain(struct kvctl *k, int argc, char **argv)
{
	const char *values[1] = {NULL};
	struct kvd_req req = {.op = KVD_OP_DRAIN, .arg32 = 1};
	struct kvd_rep rep;

	if (args_read(&cmd_drain, argc, argv, values) != 0)
		return EXIT_USAGE;
	if (values[0])
		req.arg32 = 0;
	if (source_call(k, &req, NULL, &rep, NULL, 0) < 0)
		return EXIT_FAILED;
	if (k->json)
		printf("{\"draining\": %s}\n", req.arg32 ? "true" : "false");
	else
		printf("%s\n", req.arg32 ? "draining: new leases are refused" : "accepting again");
	return EXIT_OK;
}

const struct kvctl_command cmd_check = {
	.name = "check",
	.summary = "walk every invariant of the daemon's state",
	.text = "Page conservation, reference counts, quotas, promises, chains. Takes time that\n"
		"grows with the pool. Exits with 1 and says what is broken, if something is.\n",
	.run = cmd_admin_check,
};

static const struct kvctl_option cmd_admin_evict_options[] = {
	{"--pages", "N", "at most so many; default: all that nothing holds"},
	{"--space", "ID", "only of this namespace (see `kvctl spaces`)"},
	{"--tiers", NULL, "out of the tiers below the pool, too"},
	{0},
};

const struct kvctl_command cmd_evict = {
	.name = "evict",
	.args = "[--pages N] [--space ID] [--tiers]",
	.summary = "drop cached pages that nothing holds",
	.text = "Leaves first, in the order of the daemon's policy. Pages that a lease or a pin\n"
		"holds stay. What a tier has is still found there, unless --tiers is given.\n",
	.options = cmd_admin_evict_options,
	.run = cmd_admin_evict,
};

static const struct kvctl_option cmd_admin_drain_options[] = {
	{"--undo", NULL, "accept new leases again"},
	{0},
};

const struct kvctl_command cmd_drain = {
	.name = "drain",
	.args = "[--undo]",
	.summary = "refuse new leases, so that engines can leave",
	.text = "Running sequences go on. Engines see it and answer new requests with 503.\n",
	.options = cmd_admin_drain_options,
	.run = cmd_admin_drain,
};
