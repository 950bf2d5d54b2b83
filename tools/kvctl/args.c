/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a command's options by its table: the same table that its help and the man page are
 * printed from, so that they cannot disagree.
 */
#include "tools/kvctl/kvctl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int args_one(const struct kvctl_command *c, char **argv, int i, int argc,
		    const char **values)
{
	const char *eq = strchr(argv[i], '=');
	size_t name_bytes = eq ? (size_t)(eq - argv[i]) : strlen(argv[i]);

	for (int o = 0; c->options && c->options[o].name; o++) {
		const struct kvctl_option *option = &c->options[o];
		if (strlen(option->name) != name_bytes ||
		    strncmp(option->name, argv[i], name_bytes) != 0)
			continue;
		if (!option->arg) {
			values[o] = "";
			return eq ? -1 : 1;
		}
		if (eq) {
			values[o] = eq + 1;
			return 1;
		}
		if (i + 1 >= argc)
			return -1;
		values[o] = argv[i + 1];
		return 2;
	}
	return -1;
}

int args_read(const struct kvctl_command *c, int argc, char **argv, const char **values)
{
	for (int i = 0; i < argc;) {
		int used = args_one(c, argv, i, argc, values);
		if (used < 0) {
			fprintf(stderr,
				"kvctl: %s: %s is no option of it, or needs a value; see "
				"`kvctl help %s`\n",
				c->name, argv[i], c->name);
			return -1;
		}
		i += used;
	}
	return 0;
}

int64_t args_number(const char *text, const char *what, int64_t min, int64_t max)
{
	char *end;

	errno = 0;
	long long v = strtoll(text, &end, 10);
	if (errno || end == text || *end || v < min || v > max) {
		fprintf(stderr, "kvctl: %s is %s; it must be a number from %lld to %lld\n", what,
			text, (long long)min, (long long)max);
		return -1;
	}
	return v;
}
