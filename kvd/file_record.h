/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of the journal, to bytes and back. Pure. What is read is not trusted: a record that does
 * not fit in itself or in the file gives false.
 */
#ifndef KVD_FILE_RECORD_H
#define KVD_FILE_RECORD_H

#include "kvd/core/core.h"
#include "kvd/file_format.h"
#include <stdbool.h>

/* --- to bytes: each returns its length, at most FILE_RECORD_BYTES_MAX; `out` is 8-aligned ------
 */

static inline uint32_t file_record_put_bytes(uint32_t token_count, uint32_t extra_count)
{
	uint32_t words = token_count + FILE_EXTRA_WORDS * extra_count;

	return (uint32_t)sizeof(struct file_put) + 4 * (words + words % 2);
}

uint32_t file_record_put(void *out, const struct core_record *record);
uint32_t file_record_drop(void *out, const struct core_slot *slot);
/* The length of the description is what it is up to its NUL, whatever the wire says. */
uint32_t file_record_format(void *out, uint32_t number, const char space[KVD_NAME_MAX],
			    const struct kvd_format_wire *wire,
			    const char description[KVD_DESCRIPTION_MAX]);
uint32_t file_record_end(void *out);
/* What all records of one half have in common. */
uint64_t file_record_seed(const uint8_t uuid[16], uint64_t generation);
/* Fills sequence and checksum, of a record whose length stands in it. */
void file_record_seal(void *record, uint64_t sequence, uint64_t seed);
void file_record_half(struct file_half *out, const uint8_t uuid[16], uint64_t generation);

/* --- and back --------------------------------------------------------------------------------- */

bool file_record_half_check(const struct file_half *half, const uint8_t uuid[16]);
/* 0; -ENODATA: no record begins here; -EBADMSG: one was begun here, and is not whole. */
int file_record_check(const void *at, uint64_t left, uint64_t sequence, uint64_t seed);

/* Where a slot may lie. */
struct file_record_limits {
	uint64_t segment_bytes;
	uint32_t segment_count;
};

/* These take a record that file_record_check() found good. Pointers in *out go into the record. */
bool file_record_read_put(const void *record, const struct file_record_limits *limits,
			  struct core_record *out);
bool file_record_read_drop(const void *record, const struct file_record_limits *limits,
			   struct core_slot *out);
/* Name and description are terminated; `description` has KVD_DESCRIPTION_MAX bytes. */
bool file_record_read_format(const void *record, uint32_t *out_number, char space[KVD_NAME_MAX],
			     struct kvd_format_wire *wire, char *description);

#endif
