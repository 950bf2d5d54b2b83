/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of tiers do again and again. Status figures are up to 100 ms old: they are waited
 * for. */
#include "tests/e2e/tier_run.h"

#include "tests/test.h"
#include <base/atomic.h>
#include <base/units.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#define TIER_RUN_OPTIONS_MAX 16

void tier_run_init(struct tier_run *t, const char *aio)
{
	*t = (struct tier_run){0};
	harness_init(&t->kvd);
	snprintf(t->file, sizeof(t->file), "%s/tier", t->kvd.dir);
	snprintf(t->option, sizeof(t->option), "--file=%s", t->file);
	snprintf(t->aio, sizeof(t->aio), "--aio=%s", aio);
}

void tier_run_faults(struct tier_run *t, const char *name)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/fault", t->kvd.dir);
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, sizeof(*t->fault)), 0);
	t->fault = mmap(NULL, sizeof(*t->fault), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(t->fault, MAP_FAILED);
	close(fd);
	snprintf(t->fault->path, sizeof(t->fault->path), "/%s", name);
	setenv("KVD_FAULT_FILE", path, 1);
	assert_non_null(getenv("FAULT_SHIM"));
}

void tier_run_fault(struct tier_run *t, struct fault fault)
{
	/* Whoever hangs goes on first. */
	atomic_store_release(&t->fault->kind, (uint32_t)FAULT_NONE);
	t->fault->calls = fault.calls;
	t->fault->error = fault.error;
	t->fault->delay_ms = fault.delay_ms;
	t->fault->from = fault.from;
	t->fault->limit = fault.limit;
	atomic_store_relaxed(&t->fault->seen, (uint64_t)0);
	atomic_store_relaxed(&t->fault->had, (uint64_t)0);
	/* Partner: fault_now() in fault_shim.c. */
	atomic_store_release(&t->fault->kind, fault.kind);
}

void tier_run_fini(struct tier_run *t)
{
	if (t->fault) {
		tier_run_fault(t, (struct fault){0});
		munmap(t->fault, sizeof(*t->fault));
	}
	harness_client_end(&t->client, SIGKILL);
	harness_fini(&t->kvd);
}

void tier_run_start(struct tier_run *t, const char *const options[])
{
	const char *all[TIER_RUN_OPTIONS_MAX] = {"--pool-bytes=2MiB", "--session-share=100",
						 t->option,	      NULL,
						 "--file-store=all",  t->aio};
	int n = 6;

	all[3] = t->bytes ? t->bytes : "--file-bytes=256MiB";
	for (int i = 0; options && options[i]; i++) {
		assert_true(n + 1 < TIER_RUN_OPTIONS_MAX);
		all[n++] = options[i];
	}
	if (t->fault)
		setenv("LD_PRELOAD", getenv("FAULT_SHIM"), 1);
	harness_start(&t->kvd, all);
	unsetenv("LD_PRELOAD");
	harness_client(&t->client, &t->kvd, NULL, NULL);
	assert_true(harness_is(&t->client, "ok"));
}

void tier_run_end(struct tier_run *t, int sig)
{
	if (sig == SIGTERM)
		harness_client_bye(&t->client);
	int status = harness_end(&t->kvd, sig);
	harness_client_end(&t->client, SIGKILL);
	assert_int_equal(status, sig == SIGTERM ? 0 : 128 + sig);
}

void tier_run_text(struct tier_run *t, const char *text)
{
	harness_ask(&t->client, "acquire t %s 0 20000", text);
	assert_true(harness_is(&t->client, "ok"));
	harness_ask(&t->client, "run t");
	assert_true(harness_is(&t->client, "ok"));
	harness_ask(&t->client, "verify t");
	assert_int_equal(harness_field(&t->client, "wrong"), 0);
	harness_ask(&t->client, "release t");
}

void tier_run_push_out(struct tier_run *t)
{
	/* Each is nearly as large as the pool: whatever the policy is, two leave nothing else. */
	tier_run_text(t, "8:8000");
	tier_run_text(t, "9:8000");
}

struct kvd_area_stat tier_run_area(const struct tier_run *t)
{
	static struct kvd_status s;

	harness_status(&t->kvd, &s);
	for (uint32_t i = 0; i < s.area_count; i++)
		if (s.areas[i].tier == KVD_TIER_FILE)
			return s.areas[i];
	return (struct kvd_area_stat){0};
}

void tier_run_settle(struct tier_run *t, uint64_t blocks)
{
	uint64_t end_ns = units_now_ns() + HARNESS_WAIT_MS * UNITS_NS_PER_MS;
	struct kvd_area_stat a = {0};
	uint32_t quiet = 0;

	/* Twice, a few status updates apart: one finds the moment between two transfers, too. */
	while (quiet < 3 && units_now_ns() < end_ns) {
		usleep(120000);
		a = tier_run_area(t);
		quiet = a.queue == 0 && a.blocks >= blocks ? quiet + 1 : 0;
	}
	if (quiet < 3)
		fail_msg("%llu blocks in the tier of %llu, %u on their way",
			 (unsigned long long)a.blocks, (unsigned long long)blocks, a.queue);
}

uint64_t tier_run_counter(const struct tier_run *t, enum kvd_counter counter)
{
	static struct kvd_status s;

	/* The next update is the first that is surely later than what was done before. */
	harness_status(&t->kvd, &s);
	uint64_t seen_ns = s.updated_ns;
	for (int i = 0; i < 100 && s.updated_ns == seen_ns; i++) {
		usleep(10000);
		harness_status(&t->kvd, &s);
	}
	return s.counters[counter];
}
