/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kvctl, the program, for tests: run with some words, what it said is in kvctl_out and kvctl_err.
 * $KVCTL_BIN names it. Whatever fails here fails the test.
 */
#ifndef TESTS_E2E_KVCTL_RUN_H
#define TESTS_E2E_KVCTL_RUN_H

#include "tests/e2e/harness.h"
#include <jansson.h>

#define KVCTL_OUTPUT_MAX (4u << 20)

/* What the last run said: KVCTL_OUTPUT_MAX bytes each, terminated. */
extern char *kvctl_out, *kvctl_err;

/* kvctl is told kvd's socket; whether a daemon runs there is the test's affair. */
void kvctl_init(const struct harness_kvd *kvd);
void kvctl_fini(void);

/* "kvctl --socket SOCKET WORD...", the words parted by spaces: its exit status. */
int kvctl_run(const char *words);
/* As another user, who needs kvctl_lend() before. */
int kvctl_run_as(uid_t uid, const char *words);
pid_t kvctl_start(const char *words, uid_t uid, const char *input);
int kvctl_end(pid_t pid);
void kvctl_lend(void);
/* The path of a file in the daemon's directory; until the next call. */
const char *kvctl_path(const char *name);
/* Such a file, opened; made with 0600 if flags say so. */
int kvctl_file(const char *name, int flags);

/* Fails the test unless the text has the part. */
void kvctl_has(const char *text, const char *part);
/* kvctl_err is one line that speaks for kvctl. */
void kvctl_one_sentence(void);
/* Runs it, which must go well; what it printed. */
json_t *kvctl_json(const char *words);
json_int_t kvctl_number(const json_t *object, const char *key);

/*
 * With the test's own pid, what a status file of the test must say to be a living daemon's: field
 * 22 of /proc/self/stat. The name of the test, field 2, must have no space.
 */
uint64_t kvctl_start_ticks(void);

#endif
