/* SPDX-License-Identifier: Apache-2.0 */
/* kvctl: reads the global options, finds the command, runs it. */
#include "tools/kvctl/help.h"
#include "tools/kvctl/kvctl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

const struct kvctl_command *const main_commands[] = {
	&cmd_status, &cmd_top,	  &cmd_sessions, &cmd_prefixes, &cmd_slabs, &cmd_formats,
	&cmd_spaces, &cmd_tiers,  &cmd_metrics,	 &cmd_doctor,	&cmd_check, &cmd_why,
	&cmd_evict,  &cmd_verify, &cmd_drain,	 NULL,
};

static const struct kvctl_command *main_find(const char *name)
{
	for (size_t i = 0; main_commands[i]; i++)
		if (strcmp(main_commands[i]->name, name) == 0)
			return main_commands[i];
	return NULL;
}

static int main_help(const char *name)
{
	const struct kvctl_command *c = name ? main_find(name) : NULL;

	if (name && !c) {
		fprintf(stderr, "kvctl: there is no command %s; see kvctl --help\n", name);
		return EXIT_USAGE;
	}
	if (c)
		help_command(c);
	else
		help_program();
	return EXIT_OK;
}

/* Takes --json and --socket out of argv, wherever they stand. The new argc, or -1. */
static int main_globals(struct kvctl *k, int argc, char **argv)
{
	int kept = 0;

	for (int i = 0; i < argc; i++) {
		if (strcmp(argv[i], "--json") == 0) {
			k->json = true;
		} else if (strncmp(argv[i], "--socket=", 9) == 0) {
			k->socket = argv[i] + 9;
		} else if (strcmp(argv[i], "--socket") == 0) {
			if (i + 1 >= argc) {
				fprintf(stderr, "kvctl: --socket needs a path\n");
				return -1;
			}
			k->socket = argv[++i];
		} else {
			argv[kept++] = argv[i];
		}
	}
	argv[kept] = NULL;
	return kept;
}

static int main_run(struct kvctl *k, int argc, char **argv)
{
	const struct kvctl_command *c = main_find(argv[0]);

	if (!c) {
		fprintf(stderr, "kvctl: there is no command %s; see kvctl --help\n", argv[0]);
		return EXIT_USAGE;
	}
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			return main_help(argv[0]);
	if (kvd_socket_path(k->socket, k->path, sizeof(k->path)) < 0) {
		fprintf(stderr, "kvctl: %s\n", kvd_last_error());
		return EXIT_FAILED;
	}
	int status = c->run(k, argc - 1, argv + 1);
	if (status == EXIT_USAGE)
		fprintf(stderr, "usage: kvctl %s%s%s\n", c->name, c->args ? " " : "",
			c->args ? c->args : "");
	if (fflush(stdout) != 0 || ferror(stdout)) {
		fprintf(stderr, "kvctl: cannot write: %s\n", strerror(errno));
		return EXIT_FAILED;
	}
	return status;
}

int main(int argc, char **argv)
{
	struct kvctl k = {0};

	argc = main_globals(&k, argc - 1, argv + 1);
	argv++;
	if (argc < 0)
		return EXIT_USAGE;
	if (argc == 0) {
		help_program();
		return EXIT_USAGE;
	}
	if (strcmp(argv[0], "--version") == 0)
		printf("kvctl %s\n", kvd_version());
	else if (strcmp(argv[0], "--help-man") == 0)
		help_man();
	else if (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0)
		return main_help(NULL);
	else if (strcmp(argv[0], "help") == 0)
		return main_help(argc > 1 ? argv[1] : NULL);
	else
		return main_run(&k, argc, argv);
	return EXIT_OK;
}
