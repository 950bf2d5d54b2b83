/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A core that knows only what a journal asks of one: which block each slot holds. A block is known
 * by the generation of its slot, and everything in its record follows from that: what comes back
 * can be compared in full. fake_core.c keeps a history of all that was ever put, by any core: what
 * recovery gives must be in it.
 */
#ifndef TESTS_FAKE_CORE_H
#define TESTS_FAKE_CORE_H

#include "kvd/core/core.h"
#include "kvd/file_journal.h"

#define FAKE_FORMATS 8u
#define FAKE_SLOT_BYTES 8192u
#define FAKE_AREA 3u
#define FAKE_PAGE_TOKENS 64u

/* A half holds some 100 records behind a checkpoint of all slots and formats. */
#define FAKE_JOURNAL_BYTES (192u << 10)
#define FAKE_SLOTS 150u

struct core {
	uint32_t slot_count;
	uint64_t *slots; /* generation, 0: none */
	uint64_t live;
	uint32_t shift;		/* format i has the number (i + shift) % FAKE_FORMATS here */
	uint32_t formats_known; /* bits, by i */
	uint32_t format_gone;	/* bits: -ENODEV */
	uint32_t last_depth;	/* of core_restore(): parents come first */
	uint32_t tokens;	/* of each block; 0: from 1 to FAKE_PAGE_TOKENS */
	int refuse;		/* core_restore() gives this */
	bool blind;		/* it takes anything */
};

struct core *fake_core_new(uint32_t slot_count, uint32_t shift);
void fake_core_free(struct core *core);
/* Each tells the journal, unless that is NULL. */
void fake_core_put(struct core *core, struct file_journal *j, uint32_t slot);
void fake_core_drop(struct core *core, struct file_journal *j, uint32_t slot);
bool fake_core_same(const struct core *a, const struct core *b);

/* A memfd with an empty journal. */
struct file fake_file_make(uint64_t journal_bytes);
/* The first `count` bytes of the journal; the rest becomes zero. */
void fake_file_set_bytes(struct file *f, const uint8_t *bytes, uint64_t count);

#endif
