/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An open file, and what stands in front of a block in a slot. How it is opened: file_open.c.
 *
 * A header is a function of the transfer and the checksum of the parts, down to the last byte:
 * checking one is to make it anew and compare. A slot that holds another block, another storing of
 * the same block, a block that belongs elsewhere, or one whose bytes are torn has another header.
 * Pure but for file_close(); workers and the loop call it.
 */
#include "kvd/file.h"
#include "kvd/file_format.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

static_assert(FILE_HEADER_BYTES == sizeof(struct file_slot_header), "a header");

void file_close(struct file *f)
{
	if (f->fd >= 0)
		close(f->fd);
	/* The lock goes with this one. */
	if (f->journal_fd >= 0)
		close(f->journal_fd);
	f->fd = f->journal_fd = -1;
}

uint64_t file_checksum(uint32_t part_count, void *const *parts, const uint64_t *part_bytes)
{
	XXH3_state_t state;

	XXH3_INITSTATE(&state);
	XXH3_64bits_reset(&state);
	for (uint32_t i = 0; i < part_count; i++)
		XXH3_64bits_update(&state, parts[i], part_bytes[i]);
	return XXH3_64bits_digest(&state);
}

void file_header_fill(void *header, const struct core_transfer *t, uint64_t checksum)
{
	struct file_slot_header h = {
		.magic = FILE_SLOT_MAGIC,
		.version = FILE_VERSION,
		.part_count = t->part_count,
		.generation = t->slot.generation,
		.offset_bytes = t->slot.offset_bytes,
		.slot_bytes = t->slot.bytes,
		.parts_checksum = checksum,
	};

	memcpy(h.identity, t->identity, sizeof(h.identity));
	memcpy(h.key, t->key, sizeof(h.key));
	memcpy(h.part_bytes, t->part_bytes, t->part_count * sizeof(h.part_bytes[0]));
	h.checksum = XXH3_64bits(&h, offsetof(struct file_slot_header, checksum));
	memcpy(header, &h, sizeof(h));
}

int file_header_check(const void *header, const struct core_transfer *t, uint64_t checksum)
{
	struct file_slot_header wanted;

	file_header_fill(&wanted, t, checksum);
	return memcmp(header, &wanted, sizeof(wanted)) == 0 ? 0 : -EBADMSG;
}
