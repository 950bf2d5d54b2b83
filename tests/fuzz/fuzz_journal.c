/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_journal.c: a file of the file tier with any bytes in it. The first byte chooses: copies of
 * a superblock; a journal as it is; or a list of records that get good checksums, so that what
 * stands behind them is reached. What is handed to the core must keep to all limits.
 */
#include <base/assert.h>
#include <base/bits.h>
#include <base/bytes.h>
#include <base/log.h>
#include <errno.h>
#include <kvd/file_record.h>
#include <kvd/file_recover.h>
#include <kvd/file_super.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HALF_BYTES = 16384, SEGMENTS = 3 };

struct core {
	uint32_t depth;
	uint32_t formats;
	uint64_t blocks;
	uint64_t sum; /* of all tokens: they are read */
};

int core_restore_format(struct core *core, const char *space, const struct kvd_format_wire *wire,
			const char *description)
{
	ASSERT(space[0] && strlen(space) < KVD_NAME_MAX);
	ASSERT(strlen(description) < KVD_DESCRIPTION_MAX);
	ASSERT(wire->part_count >= 1 && wire->part_count <= KVD_PARTS_MAX);
	ASSERT(strlen(wire->layout) < sizeof(wire->layout));
	ASSERT(core->blocks == 0);
	return wire->identity[0] & 1 ? -ENODEV : (int)core->formats++;
}

int core_restore(struct core *core, const struct core_record *r)
{
	ASSERT(r->put && r->slot.generation != 0 && r->slot.tier == CORE_TIER_FILE);
	ASSERT(r->slot.area == 1 && r->format < core->formats);
	ASSERT(r->slot.offset_bytes % FILE_BLOCK_BYTES == 0 && r->slot.bytes > FILE_BLOCK_BYTES);
	ASSERT(r->slot.bytes <= FILE_SEGMENT_BYTES);
	ASSERT(r->slot.offset_bytes + r->slot.bytes <= SEGMENTS * FILE_SEGMENT_BYTES);
	ASSERT(r->depth >= core->depth && r->depth <= FILE_DEPTH_MAX && r->depth >= 1);
	ASSERT(r->token_count >= 1 && r->token_count <= FILE_PAGE_TOKENS_MAX);
	ASSERT(r->extra_count <= KVD_EXTRAS_PER_BLOCK);
	for (uint32_t i = 0; i < r->token_count; i++)
		core->sum += r->tokens[i];
	for (uint32_t i = 0; i < r->extra_count; i++)
		ASSERT(r->extras[i * FILE_EXTRA_WORDS] < r->token_count);
	core->depth = r->depth;
	core->blocks++;
	return r->uses & 1 ? -EEXIST : 0;
}

/* Only a writer of a journal calls these. */
void core_format_wire(const struct core *core, uint32_t format, char space[KVD_NAME_MAX],
		      struct kvd_format_wire *out, char *description)
{
	abort();
}

bool core_records(const struct core *core, uint32_t area, uint32_t *cursor, uint32_t count,
		  void (*out)(void *ctx, const struct core_record *record), void *ctx)
{
	abort();
}

static void fuzz_super(const uint8_t *data, size_t size)
{
	struct file_super copies[2] = {0}, s = {0};

	(void)file_super_choose(data, size, &s);
	memcpy(copies, data, BITS_MIN(size, sizeof(copies)));
	file_super_seal(&copies[0]);
	file_super_seal(&copies[1]);
	if (file_super_choose(copies, sizeof(copies), &s) < 0)
		return;
	ASSERT(s.segment_count >= 1 && s.segment_count <= FILE_SEGMENTS_MAX);
	ASSERT(s.journal_bytes <= FILE_JOURNAL_BYTES_MAX && s.journal_bytes % 4096 == 0);
	ASSERT(s.data_offset + s.segment_count * s.segment_bytes == s.file_bytes);
	ASSERT(file_super_segments(&s, s.file_bytes) == s.segment_count);
	ASSERT(file_super_segments(&s, s.file_bytes - 1) == s.segment_count - 1);
}

/* Bytes of the input become records, one behind the other, in both halves. */
static void fuzz_frame(uint8_t *journal, const uint8_t uuid[16], const uint8_t *data, size_t size)
{
	struct bytes b = bytes_over(data, size);
	uint64_t generation[2] = {1 + bytes_u8(&b), 1 + bytes_u8(&b)}, at[2], sequence[2] = {1, 1};

	for (int h = 0; h < 2; h++) {
		file_record_half((struct file_half *)(journal + h * HALF_BYTES), uuid,
				 generation[h]);
		at[h] = sizeof(struct file_half);
	}
	while (bytes_left(&b)) {
		uint32_t type = bytes_u8(&b), h = type >> 7;
		size_t body = bytes_u16(&b);
		struct file_record *record =
			(struct file_record *)(journal + h * HALF_BYTES + at[h]);

		body = BITS_MIN(body, bytes_left(&b));
		record->type = type & 7;
		record->length = (uint32_t)bits_align_up(sizeof(*record) + body, 8);
		if (at[h] + record->length > HALF_BYTES)
			return;
		memcpy(record + 1, bytes_take(&b, body), body);
		file_record_seal(record, sequence[h]++, file_record_seed(uuid, generation[h]));
		at[h] += record->length;
	}
}

static void fuzz_recover(const uint8_t *journal, const uint8_t uuid[16])
{
	static int fd = -1;
	struct file f = {.journal_bytes = 2 * HALF_BYTES, .segment_count = SEGMENTS, .path = "?"};
	struct file_recovered where;
	struct file_found found;
	struct core core = {0};

	if (fd < 0)
		fd = memfd_create("journal", MFD_CLOEXEC);
	ASSERT(pwrite(fd, journal, 2 * HALF_BYTES, 0) == 2 * HALF_BYTES);
	f.journal_fd = fd;
	memcpy(f.uuid, uuid, sizeof(f.uuid));
	ASSERT(file_recover(&f, 1, &core, &found, &where) == 0);
	ASSERT(where.half < 2 && where.generation < UINT64_MAX);
	ASSERT(found.blocks <= core.blocks && found.blocks + found.refused <= found.records);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t uuid[16] = "0123456789abcde";
	static uint64_t journal[2 * HALF_BYTES / 8];

	log_level_max = LOG_ERROR;
	if (size == 0)
		return 0;
	memset(journal, 0, sizeof(journal));
	switch (data[0] % 3) {
	case 0:
		fuzz_super(data + 1, size - 1);
		return 0;
	case 1:
		memcpy(journal, data + 1, BITS_MIN(size - 1, sizeof(journal)));
		break;
	default:
		fuzz_frame((uint8_t *)journal, uuid, data + 1, size - 1);
	}
	fuzz_recover((const uint8_t *)journal, uuid);
	return 0;
}
