/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long it takes until a file tier is there again, after the daemon was killed in the middle of
 * its work. All is real: blocks that a client computed, stored by a daemon with its journal, which
 * is killed; the file is dropped from the page cache; a new daemon reads the journal and serves a
 * prefix from the file, which is checked byte for byte.
 *
 * Two cases: very many small blocks of several formats, and a large file of blocks as they are.
 */
#include "tools/kvbench/bench.h"
#include "tools/kvbench/bench_tier.h"

#include <base/bits.h>
#include <base/units.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define RESTART_REPEAT 5u
#define RESTART_REPEAT_MAX 100u
#define RESTART_SPARE_BYTES (4 * UNITS_GIB) /* of the disk, left free */
/* A file's journal is a 64th of it, in two halves, each of which is to hold a record a block. */
#define RESTART_FILE_BYTES_PER_BLOCK (208ull * 2 * 64)
#define RESTART_JOURNAL_US 2000000 /* by then records are on the disk */

struct restart_case {
	const char *name;
	uint32_t page_tokens;
	uint64_t page_bytes;
	uint32_t formats;
	uint32_t sets; /* computed one after the other, as they do not fit the pool together */
	uint32_t chains;
	uint32_t blocks;
};

struct restart {
	const struct bench *b;
	const struct restart_case *k;
	struct bench_tier tier;
	struct bench_set set;
	uint64_t blocks; /* all of them */
	double ready_ms[RESTART_REPEAT_MAX];
	double read_ms[RESTART_REPEAT_MAX];
	double hit_ms[RESTART_REPEAT_MAX];
};

static int bench_restart_fill(struct restart *r)
{
	uint64_t stores = 0;
	int rc = 0;

	for (uint32_t i = 0; i < r->k->sets && rc == 0; i++) {
		r->set = (struct bench_set){
			.seed = i + 1, .chains = r->k->chains, .blocks = r->k->blocks};
		stores += (uint64_t)r->set.chains * r->set.blocks;
		rc = bench_tier_fill(&r->tier, &r->set);
		if (rc == 0)
			rc = bench_tier_release(&r->tier, &r->set);
		if (rc == 0)
			rc = bench_tier_stored(&r->tier, stores, units_now_ns(), NULL);
		if (rc == 0)
			rc = bench_tier_evict(&r->tier, false);
	}
	usleep(RESTART_JOURNAL_US);
	return rc;
}

/* What kvd's log says of its last start. */
static int bench_restart_found(const struct restart *r, uint64_t *out_blocks, uint64_t *out_ms)
{
	FILE *f = fopen(r->tier.daemon.log, "re");
	char line[1024];
	bool found = false;

	while (f && fgets(line, sizeof(line), f)) {
		unsigned long long blocks, ms;
		const char *at = strstr(line, ".tier: ");
		const char *took = strstr(line, ", took ");
		if (!at || !took || sscanf(at, ".tier: %llu blocks recovered", &blocks) != 1 ||
		    sscanf(took, ", took %llu ms", &ms) != 1)
			continue;
		*out_blocks = blocks;
		*out_ms = ms;
		found = true;
	}
	if (f)
		fclose(f);
	if (!found)
		fprintf(stderr, "kvbench: kvd does not say what it recovered\n");
	return found ? 0 : -ENODATA;
}

/* As after a start of the machine. */
static void bench_restart_drop_cache(const struct restart *r)
{
	int fd = open(r->tier.file, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	(void)fdatasync(fd);
	(void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	close(fd);
}

static int bench_restart_once(struct restart *r, uint32_t i)
{
	uint64_t found = 0, ms = 0;
	double s = 0;

	bench_tier_end(&r->tier, SIGKILL);
	bench_restart_drop_cache(r);
	int rc = bench_tier_again(&r->tier, &s);
	r->ready_ms[i] = s * 1e3;
	if (rc == 0)
		rc = bench_restart_found(r, &found, &ms);
	r->read_ms[i] = (double)ms;
	if (rc == 0 && found != r->blocks) {
		fprintf(stderr, "kvbench: %llu of %llu blocks came back\n",
			(unsigned long long)found, (unsigned long long)r->blocks);
		return -ENODATA;
	}
	r->set =
		(struct bench_set){.seed = 1 + i % r->k->sets, .chains = 1, .blocks = r->k->blocks};
	if (rc == 0)
		rc = bench_tier_load(&r->tier, &r->set, &s);
	r->hit_ms[i] = s * 1e3;
	if (rc == 0)
		rc = bench_tier_check(&r->tier, &r->set);
	return rc ? rc : bench_tier_release(&r->tier, &r->set);
}

static void bench_restart_row(const struct restart *r, const char *what, double *ms, uint32_t n)
{
	char name[64];

	snprintf(name, sizeof(name), "%s, %s", r->k->name, what);
	bench_emit(r->b, &(struct bench_row){.bench = "restart",
					     .name = name,
					     .value = bench_median(ms, n),
					     .unit = "ms"});
}

static int bench_restart_room(const char *folder, uint64_t bytes)
{
	struct statvfs v;

	if (statvfs(folder, &v) < 0)
		return -errno;
	if ((uint64_t)v.f_bavail * v.f_frsize >= bytes + RESTART_SPARE_BYTES)
		return 0;
	fprintf(stderr, "kvbench: the disk of %s lacks room for %llu MiB: skipped, see --file\n",
		folder, (unsigned long long)(bytes / UNITS_MIB));
	return 1;
}

static int bench_restart_sizes(struct restart *r, const char *file, struct bench_tier_args *args)
{
	const struct restart_case *k = r->k;
	uint64_t at_once = (uint64_t)k->chains * k->blocks * k->page_bytes;
	uint64_t bytes = r->blocks * (4096 + k->page_bytes);
	char folder[640];

	*args = (struct bench_tier_args){
		.program = r->b->kvd_program,
		.file = file,
		.aio = "auto",
		.page_tokens = k->page_tokens,
		.page_bytes = k->page_bytes,
		.formats = k->formats,
		.pool_bytes = at_once + at_once / 8 + 1 * UNITS_GIB,
		.file_bytes = BITS_MAX(bytes + bytes / 16 + 1 * UNITS_GIB,
				       r->blocks * RESTART_FILE_BYTES_PER_BLOCK),
		.blocks_max = r->blocks + r->blocks / 4 + 65536,
	};
	snprintf(folder, sizeof(folder), "%s", file);
	char *slash = strrchr(folder, '/');
	if (slash)
		slash[1] = '\0';
	return bench_restart_room(slash ? folder : ".", args->file_bytes);
}

static int bench_restart_case(struct restart *r, const char *file)
{
	uint32_t n = BITS_MIN(r->b->repeat ? r->b->repeat : RESTART_REPEAT, RESTART_REPEAT_MAX);
	struct bench_tier_args args;

	r->blocks = (uint64_t)r->k->sets * r->k->chains * r->k->blocks;
	int rc = bench_restart_sizes(r, file, &args);
	if (rc != 0)
		return rc;
	rc = bench_tier_start(&r->tier, &args);
	if (rc == 0)
		rc = bench_restart_fill(r);
	for (uint32_t i = 0; i < n && rc == 0; i++)
		rc = bench_restart_once(r, i);
	bench_tier_stop(&r->tier);
	if (rc)
		return rc;
	bench_restart_row(r, "journal read", r->read_ms, n);
	bench_restart_row(r, "exec to ready", r->ready_ms, n);
	bench_restart_row(r, "a prefix from it", r->hit_ms, n);
	return 0;
}

int bench_restart_run(const struct bench *b)
{
	static const struct restart_case cases[] = {
		{"1000000 blocks", 16, 4096, 3, 10, 100, 1000},
		{"13600 blocks, 20 GB", 64, 1474560, 1, 10, 16, 85},
	};
	struct restart *r = calloc(1, sizeof(*r));
	char file[520];
	int rc = r ? 0 : -ENOMEM;

	if (rc < 0)
		return 1;
	/* The name by which the line in kvd's log is found. */
	snprintf(file, sizeof(file), "%s.tier", b->file ? b->file : "/var/tmp/kvbench");
	for (size_t i = 0; i < ARRAY_LEN(cases) && rc >= 0; i++) {
		*r = (struct restart){.b = b, .k = &cases[i]};
		if (bench_wanted(b, cases[i].name))
			rc = bench_restart_case(r, file);
	}
	free(r);
	return rc < 0 ? 1 : 0;
}
