/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns what lies below the devices, and keeps the order of its start and end.
 *
 * Start: files, their I/O, DRAM, the mover; then the core, which must know how large all is; then
 * each file's journal gives the core what was there before, and only then does anybody connect.
 *
 * End: what has begun may end, and the core still hears of it, so that the journal has it; then the
 * core hears nothing more, and what is still under way is cancelled; then the journals write their
 * last records and the files are closed. A disk that does not answer is not waited for: its memory
 * is left to it.
 *
 * Files are disks, and a disk may hang: nothing that waits for one is shared with another. Each has
 * an aio and, for its journal, a lane of the workers.
 *
 * A private child has no files: they are one daemon's, and a child comes and goes with its engine.
 */
#include "kvd/tiers.h"
#include "base/bits.h"
#include "base/log.h"
#include "base/units.h"
#include "kvd/hostmem.h"
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>

#define TIERS_AIO_DEPTH 64u
#define TIERS_DRAIN_NS (2 * UNITS_NS_PER_S)
#define TIERS_JOURNAL_RETRY_NS (10 * UNITS_NS_PER_S)
#define TIERS_DRAM_PER_POOL 8u /* more than so many pools is not taken without being asked for */

/* --- what there will be -------------------------------------------------------------------------
 */

static bool tiers_private(const struct options *o)
{
	return o->socket_fd >= 0;
}

static uint64_t tiers_dram_bytes(const struct options *o, bool gpu, const struct core_config *c)
{
	if (o->dram_bytes != UINT64_MAX)
		return o->dram_bytes;
	if (!gpu || tiers_private(o))
		return 0;
	return BITS_MIN(hostmem_pool_default(), TIERS_DRAM_PER_POOL * core_pool_bytes(c));
}

static void tiers_config_dram(struct core_config *config, uint64_t bytes)
{
	struct core_tier_config *c = &config->tiers[CORE_TIER_DRAM];

	if (bytes < DRAM_SEGMENT_BYTES_MIN)
		return;
	c->area_count = 1;
	c->segment_bytes = dram_segment_bytes(bytes);
	c->area_segments[0] = (uint32_t)(bytes / c->segment_bytes);
}

static void tiers_config_file(struct core_config *config, uint32_t segment_count)
{
	struct core_tier_config *c = &config->tiers[CORE_TIER_FILE];

	c->segment_bytes = FILE_SEGMENT_BYTES;
	c->area_segments[c->area_count++] = segment_count;
}

void tiers_expect(const struct options *o, bool gpu, struct core_config *config)
{
	tiers_config_dram(config, tiers_dram_bytes(o, gpu, config));
	for (uint32_t i = 0; i < o->file_count && !tiers_private(o); i++) {
		uint64_t bytes = o->files[i].bytes;
		struct stat st;
		if (bytes == 0 && stat(o->files[i].path, &st) == 0)
			bytes = (uint64_t)st.st_size;
		tiers_config_file(config, (uint32_t)(bytes / FILE_SEGMENT_BYTES));
	}
}

/* --- start --------------------------------------------------------------------------------------
 */

static int tiers_open_files(struct tiers *t, const struct options *o, struct core_config *config,
			    char *error, size_t size)
{
	char bytes[32];

	for (uint32_t i = 0; i < o->file_count; i++) {
		struct file *f = &t->files[i];
		int r = file_open(f, o->files[i].path, o->files[i].bytes, error, size);
		if (r < 0)
			return r;
		t->file_count++;
		tiers_config_file(config, f->segment_count);
		log_info("tiers", "file %s: %s%s in %u segments%s", f->path,
			 f->fresh ? "made, " : "",
			 units_format_bytes(f->bytes, bytes, sizeof(bytes)), f->segment_count,
			 f->buffered ? ", buffered: its file system has no O_DIRECT" : "");
	}
	return 0;
}

static int tiers_open_aio(struct tiers *t, const struct options *o, uint32_t i, char *error,
			  size_t size)
{
	enum aio_kind kind = AIO_AUTO;
	char why[256] = "";

	if (strcmp(o->aio, "io_uring") == 0)
		kind = AIO_URING;
	else if (strcmp(o->aio, "threads") == 0)
		kind = AIO_THREADS;
	int r = aio_new(&t->aios[i], kind, TIERS_AIO_DEPTH, why, sizeof(why));
	if (r < 0) {
		snprintf(error, size, "--aio %s: %s", o->aio, why[0] ? why : strerror(-r));
		return r;
	}
	if (i == 0)
		log_info("tiers", "file I/O by %s", why);
	(void)aio_register(t->aios[i], &t->files[i].fd, 1);
	return 0;
}

static int tiers_open_lane(struct tiers *t, uint32_t i, char *error, size_t size)
{
	int r = work_lane_new(t->work);

	if (r < 0) {
		snprintf(error, size, "a thread for a file: %s", strerror(-r));
		return r;
	}
	if (i == 0)
		t->lane = (uint32_t)r;
	return 0;
}

/* What each file has of its own. */
static int tiers_open_io(struct tiers *t, const struct options *o, char *error, size_t size)
{
	int r = 0;

	t->journal_timeout_ns = o->file_timeout_ns;
	t->journal_retry_ns = BITS_MIN(TIERS_JOURNAL_RETRY_NS, o->file_retry_ns);
	for (uint32_t i = 0; i < t->file_count && r == 0; i++) {
		r = tiers_open_aio(t, o, i, error, size);
		if (r == 0)
			r = tiers_open_lane(t, i, error, size);
	}
	return r;
}

static void tiers_done(void *ctx, uint32_t id, int result)
{
	struct tiers *t = ctx;

	core_transfer_done(t->core, id, result, t->now_ns);
}

static void tiers_late(void *ctx, uint32_t id)
{
	struct tiers *t = ctx;

	core_transfer_late(t->core, id, t->now_ns);
}

static void tiers_area_down(void *ctx, enum core_tier_kind tier, uint32_t area, bool down)
{
	struct tiers *t = ctx;

	core_area_down(t->core, tier, area, down);
}

static int tiers_open_mover(struct tiers *t, const struct options *o, struct devmem *devmem,
			    struct work *work, char *error, size_t size)
{
	static const struct mover_events events = {
		.done = tiers_done, .late = tiers_late, .area_down = tiers_area_down};
	struct mover_config config = {.devmem = devmem,
				      .work = work,
				      .aios = t->aios,
				      .files = t->files,
				      .file_count = t->file_count,
				      .dram = t->dram.map,
				      .dram_bytes = t->dram.bytes,
				      .file_timeout_ns = o->file_timeout_ns,
				      .file_retry_ns = o->file_retry_ns,
				      .device_timeout_ns = o->device_timeout_ns,
				      .throttle_bytes_per_s = o->file_throttle,
				      .events = &events,
				      .ctx = t};

	return mover_new(&t->mover, &config, error, size);
}

int tiers_open(struct tiers *t, const struct options *o, struct devmem *devmem, struct work *work,
	       struct core_config *config, char *error, size_t size)
{
	bool gpu = devmem->ops->kind != KVD_SLAB_HOST;
	uint64_t dram_bytes = tiers_dram_bytes(o, gpu, config);
	int r = 0;

	t->work = work;
	if (o->file_count && tiers_private(o))
		log_warn("tiers", "--file is not for a private child: it keeps nothing");
	else
		r = tiers_open_files(t, o, config, error, size);
	if (r == 0)
		r = tiers_open_io(t, o, error, size);
	if (r == 0 && dram_bytes >= DRAM_SEGMENT_BYTES_MIN)
		r = dram_init(&t->dram, dram_bytes, devmem, error, size);
	tiers_config_dram(config, t->dram.bytes);
	if (r == 0 && (t->file_count || t->dram.map))
		r = tiers_open_mover(t, o, devmem, work, error, size);
	return r;
}

static void tiers_say_found(const struct tiers *t, uint32_t i, const struct file_found *found)
{
	static struct kvd_status status; /* large; at start, on one thread */
	char bytes[32] = "";

	core_status(t->core, &status);
	for (uint32_t k = 0; k < status.area_count; k++)
		if (status.areas[k].tier == KVD_TIER_FILE && status.areas[k].area == i)
			units_format_bytes(status.areas[k].used_bytes, bytes, sizeof(bytes));
	log_info("tiers", "file %s: %llu blocks recovered, %s, %llu refused, took %llu ms%s",
		 t->files[i].path, (unsigned long long)found->blocks, bytes,
		 (unsigned long long)found->refused,
		 (unsigned long long)(found->took_ns / UNITS_NS_PER_MS),
		 found->torn ? "; the journal's end was torn" : "");
}

/* To sync a file that goes through the page cache takes as long as that has to write. */
static struct file_journal_config tiers_journal(const struct tiers *t, uint32_t i)
{
	return (struct file_journal_config){
		.file = &t->files[i],
		.area = i,
		.core = t->core,
		.work = t->work,
		.lane = t->lane + i,
		.timeout_ns = t->files[i].buffered ? 0 : t->journal_timeout_ns,
		.retry_ns = t->journal_retry_ns,
	};
}

int tiers_recover(struct tiers *t, struct core *core, char *error, size_t size)
{
	int r = 0;

	t->core = core;
	for (uint32_t i = 0; i < t->file_count && r == 0; i++) {
		struct file_journal_config config = tiers_journal(t, i);
		struct file_found found = {0};
		r = file_journal_new(&t->journals[i], &config, &found, error, size);
		if (r == 0 && !t->files[i].fresh)
			tiers_say_found(t, i, &found);
	}
	return r;
}

/* --- turns --------------------------------------------------------------------------------------
 */

void tiers_transfer(struct tiers *t, const struct core_transfer *transfer)
{
	mover_start(t->mover, transfer);
}

/* What is said before the journal is there is about what is just being read from it. */
void tiers_record(struct tiers *t, const struct core_record *record)
{
	struct file_journal *j = t->journals[record->slot.area];

	if (j)
		file_journal_add(j, record);
}

/* tiers_turn() does it all; this only wakes the loop. */
static void tiers_ready(struct loop_source *source, uint32_t events)
{
}

int tiers_add_to_loop(struct tiers *t, struct loop *loop)
{
	int r = 0;

	for (uint32_t i = 0; i < t->file_count && r == 0; i++)
		r = loop_add(loop, &t->ready[i], aio_fd(t->aios[i]), EPOLLIN, tiers_ready);
	return r;
}

uint32_t tiers_turn(struct tiers *t, uint64_t now_ns)
{
	if (!t->mover)
		return 0;
	t->now_ns = now_ns;
	for (uint32_t i = 0; i < t->file_count; i++)
		(void)aio_turn(t->aios[i], now_ns);
	uint32_t told = mover_turn(t->mover, now_ns);
	for (uint32_t i = 0; i < t->file_count; i++) {
		file_journal_turn(t->journals[i], now_ns);
		mover_file_journal(t->mover, i, file_journal_state(t->journals[i]));
	}
	return told;
}

void tiers_flush(struct tiers *t, uint64_t now_ns)
{
	for (uint32_t i = 0; i < t->file_count; i++)
		if (aio_pending(t->aios[i]))
			(void)aio_turn(t->aios[i], now_ns);
}

uint64_t tiers_deadline_ns(const struct tiers *t)
{
	uint64_t at_ns = t->mover ? mover_deadline_ns(t->mover) : UINT64_MAX;

	for (uint32_t i = 0; i < t->file_count; i++) {
		at_ns = BITS_MIN(at_ns, aio_deadline_ns(t->aios[i]));
		at_ns = BITS_MIN(at_ns, file_journal_deadline_ns(t->journals[i]));
	}
	return at_ns;
}

void tiers_stat(const struct tiers *t, struct kvd_status *status)
{
	if (t->mover)
		mover_stat(t->mover, status->areas, status->area_count);
}

/* --- the end ------------------------------------------------------------------------------------
 */

void tiers_close(struct tiers *t)
{
	if (t->mover)
		mover_close(t->mover);
}

uint32_t tiers_pending(const struct tiers *t)
{
	return t->mover ? mover_awaited(t->mover) : 0;
}

/* False: something on the file goes on. All files together get until end_ns. */
static bool tiers_stop_aio(struct tiers *t, uint32_t i, uint64_t end_ns)
{
	uint64_t now_ns = units_now_ns();

	if (!t->aios[i] || aio_drain(t->aios[i], end_ns > now_ns ? end_ns - now_ns : 0) == 0)
		return true;
	log_warn("tiers", "file %s: %u operations do not end: they are left to the kernel",
		 t->files[i].path, aio_pending(t->aios[i]));
	t->stuck = true;
	return false;
}

static void tiers_stop_lanes(struct tiers *t)
{
	uint32_t count = 0;

	while (count < t->file_count && t->journals[count])
		count++;
	if (count == 0 || work_lanes_stop(t->work, t->lane, count) == 0)
		return;
	t->stuck = true;
	for (uint32_t i = 0; i < count; i++)
		if (!work_lane_ended(t->work, t->lane + i))
			log_warn("tiers", "file %s: its journal's last write does not end",
				 t->files[i].path);
}

void tiers_stop(struct tiers *t)
{
	uint64_t end_ns = units_now_ns() + TIERS_DRAIN_NS;

	if (t->mover)
		mover_mute(t->mover);
	for (uint32_t i = 0; i < t->file_count; i++)
		if (tiers_stop_aio(t, i, end_ns))
			file_journal_close(t->journals[i]);
	tiers_stop_lanes(t);
}

void tiers_fini(struct tiers *t, bool hung)
{
	if (hung || t->stuck)
		return;
	for (uint32_t i = 0; i < t->file_count; i++) {
		file_journal_free(t->journals[i]);
		aio_free(t->aios[i]);
		file_close(&t->files[i]);
	}
	mover_free(t->mover);
	dram_fini(&t->dram);
	*t = (struct tiers){0};
}
