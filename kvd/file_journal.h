/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal of one file: small records of what its slots hold. Two halves take turns; each
 * begins with a checkpoint, behind which records are appended until it is full and the other half
 * gets a new checkpoint. Nothing in it is trusted when it is read.
 *
 * Records are collected in memory by the loop and written by a worker, which is told by the timer
 * (FILE_JOURNAL_FLUSH_NS) or when much has come together: never on the loop.
 */
#ifndef KVD_FILE_JOURNAL_H
#define KVD_FILE_JOURNAL_H

#include "kvd/core/core.h"
#include "kvd/file.h"
#include "kvd/work.h"

#define FILE_JOURNAL_FLUSH_NS 200000000ull

struct file_journal;

/* What recovery found, for the log. */
struct file_found {
	uint64_t records; /* read */
	uint64_t blocks;  /* given to the core */
	uint64_t refused; /* by the core */
	uint64_t took_ns;
	bool torn; /* the end was not complete, as after a crash */
};

/* What is pointed to outlives the journal. */
struct file_journal_config {
	const struct file *file;
	uint32_t area; /* the file's number */
	struct core *core;
	struct work *work;
	uint32_t lane;	     /* of the work, for this file alone: the disk may hang */
	uint64_t timeout_ns; /* of a write; 0: it may take its time */
	uint64_t retry_ns;   /* after a write that failed */
};

/*
 * Reads what is there and gives it to the core, formats first, then blocks, parents first; then
 * begins a checkpoint. 0 or -errno with words in error[size]; what is broken in the journal is no
 * error: it is as far as it can be read.
 */
int file_journal_new(struct file_journal **out, const struct file_journal_config *config,
		     struct file_found *found, char *error, size_t size);
/* Has the lane write what is left, if it can: the lane is to be stopped then. NULL is fine. */
void file_journal_close(struct file_journal *j);
/* After the lane has ended. NULL is fine. */
void file_journal_free(struct file_journal *j);

/* Takes a record of this area. */
void file_journal_add(struct file_journal *j, const struct core_record *record);
/* Continues a checkpoint, begins a write. In each turn of the loop; cheap. */
void file_journal_turn(struct file_journal *j, uint64_t now_ns);
/* When it must be called next; UINT64_MAX: no need. */
uint64_t file_journal_deadline_ns(const struct file_journal *j);
/* 0, or -errno: the newest write failed, or -ETIMEDOUT: it takes too long. */
int file_journal_state(const struct file_journal *j);
/* Records that were not written: their blocks are not found after a restart. */
uint64_t file_journal_lost(const struct file_journal *j);

#endif
