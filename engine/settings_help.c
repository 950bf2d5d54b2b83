/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words around the table of options, once for --help and for the manual page. Pure.
 */
#include "engine/settings_help.h"
#include "base/bits.h"
#include "engine/settings.h"

static const char what[] =
	"kvengine serves a language model over an OpenAI-compatible HTTP interface. Its KV cache "
	"lives in kvd: what any engine with the same model on this host has computed once, all of "
	"them find again, without a copy.";

static const struct option_entry endings[] = {
	{"0", "ended as asked, by SIGTERM or SIGINT"},
	{"1", "could not start or go on; the log says why"},
	{"2", "an option or the configuration file is wrong"},
};

static const struct option_entry examples[] = {
	{"kvengine --model SmolLM2-135M-Instruct.Q4_1.gguf", "serve on port 8000"},
	{"kvengine --model M.gguf --kvd require --port 0", "share with the daemon, on a free port"},
	{"kvengine --model M.gguf --print-plan", "see what memory it will take"},
};

static const struct option_list lists[] = {
	{"Examples", "EXAMPLES", examples, ARRAY_LEN(examples)},
	{"Exit status", "EXIT STATUS", endings, ARRAY_LEN(endings)},
};

static struct option_manual manual(void)
{
	return (struct option_manual){
		.usage = "kvengine --model FILE [OPTION]...",
		.what = what,
		.rows = settings_table,
		.row_count = settings_count,
		.lists = lists,
		.list_count = ARRAY_LEN(lists),
		.roff_head =
			".TH KVENGINE 1 \"\" \"kvd " KVD_VERSION "\" \"User Commands\"\n"
			".SH NAME\nkvengine \\- inference server whose KV cache is shared by kvd\n"
			".SH SYNOPSIS\n.B kvengine\n\\fB\\-\\-model\\fR \\fIFILE\\fR "
			"[\\fIOPTION\\fR]...\n.SH DESCRIPTION\n",
		.roff_tail = ".SH SEE ALSO\n.BR kvd (1),\n.BR kvctl (1),\n.BR kvbench (1)\n",
	};
}

void settings_help_text(FILE *out)
{
	struct option_manual m = manual();

	option_print_help(out, &m);
}

void settings_help_roff(FILE *out)
{
	struct option_manual m = manual();

	option_print_roff(out, &m);
}
