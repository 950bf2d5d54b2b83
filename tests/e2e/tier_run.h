/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A daemon with a file tier for tests: prefixes are computed, pushed out of the pool, and asked for
 * again. The pool has 512 pages of 4 KiB; a chain of N tokens is N / 16 of them.
 */
#ifndef TESTS_E2E_TIER_RUN_H
#define TESTS_E2E_TIER_RUN_H

#include "tests/e2e/fault.h"
#include "tests/e2e/harness.h"

struct tier_run {
	struct harness_kvd kvd;
	struct harness_client client;
	char file[128];
	char option[160];    /* --file=... */
	char aio[32];	     /* --aio=... */
	const char *bytes;   /* --file-bytes=..., NULL: 256 MiB */
	struct fault *fault; /* of tier_run_faults(), NULL without */
};

/* aio: "io_uring", "threads", "auto". Starts nothing. */
void tier_run_init(struct tier_run *t, const char *aio);
void tier_run_fini(struct tier_run *t);
/* From the next start on the file of this name has the faults that t->fault says. */
void tier_run_faults(struct tier_run *t, const char *name);
/* Begins one, in which nothing has been counted; FAULT_NONE ends it. */
void tier_run_fault(struct tier_run *t, struct fault fault);
/* Starts kvd with the file tier and these options, and the client. */
void tier_run_start(struct tier_run *t, const char *const options[]);
/* Ends both, the client first if the daemon is to stop in peace. */
void tier_run_end(struct tier_run *t, int sig);

/* Computes what is missing of the text, verifies all of it, and leaves it cached. */
void tier_run_text(struct tier_run *t, const char *text);
/* Pushes everything else out of the pool: what a tier has not is lost. */
void tier_run_push_out(struct tier_run *t);
/* Waits until nothing is on its way to or from a tier and it holds at least so many blocks. */
void tier_run_settle(struct tier_run *t, uint64_t blocks);

uint64_t tier_run_counter(const struct tier_run *t, enum kvd_counter counter);
/* Of the first file. */
struct kvd_area_stat tier_run_area(const struct tier_run *t);

#endif
