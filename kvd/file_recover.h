/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a journal at start: what it says is given to the core. */
#ifndef KVD_FILE_RECOVER_H
#define KVD_FILE_RECOVER_H

#include "kvd/file_journal.h"

/* Where writing may begin. */
struct file_recovered {
	uint64_t generation; /* the highest that any half has */
	uint32_t half;	     /* the one to be written next: the other is needed */
};

/* 0, or -errno: no memory, no mapping. See file_journal_new(). */
int file_recover(const struct file *f, uint32_t area, struct core *core, struct file_found *found,
		 struct file_recovered *out);

#endif
