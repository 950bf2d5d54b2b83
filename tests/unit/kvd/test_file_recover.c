/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a journal in which each checksum is good: where writing goes on, and records that say
 * what cannot be. What comes of a journal that was written and then broken is in
 * test_file_journal.c.
 */
#include "base/bits.h"
#include "kvd/file_record.h"
#include "kvd/file_recover.h"
#include "tests/test.h"
#include "tests/unit/kvd/fake_core.h"
#include <unistd.h>

static uint64_t craft(uint8_t *half, uint64_t at, uint64_t sequence, uint64_t seed)
{
	struct file_record *record = (struct file_record *)(half + at);

	file_record_seal(record, sequence, seed);
	return at + record->length;
}

/* The half that is to be written next is never one that is needed. */
static void test_where_to_go_on(void **state)
{
	static const struct {
		uint64_t generation[2]; /* 0: no header */
		bool complete[2];
		uint32_t half;
	} cases[] = {
		{{0, 0}, {false, false}, 0}, {{1, 0}, {true, false}, 1},
		{{0, 1}, {false, true}, 0},  {{1, 2}, {true, false}, 1},
		{{1, 2}, {true, true}, 0},   {{7, 5}, {false, true}, 0},
		{{7, 5}, {true, true}, 1},   {{7, 5}, {true, false}, 1},
		{{5, 7}, {false, false}, 1}, {{7, 0}, {false, false}, 1},
	};
	static uint64_t journal[FAKE_JOURNAL_BYTES / 8];

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct file f = fake_file_make(FAKE_JOURNAL_BYTES);
		struct core *core = fake_core_new(FAKE_SLOTS, 0);
		struct file_recovered where;
		struct file_found found;

		memset(journal, 0, sizeof(journal));
		for (uint32_t h = 0; h < 2; h++) {
			uint64_t generation = cases[i].generation[h];
			uint8_t *half = (uint8_t *)journal + h * (FAKE_JOURNAL_BYTES / 2);

			if (generation == 0)
				continue;
			file_record_half((struct file_half *)half, f.uuid, generation);
			file_record_end(half + sizeof(struct file_half));
			if (cases[i].complete[h])
				craft(half, sizeof(struct file_half), 1,
				      file_record_seed(f.uuid, generation));
		}
		fake_file_set_bytes(&f, (const uint8_t *)journal, FAKE_JOURNAL_BYTES);
		assert_int_equal(file_recover(&f, FAKE_AREA, core, &found, &where), 0);
		assert_int_equal(where.half, cases[i].half);
		assert_int_equal(where.generation,
				 BITS_MAX(cases[i].generation[0], cases[i].generation[1]));
		fake_core_free(core);
		close(f.journal_fd);
	}
}

/* A half with a format and one block in slot 0, after `change`; what is found. */
static uint64_t crafted(void (*change)(struct file_put *put))
{
	struct file f = fake_file_make(FAKE_JOURNAL_BYTES);
	uint64_t seed = file_record_seed(f.uuid, 9), at = sizeof(struct file_half);
	uint8_t *bytes = calloc(1, FAKE_JOURNAL_BYTES);
	char space[KVD_NAME_MAX], description[KVD_DESCRIPTION_MAX];
	static uint32_t tokens[FILE_PAGE_TOKENS_MAX], extras[5 * KVD_EXTRAS_PER_BLOCK];
	struct core *core = fake_core_new(FAKE_SLOTS, 0);
	struct core_record r = {
		.slot = {.bytes = FAKE_SLOT_BYTES, .generation = 1},
		.depth = 1,
		.token_count = FAKE_PAGE_TOKENS,
		.extra_count = KVD_EXTRAS_PER_BLOCK,
		.tokens = tokens,
		.extras = extras,
	};
	struct kvd_format_wire wire;
	struct file_found found;
	struct file_recovered where;

	file_record_half((struct file_half *)bytes, f.uuid, 9);
	core_format_wire(core, 0, space, &wire, description);
	file_record_format(bytes + at, 0, space, &wire, description);
	at = craft(bytes, at, 1, seed);
	file_record_put(bytes + at, &r);
	change((struct file_put *)(bytes + at));
	at = craft(bytes, at, 2, seed);
	file_record_end(bytes + at);
	craft(bytes, at, 3, seed);
	fake_file_set_bytes(&f, bytes, FAKE_JOURNAL_BYTES);
	core->blind = true;
	assert_int_equal(file_recover(&f, FAKE_AREA, core, &found, &where), 0);
	free(bytes);
	fake_core_free(core);
	close(f.journal_fd);
	return found.blocks + found.refused;
}

static void change_nothing(struct file_put *p)
{
}

static void change_length(struct file_put *p)
{
	p->head.length -= 8;
}

static void change_token_count(struct file_put *p)
{
	p->token_count += 2;
}

static void change_no_tokens(struct file_put *p)
{
	p->token_count = 0;
	p->head.length = file_record_put_bytes(0, p->extra_count);
}

/* More than the format's pages hold. */
static void change_many_tokens(struct file_put *p)
{
	p->token_count = FILE_PAGE_TOKENS_MAX;
	p->extra_count = 0;
	p->head.length = file_record_put_bytes(p->token_count, 0);
}

/* The length fits if it is counted in 32 bits. */
static void change_wrap(struct file_put *p)
{
	p->token_count -= 5 * 0x40000000u;
	p->extra_count += 0x40000000u;
}

static void change_extra_count(struct file_put *p)
{
	p->extra_count = KVD_EXTRAS_PER_BLOCK + 1;
	p->head.length = file_record_put_bytes(p->token_count, p->extra_count);
}

static void change_extra_position(struct file_put *p)
{
	p->words[p->token_count + 5] = p->token_count;
}

static void change_offset(struct file_put *p)
{
	p->offset_bytes += 512;
}

static void change_offset_behind(struct file_put *p)
{
	p->offset_bytes = 256 * FILE_SEGMENT_BYTES;
}

static void change_offset_far(struct file_put *p)
{
	p->offset_bytes = UINT64_MAX - 4095;
}

static void change_across(struct file_put *p)
{
	p->offset_bytes = FILE_SEGMENT_BYTES - 4096;
}

static void change_no_bytes(struct file_put *p)
{
	p->slot_bytes = 4096;
}

static void change_many_bytes(struct file_put *p)
{
	p->slot_bytes = UINT64_MAX - 4095;
}

static void change_generation(struct file_put *p)
{
	p->generation = 0;
}

static void change_format(struct file_put *p)
{
	p->format = 1;
}

static void change_format_far(struct file_put *p)
{
	p->format = FILE_FORMATS_MAX;
}

static void change_depth(struct file_put *p)
{
	p->depth = 0;
}

static void change_depth_far(struct file_put *p)
{
	p->depth = UINT32_MAX;
}

static void test_bad_records(void **state)
{
	static void (*const changes[])(struct file_put *) = {
		change_length,	      change_token_count, change_no_tokens,	 change_many_tokens,
		change_wrap,	      change_extra_count, change_extra_position, change_offset,
		change_offset_behind, change_offset_far,  change_across,	 change_no_bytes,
		change_many_bytes,    change_generation,  change_format,	 change_format_far,
		change_depth,	      change_depth_far,
	};

	assert_int_equal(crafted(change_nothing), 1);
	for (size_t i = 0; i < ARRAY_LEN(changes); i++)
		if (crafted(changes[i]) != 0)
			fail_msg("change %zu was believed", i);
}

TEST_MAIN(file_recover, cmocka_unit_test(test_where_to_go_on), cmocka_unit_test(test_bad_records))
