/* SPDX-License-Identifier: Apache-2.0 */
/* The superblock: sizes of a file, planned, sealed and checked. Pure: reads and writes nothing. */
#ifndef KVD_FILE_SUPER_H
#define KVD_FILE_SUPER_H

#include "kvd/file_format.h"

/*
 * Sizes for a new file of at most `bytes`, which is FILE_BYTES_MIN or more; uuid and sequence are
 * left alone. -EFBIG: more than FILE_SEGMENTS_MAX.
 */
int file_super_plan(struct file_super *s, uint64_t bytes);
/* The same file with so many segments that it is at most `bytes`; may be 0 segments. */
uint64_t file_super_segments(const struct file_super *s, uint64_t bytes);
/* Sets the number of segments and the size that follows. */
void file_super_resize(struct file_super *s, uint64_t segment_count);
/* Fills magic, version and checksum. */
void file_super_seal(struct file_super *s);
/*
 * Finds the newest good one of the two copies at the beginning of a file. -ENOENT: neither is one
 * of ours; -EPROTONOSUPPORT: of another version, out->version tells; -EBADMSG: damaged.
 */
int file_super_choose(const void *copies, size_t bytes, struct file_super *out);

#endif
