/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a transfer. The core gives it a number, which is its place in a table; it goes from
 * step to step (mover_inside.h) and belongs, within a step, to whoever carries it out: a worker, a
 * GPU's lane, aio. All of it happens on the loop but for the bytes.
 *
 * Its end is told in mover_turn() and nowhere else: never from within a call of the core, because
 * the core may start the next transfer, under the same number, as soon as it hears. By then
 * everything that the transfer held is free.
 *
 * What takes too long is late: the core is told once, and everything stays where it is until the
 * step ends after all. aio has clocks of its own; here are those for GPUs and staging memory.
 */
#include "base/assert.h"
#include "base/bits.h"
#include "base/units.h"
#include "kvd/mover_inside.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- steps --------------------------------------------------------------------------------------
 */

static void mover_end(struct mover_transfer *t)
{
	list_push_back(&t->mover->over, &t->link);
}

/* A worker was through with it. */
static void mover_job_done(struct work_job *job)
{
	mover_go(CONTAINER_OF(job, struct mover_transfer, job));
}

/*
 * Who decodes on these processors is not to wait for the checksum of a block that leaves: nobody
 * waits for that, and one thread sums as fast as files take it.
 */
static void mover_job(struct mover_transfer *t)
{
	struct mover *m = t->mover;

	t->job.run = mover_bytes_run;
	t->job.done = mover_job_done;
	if (t->what.kind == CORE_TRANSFER_STORE)
		work_submit_lane(m->config.work, (uint32_t)m->store_lane, &t->job);
	else
		work_submit(m->config.work, &t->job);
}

void mover_go(struct mover_transfer *t)
{
	static void (*const begin[])(struct mover_transfer *) = {
		[MOVER_END] = mover_end,	 [MOVER_STAGE] = mover_stage_take,
		[MOVER_READ] = mover_file_begin, [MOVER_WRITE] = mover_file_begin,
		[MOVER_LANE] = mover_lane_begin, [MOVER_COPY] = mover_job,
		[MOVER_CHECK] = mover_job,	 [MOVER_FILL] = mover_job,
	};

	begin[t->result < 0 ? MOVER_END : t->steps[t->at]](t);
}

void mover_next(struct mover_transfer *t, int result)
{
	t->result = result;
	t->at++;
	mover_go(t);
}

void mover_late(struct mover_transfer *t)
{
	if (t->late)
		return;
	t->late = true;
	t->mover->late_count++;
}

void mover_time(struct mover_transfer *t, uint64_t timeout_ns)
{
	ASSERT(!t->timed);
	t->timed = true;
	t->late_ns = units_now_ns() + timeout_ns;
	t->mover->timed_count++;
}

void mover_time_stop(struct mover_transfer *t)
{
	t->mover->timed_count -= t->timed;
	t->timed = false;
}

/* --- start and end ------------------------------------------------------------------------------
 */

void mover_start(struct mover *m, const struct core_transfer *transfer)
{
	ASSERT(transfer->id < MOVER_TRANSFERS_MAX);
	struct mover_transfer *t = &m->table[transfer->id];
	void *own_header = t->own_header;

	ASSERT(!t->taken);
	if (m->closed)
		return;
	*t = (struct mover_transfer){
		.mover = m, .what = *transfer, .own_header = own_header, .taken = true};
	list_init(&t->link);
	m->pending++;
	t->result = mover_plan(t);
	mover_go(t);
}

/* Errors of files are counted where they happen: what fails here on its way is not theirs. */
static void mover_free_transfer(struct mover_transfer *t)
{
	struct mover *m = t->mover;

	mover_stage_give(t);
	for (uint32_t i = 0; t->has_pages && i < t->what.part_count; i++)
		devmem_page_end(m->config.devmem, t->what.pages[i]);
	if (t->what.slot.tier == CORE_TIER_DRAM && t->result < 0 && t->result != -EBADMSG)
		m->dram_errors++;
	m->late_count -= t->late && !t->late_told;
	m->hopeless -= t->late_told;
	m->pending--;
	t->taken = false;
}

static uint32_t mover_tell_over(struct mover *m)
{
	uint32_t told = 0;

	while (!list_empty(&m->over) && !m->muted) {
		struct mover_transfer *t = CONTAINER_OF(m->over.next, struct mover_transfer, link);
		list_remove(&t->link);
		mover_free_transfer(t);
		m->config.events->done(m->config.ctx, t->what.id, t->result);
		told++;
	}
	return told;
}

static void mover_check_time(struct mover_transfer *t, uint64_t now_ns)
{
	if (!t->timed || t->late_ns > now_ns)
		return;
	mover_time_stop(t);
	mover_late(t);
	if (t->steps[t->at] == MOVER_LANE)
		mover_lane_late(t);
}

static uint32_t mover_tell_late(struct mover *m, uint64_t now_ns)
{
	uint32_t told = 0;

	if (m->timed_count == 0 && m->late_count == 0)
		return 0;
	for (uint32_t i = 0; i < MOVER_TRANSFERS_MAX && !m->muted; i++) {
		struct mover_transfer *t = &m->table[i];
		if (!t->taken)
			continue;
		mover_check_time(t, now_ns);
		if (!t->late || t->late_told)
			continue;
		t->late_told = true;
		m->late_count--;
		m->hopeless++;
		m->config.events->late(m->config.ctx, i);
		told++;
	}
	return told;
}

static uint32_t mover_tell_down(struct mover *m)
{
	uint32_t told = 0;

	for (uint32_t i = 0; i < m->config.file_count && !m->muted; i++) {
		struct mover_area *a = &m->areas[i];
		if (a->down == a->down_told)
			continue;
		a->down_told = a->down;
		m->config.events->area_down(m->config.ctx, CORE_TIER_FILE, i, a->down);
		told++;
	}
	return told;
}

uint32_t mover_turn(struct mover *m, uint64_t now_ns)
{
	for (uint32_t i = 0; i < m->config.file_count; i++) {
		mover_file_turn(&m->areas[i], now_ns);
		mover_area_turn(&m->areas[i], now_ns);
	}
	uint32_t told = mover_tell_down(m);
	told += mover_tell_late(m, now_ns);
	return told + mover_tell_over(m);
}

uint64_t mover_deadline_ns(const struct mover *m)
{
	uint64_t at_ns = UINT64_MAX;

	if (m->muted)
		return at_ns;
	if (!list_empty(&m->over) || m->late_count)
		return 0;
	for (uint32_t i = 0; m->timed_count && i < MOVER_TRANSFERS_MAX; i++)
		if (m->table[i].timed)
			at_ns = BITS_MIN(at_ns, m->table[i].late_ns);
	for (uint32_t i = 0; i < m->config.file_count; i++) {
		if (m->areas[i].down != m->areas[i].down_told)
			return 0;
		at_ns = BITS_MIN(at_ns, mover_file_deadline_ns(&m->areas[i]));
		at_ns = BITS_MIN(at_ns, mover_area_deadline_ns(&m->areas[i]));
	}
	return at_ns;
}

uint32_t mover_pending(const struct mover *m)
{
	uint32_t n = m->pending;

	for (uint32_t i = 0; i < m->config.file_count; i++)
		n += m->areas[i].probing;
	return n;
}

uint32_t mover_awaited(const struct mover *m)
{
	uint32_t n = mover_pending(m) - m->hopeless;

	for (uint32_t i = 0; i < m->config.file_count; i++)
		n -= m->areas[i].probe_late;
	return n;
}

void mover_close(struct mover *m)
{
	m->closed = true;
}

void mover_mute(struct mover *m)
{
	m->closed = true;
	m->muted = true;
}

void mover_file_journal(struct mover *m, uint32_t area, int state)
{
	ASSERT(area < m->config.file_count);
	mover_area_journal(&m->areas[area], state);
}

/* --- figures ------------------------------------------------------------------------------------
 */

static void mover_stat_file(const struct mover *m, struct kvd_area_stat *s)
{
	const struct mover_area *a = &m->areas[s->area];
	const char *path = a->file->path;
	size_t bytes = strlen(path), room = sizeof(s->path) - 1;

	s->state = a->down ? KVD_AREA_DEGRADED : KVD_AREA_OK;
	s->errors = a->errors;
	snprintf(s->engine, sizeof(s->engine), "%s", aio_name(m->config.aios[s->area]));
	snprintf(s->path, sizeof(s->path), "%s", path + (bytes > room ? bytes - room : 0));
}

void mover_stat(const struct mover *m, struct kvd_area_stat *areas, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct kvd_area_stat *s = &areas[i];
		if (s->tier == KVD_TIER_FILE && s->area < m->config.file_count) {
			mover_stat_file(m, s);
		} else if (s->tier == KVD_TIER_DRAM) {
			s->errors = m->dram_errors;
			snprintf(s->engine, sizeof(s->engine), "memory");
		}
	}
}

/* --- all of it ----------------------------------------------------------------------------------
 */

static int mover_init_table(struct mover *m)
{
	m->table = calloc(MOVER_TRANSFERS_MAX, sizeof(*m->table));
	m->headers =
		aligned_alloc(FILE_HEADER_BYTES, (size_t)MOVER_TRANSFERS_MAX * FILE_HEADER_BYTES);
	if (!m->table || !m->headers)
		return -ENOMEM;
	for (uint32_t i = 0; i < MOVER_TRANSFERS_MAX; i++)
		m->table[i].own_header = m->headers + (size_t)i * FILE_HEADER_BYTES;
	return 0;
}

int mover_new(struct mover **out, const struct mover_config *config, char *error, size_t size)
{
	struct mover *m = calloc(1, sizeof(*m));
	int r = m ? 0 : -ENOMEM;

	if (r < 0)
		return r;
	m->config = *config;
	m->gpu = config->devmem->ops->kind != KVD_SLAB_HOST;
	list_init(&m->over);
	mover_lane_init(m);
	r = mover_init_table(m);
	if (r == 0)
		r = m->store_lane = work_lane_new_background(config->work);
	r = BITS_MIN(r, 0);
	for (uint32_t i = 0; r == 0 && i < config->file_count; i++)
		r = mover_area_init(m, i);
	if (r == 0)
		r = mover_stage_init(m, error, size);
	if (r == 0)
		*out = m;
	else
		mover_free(m);
	return r;
}

void mover_free(struct mover *m)
{
	if (!m)
		return;
	mover_stage_fini(m);
	for (uint32_t i = 0; i < m->config.file_count; i++)
		mover_area_fini(&m->areas[i]);
	free(m->headers);
	free(m->table);
	free(m);
}
