/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults of a disk, told by a test to a daemon that runs with fault_shim.c before libc's calls.
 * Both map the file that $KVD_FAULT_FILE names; the test writes it at any time, the shim reads it
 * before each call that is about a file whose path ends in `path`.
 */
#ifndef TESTS_E2E_FAULT_H
#define TESTS_E2E_FAULT_H

#include <stdint.h>

/* Calls, as bits. Slots are read and written by vectors, all else by plain calls. */
enum fault_call {
	FAULT_SLOT_READ = 1,	 /* preadv() */
	FAULT_SLOT_WRITE = 2,	 /* pwritev() */
	FAULT_JOURNAL_READ = 4,	 /* pread() */
	FAULT_JOURNAL_WRITE = 8, /* pwrite() */
	FAULT_SYNC = 16,	 /* fdatasync() */
	FAULT_READS = FAULT_SLOT_READ | FAULT_JOURNAL_READ,
	FAULT_WRITES = FAULT_SLOT_WRITE | FAULT_JOURNAL_WRITE | FAULT_SYNC,
	FAULT_ALL = FAULT_READS | FAULT_WRITES,
};

enum fault_kind {
	FAULT_NONE,
	FAULT_ERROR, /* `error`, nothing moved */
	FAULT_SHORT, /* the first half is moved, and that is what the call says */
	FAULT_TORN,  /* the first half is moved, then `error` */
	FAULT_DEATH, /* the first half is moved, then the process is killed */
	FAULT_DELAY, /* `delay_ms` late, then as usual */
	FAULT_HANG,  /* until this is no longer the kind, then as usual */
};

struct fault {
	uint32_t kind; /* written last */
	uint32_t calls;
	uint32_t error;
	uint32_t delay_ms;
	uint64_t from;	/* so many calls are let through before */
	uint64_t limit; /* and then so many have it; 0: all */
	uint64_t seen;	/* calls that it is about, counted by the shim */
	uint64_t had;	/* calls that had it, also by the shim */
	char path[64];	/* "": every regular file */
};

#endif
