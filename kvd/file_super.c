/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a file is cut. The journal gets a 64th of it: a half of that holds records of all blocks
 * down to some 50 KiB each, which is a small page of a small model. The rest is segments.
 *
 * The superblock lies there twice and the copies are written one after the other, so that one is
 * whole at any time; `sequence` tells which is newer. All other sizes follow from two of them, and
 * a superblock in which they do not is refused like one with a wrong checksum: what comes behind
 * need not fear any number in it.
 */
#include "kvd/file_super.h"
#include "base/bits.h"
#include "kvd/file.h"
#include <errno.h>
#include <string.h>
#include <xxhash.h>

uint64_t file_super_segments(const struct file_super *s, uint64_t bytes)
{
	return bytes < s->data_offset ? 0 : (bytes - s->data_offset) / s->segment_bytes;
}

void file_super_resize(struct file_super *s, uint64_t segment_count)
{
	s->segment_count = segment_count;
	s->file_bytes = s->data_offset + segment_count * s->segment_bytes;
}

int file_super_plan(struct file_super *s, uint64_t bytes)
{
	uint64_t journal = bytes / 64 / FILE_JOURNAL_ALIGN * FILE_JOURNAL_ALIGN;

	journal = BITS_MIN(BITS_MAX(journal, FILE_JOURNAL_BYTES_MIN), FILE_JOURNAL_BYTES_MAX);
	s->segment_bytes = FILE_SEGMENT_BYTES;
	s->journal_offset = FILE_JOURNAL_OFFSET;
	s->journal_bytes = journal;
	s->data_offset = FILE_JOURNAL_OFFSET + journal;
	uint64_t segments = file_super_segments(s, bytes);
	if (segments > FILE_SEGMENTS_MAX)
		return -EFBIG;
	file_super_resize(s, segments);
	return 0;
}

static uint64_t file_super_checksum(const struct file_super *s)
{
	return XXH3_64bits(s, offsetof(struct file_super, checksum));
}

void file_super_seal(struct file_super *s)
{
	s->magic = FILE_SUPER_MAGIC;
	s->version = FILE_VERSION;
	s->checksum = file_super_checksum(s);
}

static bool file_super_sizes_fit(const struct file_super *s)
{
	return s->segment_bytes == FILE_SEGMENT_BYTES && s->journal_offset == FILE_JOURNAL_OFFSET &&
	       s->journal_bytes >= FILE_JOURNAL_BYTES_MIN &&
	       s->journal_bytes <= FILE_JOURNAL_BYTES_MAX &&
	       s->journal_bytes % FILE_JOURNAL_ALIGN == 0 &&
	       s->data_offset == s->journal_offset + s->journal_bytes && s->segment_count >= 1 &&
	       s->segment_count <= FILE_SEGMENTS_MAX &&
	       s->file_bytes == s->data_offset + s->segment_count * s->segment_bytes;
}

static int file_super_check(const struct file_super *s)
{
	if (s->magic != FILE_SUPER_MAGIC)
		return -ENOENT;
	if (s->version != FILE_VERSION)
		return -EPROTONOSUPPORT;
	if (s->checksum != file_super_checksum(s) || !file_super_sizes_fit(s))
		return -EBADMSG;
	return 0;
}

int file_super_choose(const void *copies, size_t bytes, struct file_super *out)
{
	int worst = -ENOENT;
	bool found = false;

	for (size_t at = 0; at + sizeof(*out) <= bytes && at <= sizeof(*out); at += sizeof(*out)) {
		struct file_super s;

		memcpy(&s, (const uint8_t *)copies + at, sizeof(s));
		int r = file_super_check(&s);
		if (r == 0 && (!found || s.sequence > out->sequence)) {
			*out = s;
			found = true;
		}
		/* A copy of another version says more than one that is damaged. */
		if (r != -ENOENT && !found && worst != -EPROTONOSUPPORT) {
			worst = r;
			out->version = s.version;
		}
	}
	return found ? 0 : worst;
}
