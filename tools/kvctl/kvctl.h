/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the commands of kvctl share. Data goes to stdout, everything else to stderr; exit status 0
 * ok, 1 failed, 2 usage. One process, one thread, one command.
 */
#ifndef TOOLS_KVCTL_KVCTL_H
#define TOOLS_KVCTL_KVCTL_H

#include <jansson.h>
#include <kvd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* What every command gets. */
struct kvctl {
	const char *socket; /* as given, or NULL */
	bool json;
	char path[256]; /* the socket that will be used */
};

struct kvctl_option {
	const char *name; /* "--interval" */
	const char *arg;  /* "SECONDS", or NULL: a flag */
	const char *help;
};

struct kvctl_command {
	const char *name;
	const char *args;		    /* "[--interval SECONDS]" */
	const char *summary;		    /* one line */
	const char *text;		    /* paragraphs for `kvctl help NAME` and the man page */
	const struct kvctl_option *options; /* ends with {0} */
	int (*run)(struct kvctl *k, int argc, char **argv);
};

extern const struct kvctl_command cmd_status, cmd_top, cmd_sessions, cmd_prefixes, cmd_slabs,
	cmd_formats, cmd_spaces, cmd_tiers, cmd_verify, cmd_metrics, cmd_doctor, cmd_check, cmd_why,
	cmd_evict, cmd_drain;
extern const struct kvctl_command *const main_commands[];

/*
 * Reads the command's options: values[i] points to the value of options[i], or to "" for a flag
 * that was given; unset ones keep what they were. 0, or -1 after a message: what is no option is
 * refused, a command that takes more takes it out before.
 */
int args_read(const struct kvctl_command *c, int argc, char **argv, const char **values);
/* The number in text within [min, max], or -1 after a message that names `what`. */
int64_t args_number(const char *text, const char *what, int64_t min, int64_t max);

#endif
