/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One file of the file tier: who it belongs to, where its parts lie, and what a slot looks like.
 *
 *   | superblock, 4 KiB, twice | journal, two halves | segments of segment_bytes ...             |
 *
 * Between the first two a block means nothing: it is written to see whether the disk can be.
 *
 * A slot is a header of FILE_HEADER_BYTES and the parts of a block; what the core calls the offset
 * of a slot counts from the first segment.
 */
#ifndef KVD_FILE_H
#define KVD_FILE_H

#include "kvd/core/core.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FILE_HEADER_BYTES 4096u
#define FILE_PROBE_OFFSET 8192u
#define FILE_BYTES_MIN (256ull << 20)
#define FILE_SEGMENT_BYTES (64ull << 20)

struct file {
	int fd;		/* O_DIRECT unless `buffered` */
	int journal_fd; /* the same file, buffered */
	bool buffered;	/* the file system has no O_DIRECT */
	bool fresh;	/* made, or made anew, by this open: there is nothing to recover */
	uint64_t bytes;
	uint64_t journal_offset;
	uint64_t journal_bytes; /* both halves */
	uint64_t data_offset;
	uint32_t segment_count;
	uint8_t uuid[16];
	char path[256];
};

/*
 * Opens the file, makes it if there is none: 0600, never through a link, locked against another
 * daemon, fully allocated. bytes 0: as large as it is. What is there and is not ours, or of another
 * version, is refused, not overwritten. 0, or -errno with words in error[size]: what is wrong and
 * what to do.
 */
int file_open(struct file *f, const char *path, uint64_t bytes, char *error, size_t size);
/* A file that was never opened (fd -1) is fine. */
void file_close(struct file *f);

/* Where a slot begins in the file. */
static inline uint64_t file_slot_offset(const struct file *f, const struct core_slot *slot)
{
	return f->data_offset + slot->offset_bytes;
}

/* --- slots; DRAM's have the same headers ------------------------------------------------------ */

/*
 * Checksum of the parts, which lie at parts[i], part_bytes[i] each. On a worker: it reads them all.
 */
uint64_t file_checksum(uint32_t part_count, void *const *parts, const uint64_t *part_bytes);
/* Fills header[FILE_HEADER_BYTES] for what is to be stored. */
void file_header_fill(void *header, const struct core_transfer *t, uint64_t checksum);
/* 0, or -EBADMSG: this slot does not hold what the transfer is about. */
int file_header_check(const void *header, const struct core_transfer *t, uint64_t checksum);

#endif
