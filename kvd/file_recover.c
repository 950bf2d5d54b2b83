/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the bytes of a journal to blocks in the core.
 *
 * A record is a statement about a slot that was true when it was written, and the last one about a
 * slot wins. A half that has its END knows all slots and is enough. The newer half may lack it, as
 * after a crash within a checkpoint: then the older one is read first and the newer one over it,
 * which is sound as its records were appended later, in order. What the crash took with it makes
 * the picture old, never wrong: a slot that has since been written has another header, and is a
 * miss when it is loaded.
 *
 *   1. scan    each half that is needed, up to the first bad record
 *   2. apply   its records, in order: a hash table from slot to the last PUT of it
 *   3. hand    formats to the core, then blocks in the order of their depth: a counting sort
 *
 * The file is mapped, which costs no memory and makes the third step cheap: records are wanted one
 * here and one there. But each piece is read once before it is looked at, so that a disk that fails
 * gives an error and not a signal; what was read a moment ago is not read from the disk again,
 * short of a machine without any memory. The lock and the rights of the file keep others from
 * writing, and each step checks again what it uses. Memory of our own is some 50 bytes for each
 * slot, given back at the end. A position in the mapping is 8-aligned and below 2^31: `at` is a
 * position / 8. The main thread, before the loop.
 */
#include "kvd/file_recover.h"
#include "base/assert.h"
#include "base/bits.h"
#include "base/log.h"
#include "base/units.h"
#include "kvd/file_record.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RECOVER_READ_BYTES (1u << 20)
#define RECOVER_SLOTS_MIN 1024u
#define RECOVER_AT_EMPTY 0u
#define RECOVER_AT_DROPPED 1u /* below each record: a half begins with a header */
#define RECOVER_AHEAD 8u

struct recover_slot {
	uint32_t slot; /* offset / FILE_BLOCK_BYTES: FILE_SEGMENTS_MAX of 64 MiB fit */
	uint32_t at;
	uint32_t depth;
};
static_assert((FILE_SEGMENTS_MAX + 1ull) * FILE_SEGMENT_BYTES / FILE_BLOCK_BYTES - 1 <= UINT32_MAX,
	      "recover_slot.slot");

/* A number of a format means something in its half only. */
struct recover_format {
	uint32_t at; /* 0: not known in this half */
	uint32_t page_tokens;
	int number; /* the core's, or -errno */
	bool named;
};

struct recover_half {
	const uint8_t *data;
	uint64_t bytes;
	uint64_t file_offset;
	uint64_t have;	  /* bytes that can be read */
	bool ended_early; /* the rest could not be read */
	bool valid;
	bool complete;
	bool torn;
	uint64_t generation;
	uint64_t end;  /* of the last good record */
	uint64_t puts; /* records that say so */
	struct recover_format *formats;
};

struct recover {
	const struct file *f;
	struct core *core;
	uint32_t area;
	struct file_record_limits limits;
	struct file_found *found;
	const uint8_t *map; /* both halves */
	uint8_t *scratch;   /* RECOVER_READ_BYTES */
	struct recover_half halves[2];
	struct recover_slot *slots; /* open addressing; a slot that was dropped keeps its place */
	uint64_t slots_max;	    /* power of two */
	uint64_t slot_count;
	uint32_t *order; /* at, parents first */
	uint64_t order_count;
	char description[KVD_DESCRIPTION_MAX];
};

/* --- 1. scanning ------------------------------------------------------------------------------ */

/* How many of the first `wanted` bytes can be read. */
static uint64_t file_recover_have(struct recover *r, struct recover_half *h, uint64_t wanted)
{
	wanted = BITS_MIN(wanted, h->bytes);
	while (h->have < wanted && !h->ended_early) {
		uint64_t count = BITS_MIN(RECOVER_READ_BYTES, h->bytes - h->have);
		ssize_t n = pread(r->f->journal_fd, r->scratch, count,
				  (off_t)(h->file_offset + h->have));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			log_warn("file", "%s: the journal cannot be read further: %s", r->f->path,
				 n < 0 ? strerror(errno) : "the file ends");
			h->ended_early = true;
		} else {
			h->have += (uint64_t)n;
		}
	}
	return BITS_MIN(h->have, wanted);
}

static void file_recover_header(struct recover *r, struct recover_half *h)
{
	const struct file_half *header = (const struct file_half *)h->data;

	h->valid = file_recover_have(r, h, sizeof(*header)) == sizeof(*header) &&
		   file_record_half_check(header, r->f->uuid);
	h->generation = h->valid ? header->generation : 0;
	h->end = sizeof(*header);
}

/* Finds the end of the good records. */
static void file_recover_scan(struct recover *r, struct recover_half *h)
{
	uint64_t seed = file_record_seed(r->f->uuid, h->generation), sequence = 1;

	for (; h->valid; sequence++) {
		uint64_t have = file_recover_have(r, h, h->end + FILE_RECORD_BYTES_MAX);
		const struct file_record *head = (const struct file_record *)(h->data + h->end);
		int rc = file_record_check(head, have - h->end, sequence, seed);
		if (rc < 0) {
			h->torn = rc == -EBADMSG;
			return;
		}
		h->complete = h->complete || head->type == FILE_RECORD_END;
		h->puts += head->type == FILE_RECORD_PUT;
		h->end += head->length;
	}
}

/* --- 2. applying ------------------------------------------------------------------------------ */

static uint32_t file_recover_at(const struct recover *r, const void *record)
{
	return (uint32_t)((uint64_t)((const uint8_t *)record - r->map) / 8);
}

static const void *file_recover_record(const struct recover *r, uint32_t at)
{
	return r->map + (uint64_t)at * 8;
}

static struct recover_half *file_recover_half_of(struct recover *r, uint32_t at)
{
	return &r->halves[(uint64_t)at * 8 >= r->halves[0].bytes];
}

static struct recover_slot *file_recover_find(struct recover_slot *slots, uint64_t max,
					      uint32_t slot)
{
	/* Fibonacci hashing: neighbours on the disk end up far from each other. */
	uint64_t i = (slot * 0x9e3779b97f4a7c15ull) >> 32 & (max - 1);

	while (slots[i].at != RECOVER_AT_EMPTY && slots[i].slot != slot)
		i = (i + 1) & (max - 1);
	return &slots[i];
}

/* Room for so many more slots, at once: to grow in steps takes longer than all the rest. */
static int file_recover_reserve(struct recover *r, uint64_t more)
{
	uint64_t max = bits_pow2_up(BITS_MAX((r->slot_count + more) * 2, RECOVER_SLOTS_MIN));

	if (max <= r->slots_max)
		return 0;
	struct recover_slot *slots = calloc(max, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	for (uint64_t i = 0; i < r->slots_max; i++)
		if (r->slots[i].at != RECOVER_AT_EMPTY)
			*file_recover_find(slots, max, r->slots[i].slot) = r->slots[i];
	free(r->slots);
	r->slots = slots;
	r->slots_max = max;
	return 0;
}

static void file_recover_put(struct recover *r, struct recover_half *h, const void *record)
{
	struct core_record put;

	if (!file_record_read_put(record, &r->limits, &put))
		return;
	struct recover_format *format = &h->formats[put.format];
	if (format->at == 0 || put.token_count > format->page_tokens)
		return;
	uint32_t slot = (uint32_t)(put.slot.offset_bytes / FILE_BLOCK_BYTES);
	struct recover_slot *s = file_recover_find(r->slots, r->slots_max, slot);
	r->slot_count += s->at == RECOVER_AT_EMPTY;
	*s = (struct recover_slot){
		.slot = slot, .at = file_recover_at(r, record), .depth = put.depth};
	format->named = true;
}

static void file_recover_drop(struct recover *r, const void *record)
{
	struct core_slot slot;

	if (!file_record_read_drop(record, &r->limits, &slot))
		return;
	struct recover_slot *s = file_recover_find(
		r->slots, r->slots_max, (uint32_t)(slot.offset_bytes / FILE_BLOCK_BYTES));
	if (s->at != RECOVER_AT_EMPTY)
		s->at = RECOVER_AT_DROPPED;
}

/* The first one of a number stays: records that name it may have been read. */
static void file_recover_format(struct recover *r, struct recover_half *h, const void *record)
{
	struct kvd_format_wire wire;
	char space[KVD_NAME_MAX];
	uint32_t number;

	if (!file_record_read_format(record, &number, space, &wire, r->description) ||
	    h->formats[number].at != 0)
		return;
	h->formats[number] = (struct recover_format){.at = file_recover_at(r, record),
						     .page_tokens = wire.page_tokens};
}

static int file_recover_apply(struct recover *r, struct recover_half *h)
{
	h->formats = calloc(FILE_FORMATS_MAX, sizeof(*h->formats));
	if (!h->formats)
		return -ENOMEM;
	int rc = file_recover_reserve(r, h->puts);
	if (rc < 0)
		return rc;
	for (uint64_t pos = sizeof(struct file_half); pos < h->end;) {
		const struct file_record *head = (const struct file_record *)(h->data + pos);
		uint32_t length = head->length;

		if (length < sizeof(*head) || length > h->end - pos)
			break;
		if (head->type == FILE_RECORD_PUT)
			file_recover_put(r, h, head);
		else if (head->type == FILE_RECORD_DROP)
			file_recover_drop(r, head);
		else if (head->type == FILE_RECORD_FORMAT)
			file_recover_format(r, h, head);
		r->found->records++;
		pos += length;
	}
	return 0;
}

/* --- 3. handing over -------------------------------------------------------------------------- */

static void file_recover_hand_formats(struct recover *r, struct recover_half *h)
{
	struct kvd_format_wire wire;
	char space[KVD_NAME_MAX] = "", name[KVD_NAME_MAX];
	uint32_t number;

	for (uint32_t i = 0; h->formats && i < FILE_FORMATS_MAX; i++) {
		struct recover_format *format = &h->formats[i];

		if (!format->named)
			continue;
		bool good = file_record_read_format(file_recover_record(r, format->at), &number,
						    space, &wire, r->description);
		format->number = -EBADMSG;
		if (good && number == i)
			format->number = core_restore_format(r->core, space, &wire, r->description);
		if (format->number < 0)
			log_warn("file", "%s: a format of namespace %s is not usable here: %s",
				 r->f->path, log_safe(space, sizeof(space), name, sizeof(name)),
				 strerror(-format->number));
	}
}

/* Counting sort by depth. */
static int file_recover_sort(struct recover *r)
{
	uint32_t depth_max = 0;
	uint32_t *begin;

	for (uint64_t i = 0; i < r->slots_max; i++)
		if (r->slots[i].at > RECOVER_AT_DROPPED)
			depth_max = BITS_MAX(depth_max, r->slots[i].depth);
	begin = calloc((size_t)depth_max + 2, sizeof(*begin));
	r->order = malloc((r->slot_count + 1) * sizeof(*r->order));
	if (!begin || !r->order) {
		free(begin);
		return -ENOMEM;
	}
	for (uint64_t i = 0; i < r->slots_max; i++)
		if (r->slots[i].at > RECOVER_AT_DROPPED)
			begin[r->slots[i].depth + 1]++;
	for (uint32_t d = 0; d <= depth_max; d++)
		begin[d + 1] += begin[d];
	r->order_count = begin[depth_max + 1];
	for (uint64_t i = 0; i < r->slots_max; i++)
		if (r->slots[i].at > RECOVER_AT_DROPPED)
			r->order[begin[r->slots[i].depth]++] = r->slots[i].at;
	free(begin);
	return 0;
}

/* Records lie all over the memory: without this, each line of each is waited for. */
static void file_recover_prefetch(const struct recover *r, uint64_t i)
{
	const uint8_t *record;

	if (i >= r->order_count)
		return;
	record = file_recover_record(r, r->order[i]);
	for (size_t line = 0; line < 384; line += 64)
		__builtin_prefetch(record + line);
}

static void file_recover_hand_block(struct recover *r, uint32_t at)
{
	struct core_record put;
	int format = -EBADMSG;

	if (file_record_read_put(file_recover_record(r, at), &r->limits, &put))
		format = file_recover_half_of(r, at)->formats[put.format].number;
	put.format = (uint32_t)format;
	put.slot.area = r->area;
	if (format >= 0 && core_restore(r->core, &put) >= 0)
		r->found->blocks++;
	else
		r->found->refused++;
}

static int file_recover_hand(struct recover *r)
{
	int rc = file_recover_sort(r);

	if (rc < 0)
		return rc;
	file_recover_hand_formats(r, &r->halves[0]);
	file_recover_hand_formats(r, &r->halves[1]);
	for (uint64_t i = 0; i < r->order_count; i++) {
		file_recover_prefetch(r, i + RECOVER_AHEAD);
		file_recover_hand_block(r, r->order[i]);
	}
	return 0;
}

/* --- all of it -------------------------------------------------------------------------------- */

static int file_recover_map(struct recover *r)
{
	const struct file *f = r->f;
	uint64_t bytes = f->journal_bytes / 2;
	void *map = mmap(NULL, f->journal_bytes, PROT_READ, MAP_SHARED, f->journal_fd,
			 (off_t)f->journal_offset);

	if (map == MAP_FAILED)
		return -errno;
	r->map = map;
	r->scratch = malloc(RECOVER_READ_BYTES);
	if (!r->scratch)
		return -ENOMEM;
	for (uint32_t i = 0; i < 2; i++)
		r->halves[i] = (struct recover_half){
			.data = r->map + i * bytes,
			.bytes = bytes,
			.file_offset = f->journal_offset + i * bytes,
		};
	return 0;
}

/* The newer half alone if it is complete, else the older and then the newer. */
static int file_recover_halves(struct recover *r, struct file_recovered *out)
{
	struct recover_half *newer = &r->halves[1], *older = &r->halves[0];
	int rc = 0;

	file_recover_header(r, older);
	file_recover_header(r, newer);
	if (older->generation > newer->generation) {
		newer = &r->halves[0];
		older = &r->halves[1];
	}
	file_recover_scan(r, newer);
	bool both = older->valid && !newer->complete;
	const struct recover_half *keep = both ? older : newer;
	out->half = keep->valid && keep == &r->halves[0];
	out->generation = newer->generation;
	if (both) {
		file_recover_scan(r, older);
		rc = file_recover_apply(r, older);
	}
	if (rc == 0 && newer->valid)
		rc = file_recover_apply(r, newer);
	r->found->torn = newer->torn;
	return rc;
}

static void file_recover_fini(struct recover *r)
{
	free(r->halves[0].formats);
	free(r->halves[1].formats);
	free(r->slots);
	free(r->order);
	free(r->scratch);
	if (r->map)
		munmap((void *)(uintptr_t)r->map, r->f->journal_bytes);
}

int file_recover(const struct file *f, uint32_t area, struct core *core, struct file_found *found,
		 struct file_recovered *out)
{
	struct recover r = {
		.f = f,
		.core = core,
		.area = area,
		.limits = {.segment_bytes = FILE_SEGMENT_BYTES, .segment_count = f->segment_count},
		.found = found,
	};
	uint64_t begun_ns = units_now_ns();

	ASSERT(f->journal_bytes <= FILE_JOURNAL_BYTES_MAX && f->journal_bytes % 16 == 0);
	*found = (struct file_found){0};
	int rc = file_recover_map(&r);
	if (rc == 0)
		rc = file_recover_halves(&r, out);
	if (rc == 0)
		rc = file_recover_hand(&r);
	file_recover_fini(&r);
	found->took_ns = units_now_ns() - begun_ns;
	return rc;
}
