/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of doctor share: each looks at something and says a line about it. */
#ifndef TOOLS_KVCTL_CMD_DOCTOR_H
#define TOOLS_KVCTL_CMD_DOCTOR_H

#include "tools/kvctl/kvctl.h"

enum doctor_grade { DOCTOR_GOOD, DOCTOR_WARN, DOCTOR_BAD };

struct doctor {
	const struct kvctl *k;
	json_t *rows;
	enum doctor_grade worst;
};

/* `todo` is what to do about it, unless it is good. */
__attribute__((format(printf, 5, 6))) void cmd_doctor_say(struct doctor *d, enum doctor_grade grade,
							  const char *what, const char *todo,
							  const char *format, ...);
/* The number in that file, or -1. */
long cmd_doctor_number(const char *path);
/* Whether this user, here, may have an io_uring. */
void cmd_doctor_io_uring(struct doctor *d);
/* How a running daemon does its file I/O, and how its files are. */
void cmd_doctor_tiers(struct doctor *d, const struct kvd_status *s);

#endif
