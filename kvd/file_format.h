/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is on the disk: superblock, slot header, journal. Little endian, fixed widths, every
 * checksum XXH3-64. Change anything here and FILE_VERSION changes.
 *
 *   0        superblock         4 KiB
 *   4 KiB    the same again     4 KiB
 *   8 KiB    means nothing      4 KiB: probes write it
 *   1 MiB    journal, half 0    journal_bytes / 2
 *            journal, half 1    journal_bytes / 2
 *   data_offset                 segment_count segments of segment_bytes
 */
#ifndef KVD_FILE_FORMAT_H
#define KVD_FILE_FORMAT_H

#include <assert.h>
#include <kvd_abi.h>
#include <stddef.h>
#include <stdint.h>

#define FILE_VERSION 1u
#define FILE_BLOCK_BYTES 4096u
#define FILE_SUPER_MAGIC 0x0a454c494644564bull /* "KVDFILE\n" */
#define FILE_SLOT_MAGIC 0x0a544f4c5344564bull  /* "KVDSLOT\n" */
#define FILE_HALF_MAGIC 0x0a464c414844564bull  /* "KVDHALF\n" */
#define FILE_JOURNAL_OFFSET (1ull << 20)
#define FILE_JOURNAL_BYTES_MIN (8ull << 20)
#define FILE_JOURNAL_BYTES_MAX (2ull << 30)
#define FILE_JOURNAL_ALIGN (2ull << 20) /* so that a half is whole MiBs */
#define FILE_SEGMENTS_MAX ((1u << 18) - 1)
#define FILE_FORMATS_MAX 65536u
#define FILE_DEPTH_MAX KVD_REQUEST_TOKENS_MAX
#define FILE_EXTRA_WORDS 5u /* position, digest[4] */
#define FILE_PAGE_TOKENS_MAX 128u

struct file_super {
	uint64_t magic;
	uint32_t version;
	uint32_t reserved;
	uint8_t uuid[16];
	uint64_t sequence; /* the copy with more is newer; 0: the file is still being made */
	uint64_t file_bytes;
	uint64_t segment_bytes;
	uint64_t segment_count;
	uint64_t journal_offset;
	uint64_t journal_bytes;
	uint64_t data_offset;
	uint8_t zero[4000];
	uint64_t checksum; /* of all above */
};
static_assert(sizeof(struct file_super) == FILE_BLOCK_BYTES, "file_super");
static_assert(offsetof(struct file_super, uuid) == 16, "file_super.uuid");
static_assert(offsetof(struct file_super, data_offset) == 80, "file_super.data_offset");
static_assert(offsetof(struct file_super, checksum) == 4088, "file_super.checksum");

/* The offset is in it, so that a write that went astray is found. */
struct file_slot_header {
	uint64_t magic;
	uint32_t version;
	uint32_t part_count;
	uint8_t identity[16];
	uint8_t key[16];
	uint64_t generation;
	uint64_t offset_bytes;
	uint64_t slot_bytes;
	uint64_t parts_checksum;
	uint64_t part_bytes[KVD_PARTS_MAX];
	uint8_t zero[3880];
	uint64_t checksum; /* of all above */
};
static_assert(sizeof(struct file_slot_header) == FILE_BLOCK_BYTES, "file_slot_header");
static_assert(offsetof(struct file_slot_header, generation) == 48, "file_slot_header.generation");
static_assert(offsetof(struct file_slot_header, part_bytes) == 80, "file_slot_header.part_bytes");
static_assert(offsetof(struct file_slot_header, checksum) == 4088, "file_slot_header.checksum");

/* The first block of a half; records follow. */
struct file_half {
	uint64_t magic;
	uint32_t version;
	uint32_t reserved;
	uint8_t uuid[16];
	uint64_t generation; /* from 1; of two halves the one with more is newer */
	uint8_t zero[4048];
	uint64_t checksum; /* of all above */
};
static_assert(sizeof(struct file_half) == FILE_BLOCK_BYTES, "file_half");
static_assert(offsetof(struct file_half, generation) == 32, "file_half.generation");
static_assert(offsetof(struct file_half, checksum) == 4088, "file_half.checksum");

enum file_record_type {
	FILE_RECORD_FORMAT = 1, /* stands before the first record that names it, in each half */
	FILE_RECORD_PUT = 2,
	FILE_RECORD_DROP = 3,
	FILE_RECORD_END = 4, /* all that was there when the half was begun stands before it */
};

struct file_record {
	uint64_t checksum; /* of all behind it, seeded with uuid and generation of the half */
	uint32_t length;   /* of all, a multiple of 8 */
	uint32_t type;
	uint64_t sequence; /* 1, 2, 3, ... in each half */
};
static_assert(sizeof(struct file_record) == 24, "file_record");

struct file_put {
	struct file_record head;
	uint64_t offset_bytes;
	uint64_t slot_bytes;
	uint64_t generation;
	uint64_t parent_generation; /* of the parent's slot; 0 where depth is 1 */
	uint8_t key[16];
	uint8_t parent_key[16];
	uint32_t format; /* number of a FORMAT in the same half */
	uint32_t depth;
	uint32_t token_count;
	uint32_t extra_count;
	uint32_t uses;
	uint32_t reserved;
	uint32_t words[]; /* tokens, extras, 0 or 1 of zero */
};
static_assert(sizeof(struct file_put) == 112, "file_put");
static_assert(offsetof(struct file_put, key) == 56, "file_put.key");
static_assert(offsetof(struct file_put, format) == 88, "file_put.format");

struct file_drop {
	struct file_record head;
	uint64_t offset_bytes;
	uint64_t generation;
};
static_assert(sizeof(struct file_drop) == 40, "file_drop");

struct file_format {
	struct file_record head;
	uint32_t number;
	uint32_t wire_bytes; /* of what follows, without the zeros that fill up */
	char space[KVD_NAME_MAX];
	uint8_t wire[]; /* kvd_format_wire, description */
};
static_assert(sizeof(struct file_format) == 96, "file_format");

struct file_end {
	struct file_record head;
};

#define FILE_PUT_BYTES_MAX                                                                         \
	(sizeof(struct file_put) + 4 * FILE_PAGE_TOKENS_MAX +                                      \
	 4 * FILE_EXTRA_WORDS * KVD_EXTRAS_PER_BLOCK)
#define FILE_FORMAT_BYTES_MAX                                                                      \
	(sizeof(struct file_format) + sizeof(struct kvd_format_wire) + KVD_DESCRIPTION_MAX)
#define FILE_RECORD_BYTES_MAX FILE_FORMAT_BYTES_MAX
static_assert(FILE_PUT_BYTES_MAX == 784, "file_put");
static_assert(FILE_FORMAT_BYTES_MAX == 4768, "file_format");

#endif
