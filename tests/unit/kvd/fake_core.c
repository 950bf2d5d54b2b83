/* SPDX-License-Identifier: Apache-2.0 */
/* fake_core.c: see fake_core.h. One thread. */
#include "tests/unit/kvd/fake_core.h"
#include "base/bits.h"
#include "kvd/file_format.h"
#include "tests/test.h"
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

struct fake_history {
	uint32_t slot;
	uint32_t tokens;
};

/* Of all that was put, by generation; 0 is none. */
static struct fake_history *history;
static uint64_t history_count = 1, history_max;

struct core *fake_core_new(uint32_t slot_count, uint32_t shift)
{
	struct core *core = calloc(1, sizeof(*core));

	assert_non_null(core);
	core->slots = calloc(slot_count, sizeof(*core->slots));
	assert_non_null(core->slots);
	core->slot_count = slot_count;
	core->shift = shift;
	return core;
}

void fake_core_free(struct core *core)
{
	free(core->slots);
	free(core);
}

static uint32_t fake_format(uint64_t generation)
{
	return (uint32_t)(generation % 7 % FAKE_FORMATS);
}

/* Good until the next one. */
static struct core_record fake_record(const struct core *core, uint64_t generation)
{
	static uint32_t tokens[FAKE_PAGE_TOKENS];
	static uint32_t extras[KVD_EXTRAS_PER_BLOCK * 5];
	const struct fake_history *h = &history[generation];
	uint64_t random = generation;
	struct core_record r = {
		.put = true,
		.slot = {.tier = CORE_TIER_FILE,
			 .area = FAKE_AREA,
			 .offset_bytes = (uint64_t)h->slot * FAKE_SLOT_BYTES,
			 .bytes = FAKE_SLOT_BYTES,
			 .generation = generation},
		.format = (fake_format(generation) + core->shift) % FAKE_FORMATS,
		.tokens = tokens,
		.extras = extras,
	};

	for (uint32_t i = 0; i < 16; i++) {
		r.key[i] = (uint8_t)test_random(&random);
		r.parent_key[i] = (uint8_t)test_random(&random);
	}
	r.depth = 1 + (uint32_t)(test_random(&random) % 500);
	r.uses = (uint32_t)test_random(&random);
	r.token_count = h->tokens ? h->tokens : 1 + test_random(&random) % FAKE_PAGE_TOKENS;
	r.extra_count = h->tokens ? 0 : test_random(&random) % (KVD_EXTRAS_PER_BLOCK + 1);
	for (uint32_t i = 0; i < r.token_count; i++)
		tokens[i] = (uint32_t)test_random(&random);
	for (uint32_t i = 0; i < 5 * r.extra_count; i++)
		extras[i] = (uint32_t)(test_random(&random) % r.token_count);
	return r;
}

void fake_core_put(struct core *core, struct file_journal *j, uint32_t slot)
{
	uint64_t generation = history_count++;

	if (generation >= history_max) {
		history_max = history_max ? history_max * 2 : 1024;
		history = realloc(history, history_max * sizeof(*history));
		assert_non_null(history);
	}
	history[generation] = (struct fake_history){.slot = slot, .tokens = core->tokens};
	core->live += core->slots[slot] == 0;
	core->slots[slot] = generation;
	struct core_record r = fake_record(core, generation);
	if (j)
		file_journal_add(j, &r);
}

void fake_core_drop(struct core *core, struct file_journal *j, uint32_t slot)
{
	struct core_record r = {
		.slot = {.tier = CORE_TIER_FILE,
			 .area = FAKE_AREA,
			 .offset_bytes = (uint64_t)slot * FAKE_SLOT_BYTES,
			 .bytes = FAKE_SLOT_BYTES,
			 .generation = core->slots[slot]},
	};

	if (core->slots[slot] == 0)
		return;
	core->slots[slot] = 0;
	core->live--;
	if (j)
		file_journal_add(j, &r);
}

bool fake_core_same(const struct core *a, const struct core *b)
{
	for (uint32_t i = 0; i < a->slot_count; i++)
		if (a->slots[i] != b->slots[i]) {
			print_message("slot %u: %llu, %llu\n", i, (unsigned long long)a->slots[i],
				      (unsigned long long)b->slots[i]);
			return false;
		}
	return a->live == b->live;
}

struct file fake_file_make(uint64_t journal_bytes)
{
	struct file f = {
		.fd = -1,
		.journal_fd = memfd_create("journal", MFD_CLOEXEC),
		.fresh = true,
		.journal_offset = FILE_JOURNAL_OFFSET,
		.journal_bytes = journal_bytes,
		.data_offset = FILE_JOURNAL_OFFSET + journal_bytes,
		.segment_count = 256,
		.uuid = "0123456789abcde",
		.path = "memory",
	};

	assert_true(f.journal_fd >= 0);
	assert_int_equal(ftruncate(f.journal_fd, (off_t)f.data_offset), 0);
	return f;
}

void fake_file_set_bytes(struct file *f, const uint8_t *bytes, uint64_t count)
{
	static const uint8_t zero[4096];

	assert_int_equal(pwrite(f->journal_fd, bytes, count, (off_t)f->journal_offset), count);
	for (; count < f->journal_bytes; count += BITS_MIN(4096, f->journal_bytes - count))
		(void)!pwrite(f->journal_fd, zero, BITS_MIN(4096, f->journal_bytes - count),
			      (off_t)(f->journal_offset + count));
}

/* --- what a journal calls --------------------------------------------------------------------- */

static void fake_wire(uint32_t i, char space[KVD_NAME_MAX], struct kvd_format_wire *wire,
		      char *description)
{
	memset(space, 0, KVD_NAME_MAX);
	snprintf(space, KVD_NAME_MAX, "space %u", i % 3);
	memset(description, 0, KVD_DESCRIPTION_MAX);
	if (i != 0)
		memset(description, 'd', i * 500);
	*wire = (struct kvd_format_wire){
		.page_tokens = FAKE_PAGE_TOKENS,
		.part_count = 1 + i,
		.description_bytes = i ? i * 500 + 1 : 0,
	};
	memset(wire->identity, (int)i + 1, sizeof(wire->identity));
	snprintf(wire->layout, sizeof(wire->layout), "layout %u", i);
	for (uint32_t p = 0; p < wire->part_count; p++)
		wire->parts[p] = (struct kvd_part_wire){.page_bytes = 4096, .align = 64};
}

void core_format_wire(const struct core *core, uint32_t format, char space[KVD_NAME_MAX],
		      struct kvd_format_wire *out, char *description)
{
	fake_wire((format + FAKE_FORMATS - core->shift % FAKE_FORMATS) % FAKE_FORMATS, space, out,
		  description);
}

int core_restore_format(struct core *core, const char *space, const struct kvd_format_wire *wire,
			const char *description)
{
	char expected_space[KVD_NAME_MAX], expected_description[KVD_DESCRIPTION_MAX];
	struct kvd_format_wire expected;
	uint32_t i = wire->identity[0] - 1u;

	assert_in_range(i, 0, FAKE_FORMATS - 1);
	fake_wire(i, expected_space, &expected, expected_description);
	assert_memory_equal(wire, &expected, sizeof(expected));
	assert_string_equal(space, expected_space);
	assert_string_equal(description, expected_description);
	if (core->format_gone & 1u << i)
		return -ENODEV;
	core->formats_known |= 1u << i;
	return (int)((i + core->shift) % FAKE_FORMATS);
}

int core_restore(struct core *core, const struct core_record *record)
{
	uint64_t generation = record->slot.generation;

	assert_true(record->put);
	if (core->blind)
		return 0;
	assert_in_range(generation, 1, history_count - 1);
	struct core_record expected = fake_record(core, generation);
	uint32_t slot = history[generation].slot;
	assert_memory_equal(&record->slot, &expected.slot, sizeof(expected.slot));
	assert_int_equal(record->format, expected.format);
	assert_true(core->formats_known & 1u << fake_format(generation));
	assert_int_equal(record->depth, expected.depth);
	assert_memory_equal(record->key, expected.key, 16);
	assert_memory_equal(record->parent_key, expected.parent_key, 16);
	assert_int_equal(record->uses, expected.uses);
	assert_int_equal(record->token_count, expected.token_count);
	assert_int_equal(record->extra_count, expected.extra_count);
	assert_memory_equal(record->tokens, expected.tokens, 4 * expected.token_count);
	assert_memory_equal(record->extras, expected.extras, 20 * expected.extra_count);
	assert_true(record->depth >= core->last_depth);
	core->last_depth = record->depth;
	if (core->refuse)
		return core->refuse;
	assert_int_equal(core->slots[slot], 0);
	core->slots[slot] = generation;
	core->live++;
	return 0;
}

bool core_records(const struct core *core, uint32_t area, uint32_t *cursor, uint32_t count,
		  void (*out)(void *ctx, const struct core_record *record), void *ctx)
{
	assert_int_equal(area, FAKE_AREA);
	for (; count && *cursor < core->slot_count; count--, (*cursor)++) {
		if (core->slots[*cursor] == 0)
			continue;
		struct core_record r = fake_record(core, core->slots[*cursor]);
		out(ctx, &r);
	}
	return *cursor < core->slot_count;
}
