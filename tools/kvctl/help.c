/* SPDX-License-Identifier: Apache-2.0 */
/* Prints `kvctl --help`, `kvctl help NAME` and the man page, all from the tables in main.c. */
#include "tools/kvctl/help.h"

#include <stdio.h>

static const struct kvctl_option help_global[] = {
	{"--socket", "PATH",
	 "the daemon's socket; default: $KVD_SOCKET, /run/kvd/kvd.sock, "
	 "$XDG_RUNTIME_DIR/kvd/kvd.sock,"
	 " /tmp/kvd-UID/kvd.sock"},
	{"--json", NULL, "print JSON; works with every command but top and metrics"},
	{"--help", NULL, "this help; `kvctl help COMMAND` tells more"},
	{"--help-man", NULL, "the man page, as roff"},
	{"--version", NULL, "print the version"},
	{0},
};

static void help_options(const struct kvctl_option *options)
{
	for (; options && options->name; options++) {
		char left[40];
		snprintf(left, sizeof(left), "%s%s%s", options->name, options->arg ? " " : "",
			 options->arg ? options->arg : "");
		printf("  %-22s %s\n", left, options->help);
	}
}

void help_program(void)
{
	printf("usage: kvctl [--socket PATH] [--json] COMMAND [OPTION]...\n\n"
	       "Looks inside the kvd daemon of this host, and steers it.\n\n");
	for (size_t i = 0; main_commands[i]; i++)
		printf("  %-10s %s\n", main_commands[i]->name, main_commands[i]->summary);
	printf("\n");
	help_options(help_global);
	printf("\nExit status: 0 ok, 1 failed, 2 usage.\n");
}

void help_command(const struct kvctl_command *c)
{
	printf("usage: kvctl %s%s%s\n\n%s.\n%s", c->name, c->args ? " " : "",
	       c->args ? c->args : "", c->summary, c->text);
	if (c->options)
		printf("\n");
	help_options(c->options);
}

static void help_man_options(const struct kvctl_option *options)
{
	for (; options && options->name; options++)
		printf(".TP\n.B %s%s%s\n%s\n", options->name, options->arg ? " " : "",
		       options->arg ? options->arg : "", options->help);
}

void help_man(void)
{
	printf(".TH KVCTL 1 \"\" \"kvd %s\"\n.SH NAME\nkvctl \\- look inside kvd and steer it\n"
	       ".SH SYNOPSIS\n.B kvctl\n[--socket PATH] [--json] COMMAND [OPTION]...\n"
	       ".SH OPTIONS\n",
	       kvd_version());
	help_man_options(help_global);
	printf(".SH COMMANDS\n");
	for (size_t i = 0; main_commands[i]; i++) {
		const struct kvctl_command *c = main_commands[i];
		printf(".SS %s %s\n%s.\n%s", c->name, c->args ? c->args : "", c->summary, c->text);
		help_man_options(c->options);
	}
	printf(".SH EXIT STATUS\n0 ok, 1 failed, 2 usage.\n.SH SEE ALSO\nkvd(1), kvengine(1)\n");
}
