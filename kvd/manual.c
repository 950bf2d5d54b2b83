/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words around the table of options, once for --help and for the manual page. Pure.
 */
#include "kvd/manual.h"
#include "base/bits.h"
#include "kvd/options.h"

static const char manual_what[] =
	"kvd owns the memory of the KV caches of one host. Inference engines lease pages from it, "
	"compute into them and share them: a prefix that one engine has computed costs the next "
	"one a reference count. One daemon serves a host; engines find it by its socket.";

static const struct option_entry manual_files[] = {
	{"/run/kvd/kvd.sock", "the socket of a daemon that runs as root or as a service"},
	{"kvd.status", "beside the socket: figures for kvctl, readable without asking the daemon"},
	{"kvd.lock", "beside the socket: held by the daemon that runs"},
	{"--file", "holds blocks, and a journal of them that the next daemon reads"},
	{"seed-NAME", "in the state directory: the key seed of a namespace"},
};

static const struct option_entry manual_exit[] = {
	{"0", "ended as asked, by SIGTERM, SIGINT or the private peer's end"},
	{"1", "could not start or go on; the log says why"},
	{"2", "an option or the configuration file is wrong"},
};

static const struct option_entry manual_environment[] = {
	{"XDG_RUNTIME_DIR, XDG_STATE_HOME", "where an ordinary user's daemon keeps its files"},
	{"KVD_MODULE_DIR", "where modules for other device memories are looked for"},
	{"NOTIFY_SOCKET", "set by systemd: the daemon says when it is ready"},
};

static const struct option_list manual_lists[] = {
	{"Files", "FILES", manual_files, ARRAY_LEN(manual_files)},
	{"Environment", "ENVIRONMENT", manual_environment, ARRAY_LEN(manual_environment)},
	{"Exit status", "\"EXIT STATUS\"", manual_exit, ARRAY_LEN(manual_exit)},
};

static struct option_manual manual_all(void)
{
	return (struct option_manual){
		.usage = "kvd [OPTION]...",
		.what = manual_what,
		.rows = options_table,
		.row_count = options_count,
		.lists = manual_lists,
		.list_count = ARRAY_LEN(manual_lists),
		.roff_head = ".TH KVD 8 \"\" \"kvd " KVD_VERSION "\" \"System administration\"\n"
			     ".SH NAME\nkvd \\- daemon that owns the KV cache memory of a host\n"
			     ".SH SYNOPSIS\n.B kvd\n[\\fIOPTION\\fR]...\n.SH DESCRIPTION\n",
		.roff_tail = ".SH \"SEE ALSO\"\nkvctl(1), kvengine(1)\n",
	};
}

void manual_help(FILE *out)
{
	struct option_manual m = manual_all();

	option_print_help(out, &m);
}

void manual_roff(FILE *out)
{
	struct option_manual m = manual_all();

	option_print_roff(out, &m);
}
