/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kvctl verify: has the daemon read all that a tier holds and check it. A slice a request, from the
 * cursor that the one before returned, so that others are served in between and this end can show
 * how far it is. Blocks that are bad or cannot be read are gone from the tier afterwards: nothing
 * is lost but the time to compute them again.
 */
#include "tools/kvctl/fields.h"
#include "tools/kvctl/source.h"

#include <base/bits.h>
#include <base/units.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* How long the daemon may take for a slice, and then how long it is waited for. */
#define CMD_VERIFY_SLICE_MS 30000u
#define CMD_VERIFY_TIMEOUT_NS (2 * CMD_VERIFY_SLICE_MS * UNITS_NS_PER_MS)
#define CMD_VERIFY_MINOR 2
#define CMD_VERIFY_BAR 30

struct cmd_verify {
	const struct kvctl *k;
	uint32_t tier;
	struct kvd_verify sum; /* `total` is the newest */
	uint64_t start_ns;
	bool progress;
};

static double cmd_verify_seconds(const struct cmd_verify *v)
{
	return (double)(units_now_ns() - v->start_ns) / 1e9;
}

static uint64_t cmd_verify_rate(uint64_t count, double seconds)
{
	return seconds > 0 ? (uint64_t)((double)count / seconds) : 0;
}

/* One line on stderr, in the place of the one before. */
static void cmd_verify_progress(const struct cmd_verify *v)
{
	double s = cmd_verify_seconds(v);
	uint64_t total = BITS_MAX(v->sum.total, v->sum.blocks);
	uint64_t blocks_per_s = cmd_verify_rate(v->sum.blocks, s);
	char bar[CMD_VERIFY_BAR + 1], bytes[32], rate[32];

	if (!v->progress)
		return;
	int done = total ? (int)((double)v->sum.blocks / (double)total * CMD_VERIFY_BAR) : 0;
	memset(bar, '.', sizeof(bar) - 1);
	memset(bar, '#', (size_t)done);
	bar[CMD_VERIFY_BAR] = '\0';
	fprintf(stderr, "\r\033[K[%s] %" PRIu64 " of %" PRIu64 " blocks, %s, %s/s", bar,
		v->sum.blocks, total, units_format_bytes(v->sum.bytes, bytes, sizeof(bytes)),
		units_format_bytes(cmd_verify_rate(v->sum.bytes, s), rate, sizeof(rate)));
	if (blocks_per_s > 0)
		fprintf(stderr, ", %" PRIu64 " s left", (total - v->sum.blocks) / blocks_per_s);
}

static int cmd_verify_explain(const struct cmd_verify *v, int result)
{
	const char *tier = fields_tier(v->tier);

	if (v->progress)
		fprintf(stderr, "\r\033[K");
	if (result == -EBUSY || result == KVD_BUSY)
		fprintf(stderr, "kvctl: another verify runs: wait for its end\n");
	else if (result == -ENODEV || result == -ENOENT || result == KVD_MISS)
		fprintf(stderr, "kvctl: the kvd at %s has no %s tier: see `kvctl tiers`\n",
			v->k->path, tier);
	else if (result == KVD_GONE)
		fprintf(stderr, "kvctl: the kvd at %s hung up: see its log\n", v->k->path);
	else
		fprintf(stderr, "kvctl: kvd answered: %s%s\n", kvd_strresult(result),
			result == -EPERM ? " (needs root or the daemon's own user)" : "");
	return result < 0 ? result : -EIO;
}

/* One request. 0, or -errno after a message; *cursor is 0 after the last. */
static int cmd_verify_slice(struct cmd_verify *v, struct kvd *kvd, uint64_t *cursor)
{
	struct kvd_req req = {.op = KVD_OP_VERIFY,
			      .deadline_ms = CMD_VERIFY_SLICE_MS,
			      .arg32 = v->tier,
			      .arg64 = *cursor};
	struct kvd_verify part = {0};
	struct kvd_rep rep;
	int r = kvd_call(kvd, &req, NULL, &rep, &part, sizeof(part));

	if (r == 0)
		r = rep.result;
	/* Without progress there would be no end. */
	if (r == 0 && (rep.out_bytes < sizeof(part) || (rep.aux && rep.aux == *cursor)))
		r = -EPROTO;
	if (r != 0)
		return cmd_verify_explain(v, r);
	v->sum.blocks += part.blocks;
	v->sum.bytes += part.bytes;
	v->sum.bad += part.bad;
	v->sum.failed += part.failed;
	v->sum.total = part.total;
	*cursor = rep.aux;
	return 0;
}

static int cmd_verify_all(struct cmd_verify *v)
{
	struct kvd *kvd;
	uint64_t cursor = 0;
	int err = source_open(v->k, CMD_VERIFY_TIMEOUT_NS, &kvd);

	if (err)
		return err < 0 ? err : -EIO;
	v->start_ns = units_now_ns();
	do {
		err = cmd_verify_slice(v, kvd, &cursor);
		if (!err)
			cmd_verify_progress(v);
	} while (!err && cursor);
	kvd_close(kvd);
	if (!err && v->progress)
		fprintf(stderr, "\r\033[K");
	return err;
}

/* What lies in an area that is degraded is left alone. */
static bool cmd_verify_none(const struct cmd_verify *v)
{
	return v->sum.blocks == 0 && v->sum.total > 0;
}

static void cmd_verify_print(const struct cmd_verify *v)
{
	double s = cmd_verify_seconds(v);
	uint64_t worse = v->sum.bad + v->sum.failed;
	uint64_t good = v->sum.blocks - BITS_MIN(worse, v->sum.blocks);
	char bytes[32], rate[32];

	if (v->k->json) {
		json_out_print(json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:f}", "tier",
					 fields_tier(v->tier), "blocks", (json_int_t)v->sum.blocks,
					 "bytes", (json_int_t)v->sum.bytes, "good",
					 (json_int_t)good, "bad", (json_int_t)v->sum.bad, "failed",
					 (json_int_t)v->sum.failed, "total",
					 (json_int_t)v->sum.total, "seconds", s));
		return;
	}
	if (cmd_verify_none(v)) {
		printf("%s tier: none of %" PRIu64
		       " blocks could be looked at: see `kvctl tiers`\n",
		       fields_tier(v->tier), v->sum.total);
		return;
	}
	printf("%s tier: %" PRIu64 " blocks, %s in %.1f s (%s/s): %" PRIu64 " good, %" PRIu64
	       " bad, %" PRIu64 " failed\n",
	       fields_tier(v->tier), v->sum.blocks,
	       units_format_bytes(v->sum.bytes, bytes, sizeof(bytes)), s,
	       units_format_bytes(cmd_verify_rate(v->sum.bytes, s), rate, sizeof(rate)), good,
	       v->sum.bad, v->sum.failed);
	if (worse > 0)
		printf("what was bad or could not be read is dropped, and computed again when it "
		       "is wanted\n");
}

/* An older daemon ends the session of who sends what it does not know; so it is not asked. */
static bool cmd_verify_too_old(const struct kvctl *k)
{
	static struct kvd_status s;
	enum source_life life;

	if (source_status_quiet(k, &s, &life) < 0 || life != SOURCE_ALIVE ||
	    s.minor >= CMD_VERIFY_MINOR)
		return false;
	fprintf(stderr, "kvctl: the kvd at %s is an older one (protocol %u.%u) and cannot verify\n",
		k->path, s.major, s.minor);
	return true;
}

static int cmd_verify_run(struct kvctl *k, int argc, char **argv)
{
	struct cmd_verify v = {
		.k = k, .tier = KVD_TIER_FILE, .progress = !k->json && isatty(STDERR_FILENO)};

	if (argc > 0 && argv[0][0] != '-') {
		for (v.tier = KVD_TIER_DRAM; v.tier <= KVD_TIER_FILE; v.tier++)
			if (strcmp(argv[0], fields_tier(v.tier)) == 0)
				break;
		if (v.tier > KVD_TIER_FILE) {
			fprintf(stderr, "kvctl: there is no tier %s: it is dram or file\n",
				argv[0]);
			return EXIT_USAGE;
		}
		argc--;
		argv++;
	}
	if (args_read(&cmd_verify, argc, argv, NULL) != 0)
		return EXIT_USAGE;
	if (cmd_verify_too_old(k) || cmd_verify_all(&v) < 0)
		return EXIT_FAILED;
	cmd_verify_print(&v);
	return v.sum.bad || v.sum.failed || cmd_verify_none(&v) ? EXIT_FAILED : EXIT_OK;
}

const struct kvctl_command cmd_verify = {
	.name = "verify",
	.args = "[dram | file]",
	.summary = "read and check all that a tier holds",
	.text = "The file tier, unless told otherwise. Each block is read and compared with its\n"
		"checksum, key and generation, while the daemon works; on a terminal a bar shows\n"
		"how far it is. Exits with 0 if all blocks are good. Those that are bad, or could "
		"not\n"
		"be read (failed), are dropped, and the exit status is 1, as it is where no block "
		"can be looked at. ^C "
		"stops it.\n"
		"JSON: {tier, blocks, bytes, good, bad, failed, total, seconds}.\n",
	.run = cmd_verify_run,
};
