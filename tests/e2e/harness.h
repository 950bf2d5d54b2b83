/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real processes for tests: a kvd in a directory of its own, and prf_clients that do what they are
 * told. The programs come from $KVD_BIN and $PRF_CLIENT_BIN. Whatever fails here fails the test,
 * with the daemon's log on stderr. Nothing outlives the test: children die with it.
 */
#ifndef TESTS_E2E_HARNESS_H
#define TESTS_E2E_HARNESS_H

#include <kvd_abi.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#define HARNESS_WAIT_MS 20000u

struct harness_kvd {
	pid_t pid; /* 0: does not run */
	char dir[64];
	char socket[96];
	char log[96];
};

struct harness_client {
	pid_t pid;
	FILE *to;
	FILE *from;
	char line[512]; /* the last answer */
};

/* Makes the directory; starts nothing. */
void harness_init(struct harness_kvd *k);
/* Starts kvd with small defaults and these options (NULL ends), waits until it is ready. */
void harness_start(struct harness_kvd *k, const char *const options[]);
/* The same; false: it died before it was ready, harness_end() says how. */
bool harness_try_start(struct harness_kvd *k, const char *const options[]);
/* Starts it with exactly these options and waits for its end: its exit status. */
int harness_run(struct harness_kvd *k, const char *const options[]);
/* Sends the signal and waits: exit status, or 128 + signal. */
int harness_end(struct harness_kvd *k, int sig);
/* Removes everything. */
void harness_fini(struct harness_kvd *k);
bool harness_log_has(const struct harness_kvd *k, const char *text);
/* The same, where the line may still be on its way. */
bool harness_log_gets(const struct harness_kvd *k, const char *text);
/* Lines of the log that have the text. */
unsigned int harness_log_count(const struct harness_kvd *k, const char *text);
/* A consistent copy of the status file. */
void harness_status(const struct harness_kvd *k, struct kvd_status *out);
/* Waits until the daemon holds no open, filling or quarantined page, no lease, and this many
 * sessions; then asks it to CHECK every invariant. */
void harness_quiet(const struct harness_kvd *k, uint32_t sessions);
void harness_check(const struct harness_kvd *k);
/* Waits until the figure is `want`. */
void harness_wait_figure(const struct harness_kvd *k, uint64_t (*figure)(const struct kvd_status *),
			 uint64_t want);

/* Starts a client with pages of 16 tokens and 4096 bytes; space and secret may be NULL. */
void harness_client(struct harness_client *c, const struct harness_kvd *k, const char *space,
		    const char *secret);
void harness_client_sized(struct harness_client *c, const struct harness_kvd *k, const char *space,
			  const char *secret, unsigned int tokens, unsigned int bytes);
/* Sends a command; the answer is in c->line. */
void harness_ask(struct harness_client *c, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Sends it without waiting; harness_answer() waits. */
void harness_send(struct harness_client *c, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void harness_answer(struct harness_client *c);
/* The first word of the answer is `result`. */
bool harness_is(const struct harness_client *c, const char *result);
/* key=NUMBER in the answer. */
uint64_t harness_field(const struct harness_client *c, const char *key);
/* Waits for its end. */
void harness_client_end(struct harness_client *c, int sig);
/* Says close and waits. */
void harness_client_bye(struct harness_client *c);

#endif
