/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing the journal of a file.
 *
 * Records are put behind one another into a buffer; a job writes it while the next one fills. One
 * job is under way at most, so bytes reach the file in the order in which they were put, and a
 * crash leaves a beginning of them. The job also syncs, at most once a second: the last second may
 * be lost. That makes what is found older and never wrong (file_recover.c), so nothing waits for
 * it. The lane is the file's own, as a disk that hangs keeps it.
 *
 * A checkpoint begins the other half anew. It walks the core a slice per turn, and what happens
 * meanwhile is appended behind what was walked: the last record of a slot is always the truth. END
 * and a sync make it complete; until then the other half is the one that counts, and so a
 * checkpoint only begins when the half before it is complete. The next one is due when three
 * quarters of the room behind END are used, and an eighth of the half was wanted: a nearly full
 * half is not copied for a handful of records.
 *
 * Memory is bounded: two buffers. When the worker cannot keep up, when the half is full, or after a
 * write failed, records are lost and counted, never waited for: the loop goes on and their blocks
 * are not found after a restart, which is all a journal of a cache is for. The next checkpoint has
 * them again, as it asks the core; it is made for that when the worker is back, or a while after.
 * A live set that does not fit a half is said once.
 *
 * The loop's thread; `write` belongs to the lane while `busy`, `last` from file_journal_close() on.
 */
#include "kvd/file_journal.h"
#include "base/assert.h"
#include "base/bits.h"
#include "base/log.h"
#include "base/units.h"
#include "kvd/crash.h"
#include "kvd/file_record.h"
#include "kvd/file_recover.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JOURNAL_BUFFER_BYTES (4u << 20)
#define JOURNAL_WRITE_BYTES (1u << 20) /* so many do not wait for the timer */
#define JOURNAL_SYNC_NS UNITS_NS_PER_S
#define JOURNAL_STOPPED_NS (100 * UNITS_NS_PER_MS)
#define JOURNAL_SLICE_NODES 256u
/* Free in the buffer before a slice: all its records and their formats, and as much again. */
#define JOURNAL_SLICE_BYTES (JOURNAL_BUFFER_BYTES / 2)
static_assert(JOURNAL_SLICE_NODES * (FILE_PUT_BYTES_MAX + FILE_FORMAT_BYTES_MAX) +
			      sizeof(struct file_end) <=
		      JOURNAL_SLICE_BYTES,
	      "a slice fits");

/* Bytes for one place in the file. */
struct journal_buffer {
	uint8_t *data;
	uint32_t bytes;
	uint64_t offset;
	uint64_t generation; /* of the half */
	bool end;	     /* END is in it */
};

struct journal_write {
	struct work_job job;
	const struct file *file;
	struct journal_buffer buffer;
	bool sync;
	int result;
};

struct file_journal {
	struct file_journal_config config;

	/* the half that is written */
	uint32_t half;
	uint64_t generation;
	uint64_t seed;
	uint64_t sequence; /* of the next record */
	uint64_t bytes;	   /* put into it */
	uint64_t room;	   /* behind its END */
	uint64_t wanted;   /* bytes of records since its END, lost ones too */
	uint32_t cursor;   /* of the walk */
	bool walking;
	bool complete; /* its END is on the disk */
	bool broken;   /* a write failed: nothing behind it could be read */
	bool too_small;
	uint8_t formats[FILE_FORMATS_MAX / 8]; /* that stand in it */

	struct journal_buffer fill;
	struct journal_write write;
	struct journal_write last;
	bool busy;
	bool late;	  /* it is busy for too long */
	bool excused;	  /* and so was the loop, once */
	uint64_t late_ns; /* when it will be */
	bool unsynced;
	bool missing; /* records that the worker had no time for were lost */
	uint64_t lost;
	int failed;
	bool warned;
	uint64_t now_ns;
	uint64_t filled_ns; /* when the first record was seen in the buffer; 0: not yet */
	uint64_t synced_ns;
	uint64_t retry_ns; /* not before this */
};

static uint64_t file_journal_half_bytes(const struct file_journal *j)
{
	return j->config.file->journal_bytes / 2;
}

/* --- writing ---------------------------------------------------------------------------------- */

static int file_journal_pwrite(int fd, const uint8_t *data, size_t bytes, uint64_t offset)
{
	while (bytes) {
		ssize_t n = pwrite(fd, data, bytes, (off_t)offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		data += n;
		bytes -= (size_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

/* On the lane. */
static void file_journal_write(struct journal_write *w)
{
	const struct journal_buffer *b = &w->buffer;

	CRASH_POINT(journal_write);
	if (b->end)
		CRASH_POINT(checkpoint_end);
	w->result = file_journal_pwrite(w->file->journal_fd, b->data, b->bytes, b->offset);
	if (w->result == 0 && w->sync && fdatasync(w->file->journal_fd) < 0)
		w->result = -errno;
	CRASH_POINT(journal_written);
	if (b->end)
		CRASH_POINT(checkpoint_done);
}

static void file_journal_run(struct work_job *job)
{
	file_journal_write(CONTAINER_OF(job, struct journal_write, job));
}

/* What was put and cannot be read any more is for the next checkpoint. */
static void file_journal_break(struct file_journal *j)
{
	j->broken = true;
	j->walking = false;
	j->fill.bytes = 0;
	j->fill.end = false;
	j->filled_ns = 0;
	j->retry_ns = j->now_ns + j->config.retry_ns;
}

static void file_journal_written(struct file_journal *j)
{
	const struct journal_write *w = &j->write;
	bool current = w->buffer.generation == j->generation;

	j->busy = j->late = false;
	if (w->result < 0) {
		/* The next one syncs. */
		j->unsynced = false;
		j->failed = w->result;
		if (current)
			file_journal_break(j);
		return;
	}
	j->unsynced = !w->sync;
	if (w->sync) {
		j->synced_ns = j->now_ns;
		j->failed = 0;
	}
	if (w->buffer.end && current) {
		j->complete = true;
		j->room = file_journal_half_bytes(j) - j->bytes;
	}
}

static void file_journal_done(struct work_job *job)
{
	struct journal_write *w = CONTAINER_OF(job, struct journal_write, job);

	file_journal_written(CONTAINER_OF(w, struct file_journal, write));
}

/* All that comes of it is in the file. */
static void file_journal_last_done(struct work_job *job)
{
}

/* Makes the full buffer the one to be written, and the other one the next to be filled. */
static void file_journal_swap(struct file_journal *j)
{
	struct journal_buffer full = j->fill;

	j->fill = (struct journal_buffer){
		.data = j->write.buffer.data,
		.offset = full.offset + full.bytes,
		.generation = full.generation,
	};
	j->write.buffer = full;
	j->write.sync = full.end || j->failed || j->now_ns - j->synced_ns >= JOURNAL_SYNC_NS;
	j->filled_ns = 0;
}

static void file_journal_submit(struct file_journal *j)
{
	ASSERT(!j->busy);
	file_journal_swap(j);
	j->busy = true;
	j->excused = false;
	j->late_ns = j->config.timeout_ns ? j->now_ns + j->config.timeout_ns : UINT64_MAX;
	work_submit_lane(j->config.work, j->config.lane, &j->write.job);
}

/* --- records ---------------------------------------------------------------------------------- */

/* Where a record of so many bytes may be put now, or NULL: it is lost. END has room of its own. */
static void *file_journal_room(struct file_journal *j, uint32_t bytes)
{
	uint64_t half = file_journal_half_bytes(j) - sizeof(struct file_end);

	j->wanted += bytes;
	if (j->broken)
		return NULL;
	if (j->bytes + bytes > half) {
		j->too_small = j->too_small || j->walking;
		return NULL;
	}
	if (j->fill.bytes + bytes > JOURNAL_BUFFER_BYTES - sizeof(struct file_end)) {
		if (j->busy) {
			j->missing = true;
			return NULL;
		}
		file_journal_submit(j);
	}
	return j->fill.data + j->fill.bytes;
}

/* The record that was written at the end of the buffer is one now. */
static void file_journal_append(struct file_journal *j, uint32_t bytes)
{
	file_record_seal(j->fill.data + j->fill.bytes, j->sequence++, j->seed);
	j->fill.bytes += bytes;
	j->bytes += bytes;
}

/* False: there is no room. */
static bool file_journal_format(struct file_journal *j, uint32_t format)
{
	char space[KVD_NAME_MAX], description[KVD_DESCRIPTION_MAX];
	struct kvd_format_wire wire;

	ASSERT(format < FILE_FORMATS_MAX);
	if (j->formats[format / 8] & 1u << format % 8)
		return true;
	void *out = file_journal_room(j, FILE_FORMAT_BYTES_MAX);
	if (!out)
		return false;
	core_format_wire(j->config.core, format, space, &wire, description);
	file_journal_append(j, file_record_format(out, format, space, &wire, description));
	j->formats[format / 8] |= (uint8_t)(1u << format % 8);
	return true;
}

void file_journal_add(struct file_journal *j, const struct core_record *record)
{
	void *out = NULL;
	uint32_t bytes = sizeof(struct file_drop);

	ASSERT(record->slot.area == j->config.area);
	if (record->put)
		bytes = file_record_put_bytes(record->token_count, record->extra_count);
	if (!record->put || file_journal_format(j, record->format))
		out = file_journal_room(j, bytes);
	if (!out) {
		j->lost++;
		return;
	}
	file_journal_append(j, record->put ? file_record_put(out, record)
					   : file_record_drop(out, &record->slot));
}

/* --- checkpoints ------------------------------------------------------------------------------ */

static void file_journal_begin(struct file_journal *j, uint32_t half)
{
	ASSERT(j->fill.bytes == 0);
	j->half = half;
	j->generation++;
	j->seed = file_record_seed(j->config.file->uuid, j->generation);
	j->sequence = 1;
	j->bytes = sizeof(struct file_half);
	j->cursor = 0;
	j->walking = true;
	j->complete = j->broken = j->too_small = j->missing = false;
	memset(j->formats, 0, sizeof(j->formats));
	file_record_half((struct file_half *)j->fill.data, j->config.file->uuid, j->generation);
	j->fill.bytes = sizeof(struct file_half);
	j->fill.generation = j->generation;
	j->fill.offset = j->config.file->journal_offset + half * file_journal_half_bytes(j);
	if (!j->busy)
		file_journal_submit(j);
	CRASH_POINT(checkpoint_begun);
}

static void file_journal_end(struct file_journal *j)
{
	file_journal_append(j, file_record_end(j->fill.data + j->fill.bytes));
	j->fill.end = true;
	j->walking = false;
	j->wanted = 0;
	if (!j->too_small || j->warned)
		return;
	j->warned = true;
	log_warn("file",
		 "%s: the journal is too small for so many small blocks: some will not be found "
		 "after a restart",
		 j->config.file->path);
}

static void file_journal_walked(void *ctx, const struct core_record *record)
{
	file_journal_add(ctx, record);
}

static bool file_journal_can_walk(const struct file_journal *j)
{
	return j->walking && JOURNAL_BUFFER_BYTES - j->fill.bytes >= JOURNAL_SLICE_BYTES;
}

static void file_journal_walk(struct file_journal *j)
{
	bool more = core_records(j->config.core, j->config.area, &j->cursor, JOURNAL_SLICE_NODES,
				 file_journal_walked, j);

	if (more && !j->too_small)
		CRASH_POINT(checkpoint_half);
	else
		file_journal_end(j);
}

/* The half is used up, or it lacks records that were lost. */
static bool file_journal_due(const struct file_journal *j)
{
	uint64_t used = BITS_MAX(j->room / 4 * 3, file_journal_half_bytes(j) / 8);

	if (!j->complete || j->broken)
		return false;
	return j->wanted >= used || (j->missing && j->now_ns >= j->retry_ns);
}

/* --- turns ------------------------------------------------------------------------------------ */

static bool file_journal_must_write(const struct file_journal *j)
{
	const struct journal_buffer *b = &j->fill;

	if (b->bytes == 0)
		return j->unsynced && j->now_ns - j->synced_ns >= JOURNAL_SYNC_NS;
	return b->end || b->bytes >= JOURNAL_WRITE_BYTES ||
	       j->now_ns - j->filled_ns >= FILE_JOURNAL_FLUSH_NS;
}

/* Who was stopped himself, and so looks long after it was due, looks once more. */
static void file_journal_clock(struct file_journal *j)
{
	if (!j->busy || j->late || j->now_ns < j->late_ns)
		return;
	uint64_t over_ns = j->now_ns - j->late_ns;
	if (over_ns > JOURNAL_STOPPED_NS && !j->excused)
		j->late_ns = j->now_ns + BITS_MIN(over_ns, j->config.timeout_ns);
	else
		j->late = true;
	j->excused = true;
}

void file_journal_turn(struct file_journal *j, uint64_t now_ns)
{
	j->now_ns = now_ns;
	file_journal_clock(j);
	if (j->broken && !j->busy && now_ns >= j->retry_ns)
		file_journal_begin(j, j->complete ? j->half ^ 1 : j->half);
	if (file_journal_due(j)) {
		/* What is left belongs to the half before. */
		if (j->fill.bytes && !j->busy)
			file_journal_submit(j);
		if (j->fill.bytes == 0) {
			j->retry_ns = now_ns + j->config.retry_ns;
			file_journal_begin(j, j->half ^ 1);
		}
	}
	if (file_journal_can_walk(j))
		file_journal_walk(j);
	if (j->fill.bytes && j->filled_ns == 0)
		j->filled_ns = now_ns;
	if (!j->busy && file_journal_must_write(j))
		file_journal_submit(j);
}

/* The end of a job wakes the loop by itself. */
uint64_t file_journal_deadline_ns(const struct file_journal *j)
{
	uint64_t at = UINT64_MAX;

	if (file_journal_can_walk(j))
		return 0;
	if (j->busy)
		return j->late ? UINT64_MAX : j->late_ns;
	if (file_journal_due(j) || (j->fill.bytes && j->filled_ns == 0))
		return 0;
	if (j->broken || (j->missing && j->complete))
		at = j->retry_ns;
	if (j->fill.bytes)
		at = BITS_MIN(at, j->filled_ns + FILE_JOURNAL_FLUSH_NS);
	if (j->unsynced)
		at = BITS_MIN(at, j->synced_ns + JOURNAL_SYNC_NS);
	return at;
}

int file_journal_state(const struct file_journal *j)
{
	return j->late ? -ETIMEDOUT : j->failed;
}

uint64_t file_journal_lost(const struct file_journal *j)
{
	return j->lost;
}

/* --- life ------------------------------------------------------------------------------------- */

int file_journal_new(struct file_journal **out, const struct file_journal_config *config,
		     struct file_found *found, char *error, size_t size)
{
	struct file_recovered recovered = {0};
	struct file_journal *j = calloc(1, sizeof(*j));
	const struct file *f = config->file;
	int r = j ? 0 : -ENOMEM;

	*found = (struct file_found){0};
	if (r == 0) {
		*j = (struct file_journal){
			.config = *config,
			.fill.data = malloc(JOURNAL_BUFFER_BYTES),
			.write = {.job = {.run = file_journal_run, .done = file_journal_done},
				  .file = f,
				  .buffer.data = malloc(JOURNAL_BUFFER_BYTES)},
			.last = {.job = {.run = file_journal_run, .done = file_journal_last_done},
				 .file = f,
				 .sync = true},
		};
		list_init(&j->write.job.link);
		list_init(&j->last.job.link);
		if (!j->fill.data || !j->write.buffer.data)
			r = -ENOMEM;
	}
	if (r == 0 && !f->fresh)
		r = file_recover(f, config->area, config->core, found, &recovered);
	if (r < 0) {
		snprintf(error, size, "file %s: its journal: %s", f->path, strerror(-r));
		file_journal_free(j);
		return r;
	}
	j->now_ns = units_now_ns();
	j->generation = recovered.generation;
	file_journal_begin(j, recovered.half);
	*out = j;
	return 0;
}

void file_journal_close(struct file_journal *j)
{
	if (!j || !(j->fill.bytes || j->unsynced || j->busy))
		return;
	j->last.buffer = j->fill;
	work_submit_lane(j->config.work, j->config.lane, &j->last.job);
}

void file_journal_free(struct file_journal *j)
{
	if (!j)
		return;
	/* Nobody took them when the lane had ended: they have run. */
	list_remove(&j->write.job.link);
	list_remove(&j->last.job.link);
	if (j->lost)
		log_info("file", "%s: %llu records of the journal were not written",
			 j->config.file->path, (unsigned long long)j->lost);
	free(j->fill.data);
	free(j->write.buffer.data);
	free(j);
}
