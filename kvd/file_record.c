/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A record is a head and a body. The checksum is seeded with the file's uuid and the generation of
 * the half, and the sequence counts from 1: a record that an earlier turn of the same half left
 * behind, or that came with a copy from another file, is none, wherever it lies. The checksum
 * keeps accidents out, not enemies: so every number is checked again when it is read.
 */
#include "kvd/file_record.h"
#include "base/assert.h"
#include "base/bits.h"
#include <errno.h>
#include <ipc/msg.h>
#include <string.h>
#include <xxhash.h>

/* One more must fit as well. */
#define FILE_RECORD_GENERATION_MAX (UINT64_MAX / 2)

static void file_record_head(void *out, uint32_t length, enum file_record_type type)
{
	struct file_record *head = out;

	ASSERT(length % 8 == 0 && length <= FILE_RECORD_BYTES_MAX);
	memset(head, 0, length);
	head->length = length;
	head->type = type;
}

uint32_t file_record_put(void *out, const struct core_record *record)
{
	uint32_t tokens = record->token_count, extras = record->extra_count;
	struct file_put *p = out;

	ASSERT(tokens <= FILE_PAGE_TOKENS_MAX && extras <= KVD_EXTRAS_PER_BLOCK);
	uint32_t length = file_record_put_bytes(tokens, extras);
	file_record_head(p, length, FILE_RECORD_PUT);
	p->offset_bytes = record->slot.offset_bytes;
	p->slot_bytes = record->slot.bytes;
	p->generation = record->slot.generation;
	p->parent_generation = record->parent_generation;
	memcpy(p->key, record->key, sizeof(p->key));
	memcpy(p->parent_key, record->parent_key, sizeof(p->parent_key));
	p->format = record->format;
	p->depth = record->depth;
	p->token_count = tokens;
	p->extra_count = extras;
	p->uses = record->uses;
	if (tokens)
		memcpy(p->words, record->tokens, 4 * tokens);
	if (extras)
		memcpy(p->words + tokens, record->extras, 4 * FILE_EXTRA_WORDS * extras);
	return length;
}

uint32_t file_record_drop(void *out, const struct core_slot *slot)
{
	struct file_drop *d = out;

	file_record_head(d, sizeof(*d), FILE_RECORD_DROP);
	d->offset_bytes = slot->offset_bytes;
	d->generation = slot->generation;
	return sizeof(*d);
}

uint32_t file_record_format(void *out, uint32_t number, const char space[KVD_NAME_MAX],
			    const struct kvd_format_wire *wire,
			    const char description[KVD_DESCRIPTION_MAX])
{
	uint32_t text = (uint32_t)strnlen(description, KVD_DESCRIPTION_MAX - 1);
	struct kvd_format_wire copy = *wire;
	struct file_format *f = out;

	copy.description_bytes = text ? text + 1 : 0;
	uint32_t bytes = (uint32_t)sizeof(copy) + copy.description_bytes;
	uint32_t length = (uint32_t)bits_align_up(sizeof(*f) + bytes, 8);
	file_record_head(f, length, FILE_RECORD_FORMAT);
	f->number = number;
	f->wire_bytes = bytes;
	memcpy(f->space, space, strnlen(space, KVD_NAME_MAX - 1));
	memcpy(f->wire, &copy, sizeof(copy));
	memcpy(f->wire + sizeof(copy), description, text);
	return length;
}

uint32_t file_record_end(void *out)
{
	file_record_head(out, sizeof(struct file_end), FILE_RECORD_END);
	return sizeof(struct file_end);
}

uint64_t file_record_seed(const uint8_t uuid[16], uint64_t generation)
{
	return XXH3_64bits_withSeed(uuid, 16, generation);
}

static uint64_t file_record_checksum(const struct file_record *head, uint64_t seed)
{
	const size_t skip = sizeof(head->checksum);

	return XXH3_64bits_withSeed((const uint8_t *)head + skip, head->length - skip, seed);
}

void file_record_seal(void *record, uint64_t sequence, uint64_t seed)
{
	struct file_record *head = record;

	head->sequence = sequence;
	head->checksum = file_record_checksum(head, seed);
}

void file_record_half(struct file_half *out, const uint8_t uuid[16], uint64_t generation)
{
	*out = (struct file_half){
		.magic = FILE_HALF_MAGIC, .version = FILE_VERSION, .generation = generation};
	memcpy(out->uuid, uuid, sizeof(out->uuid));
	out->checksum = XXH3_64bits(out, offsetof(struct file_half, checksum));
}

bool file_record_half_check(const struct file_half *half, const uint8_t uuid[16])
{
	return half->magic == FILE_HALF_MAGIC && half->version == FILE_VERSION &&
	       half->checksum == XXH3_64bits(half, offsetof(struct file_half, checksum)) &&
	       memcmp(half->uuid, uuid, sizeof(half->uuid)) == 0 && half->generation != 0 &&
	       half->generation <= FILE_RECORD_GENERATION_MAX;
}

int file_record_check(const void *at, uint64_t left, uint64_t sequence, uint64_t seed)
{
	const struct file_record *head = at;

	if (left < sizeof(*head) || head->sequence != sequence || head->type < FILE_RECORD_FORMAT ||
	    head->type > FILE_RECORD_END)
		return -ENODATA;
	if (head->length < sizeof(*head) || head->length % 8 || head->length > left ||
	    head->length > FILE_RECORD_BYTES_MAX ||
	    head->checksum != file_record_checksum(head, seed))
		return -EBADMSG;
	return 0;
}

/* The slot lies in one segment of the file. */
static bool file_record_slot_ok(const struct file_record_limits *limits, uint64_t offset,
				uint64_t bytes)
{
	if (offset % FILE_BLOCK_BYTES || bytes % FILE_BLOCK_BYTES || bytes <= FILE_BLOCK_BYTES ||
	    bytes > limits->segment_bytes)
		return false;
	return offset / limits->segment_bytes < limits->segment_count &&
	       offset % limits->segment_bytes <= limits->segment_bytes - bytes;
}

bool file_record_read_put(const void *record, const struct file_record_limits *limits,
			  struct core_record *out)
{
	const struct file_put *p = record;
	struct core_slot slot = {.tier = CORE_TIER_FILE};

	if (p->head.length < sizeof(*p) || p->token_count == 0 ||
	    p->token_count > FILE_PAGE_TOKENS_MAX || p->extra_count > KVD_EXTRAS_PER_BLOCK ||
	    p->head.length != file_record_put_bytes(p->token_count, p->extra_count))
		return false;
	if (!file_record_slot_ok(limits, p->offset_bytes, p->slot_bytes) || p->generation == 0 ||
	    p->format >= FILE_FORMATS_MAX || p->depth == 0 || p->depth > FILE_DEPTH_MAX)
		return false;
	for (uint32_t i = 0; i < p->extra_count; i++)
		if (p->words[p->token_count + FILE_EXTRA_WORDS * i] >= p->token_count)
			return false;
	slot.offset_bytes = p->offset_bytes;
	slot.bytes = p->slot_bytes;
	slot.generation = p->generation;
	*out = (struct core_record){
		.put = true,
		.slot = slot,
		.format = p->format,
		.depth = p->depth,
		.parent_generation = p->parent_generation,
		.token_count = p->token_count,
		.extra_count = p->extra_count,
		.uses = p->uses,
		.tokens = p->words,
		.extras = p->words + p->token_count,
	};
	memcpy(out->key, p->key, sizeof(out->key));
	memcpy(out->parent_key, p->parent_key, sizeof(out->parent_key));
	return true;
}

bool file_record_read_drop(const void *record, const struct file_record_limits *limits,
			   struct core_slot *out)
{
	const struct file_drop *d = record;

	if (d->head.length != sizeof(*d) || d->offset_bytes % FILE_BLOCK_BYTES ||
	    d->offset_bytes / limits->segment_bytes >= limits->segment_count)
		return false;
	*out = (struct core_slot){
		.tier = CORE_TIER_FILE,
		.offset_bytes = d->offset_bytes,
		.generation = d->generation,
	};
	return true;
}

bool file_record_read_format(const void *record, uint32_t *out_number, char space[KVD_NAME_MAX],
			     struct kvd_format_wire *wire, char *description)
{
	const struct file_format *f = record;

	if (f->head.length < sizeof(*f) || f->wire_bytes > f->head.length - sizeof(*f) ||
	    f->number >= FILE_FORMATS_MAX)
		return false;
	size_t name = strnlen(f->space, KVD_NAME_MAX);
	if (name == 0 || name == KVD_NAME_MAX)
		return false;
	/* It has the form of a client's FORMAT, and is believed as much. */
	if (msg_format(f->wire, f->wire_bytes, wire, description) < 0)
		return false;
	memcpy(space, f->space, KVD_NAME_MAX);
	*out_number = f->number;
	return true;
}
