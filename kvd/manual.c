/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the table of options twice: as text for a terminal, wrapped at 80 columns, and as roff.
 * The words around the table stand here once, as paragraphs that both forms use. Pure.
 */
#include "kvd/manual.h"
#include "base/bits.h"
#include "kvd/options.h"
#include <string.h>

#define MANUAL_COLUMNS 80

static const char manual_what[] =
	"kvd owns the memory of the KV caches of one host. Inference engines lease pages from it, "
	"compute into them and share them: a prefix that one engine has computed costs the next "
	"one a reference count. One daemon serves a host; engines find it by its socket.";

struct manual_entry {
	const char *name;
	const char *text;
};

static const struct manual_entry manual_files[] = {
	{"/run/kvd/kvd.sock", "the socket of a daemon that runs as root or as a service"},
	{"kvd.status", "beside the socket: figures for kvctl, readable without asking the daemon"},
	{"kvd.lock", "beside the socket: held by the daemon that runs"},
	{"seed-NAME", "in the state directory: the key seed of a namespace"},
};

static const struct manual_entry manual_exit[] = {
	{"0", "ended as asked, by SIGTERM, SIGINT or the private peer's end"},
	{"1", "could not start or go on; the log says why"},
	{"2", "an option or the configuration file is wrong"},
};

static const struct manual_entry manual_environment[] = {
	{"XDG_RUNTIME_DIR, XDG_STATE_HOME", "where an ordinary user's daemon keeps its files"},
	{"KVD_MODULE_DIR", "where modules for other device memories are looked for"},
	{"NOTIFY_SOCKET", "set by systemd: the daemon says when it is ready"},
};

/* Prints words up to the right margin, each line indented. */
static void manual_wrap(FILE *out, const char *text, int indent)
{
	int column = 0;

	while (*text) {
		int word = (int)strcspn(text, " ");
		if (column && column + 1 + word > MANUAL_COLUMNS) {
			fputc('\n', out);
			column = 0;
		}
		if (column == 0)
			column = fprintf(out, "%*s%.*s", indent, "", word, text);
		else
			column += fprintf(out, " %.*s", word, text);
		text += word;
		text += strspn(text, " ");
	}
	fputc('\n', out);
}

static void manual_entries(FILE *out, const char *title, const struct manual_entry *e, size_t n)
{
	fprintf(out, "\n%s\n", title);
	for (size_t i = 0; i < n; i++) {
		fprintf(out, "  %s\n", e[i].name);
		manual_wrap(out, e[i].text, 6);
	}
}

void manual_help(FILE *out)
{
	const char *section = "";

	fprintf(out, "usage: kvd [OPTION]...\n\n");
	manual_wrap(out, manual_what, 0);
	for (size_t i = 0; i < options_count; i++) {
		const struct options_row *row = &options_table[i];
		if (strcmp(section, row->section) != 0)
			fprintf(out, "\n%s\n", row->section);
		section = row->section;
		fprintf(out, "  --%s%s%s\n", row->name, row->arg ? " " : "",
			row->arg ? row->arg : "");
		manual_wrap(out, row->text, 6);
	}
	manual_entries(out, "Files", manual_files, ARRAY_LEN(manual_files));
	manual_entries(out, "Environment", manual_environment, ARRAY_LEN(manual_environment));
	manual_entries(out, "Exit status", manual_exit, ARRAY_LEN(manual_exit));
}

/* roff gives a meaning to '-' and '\', and to '.' and ''' at the start of a line. */
static void manual_escape(FILE *out, const char *text)
{
	if (*text == '.' || *text == '\'')
		fputs("\\&", out);
	for (; *text; text++) {
		if (*text == '-' || *text == '\\')
			fputc('\\', out);
		fputc(*text, out);
	}
}

static void manual_man_entry(FILE *out, const char *name, const char *arg, const char *text)
{
	fputs(".TP\n\\fB", out);
	manual_escape(out, name);
	fputs("\\fR", out);
	if (arg) {
		fputs(" \\fI", out);
		manual_escape(out, arg);
		fputs("\\fR", out);
	}
	fputc('\n', out);
	manual_escape(out, text);
	fputc('\n', out);
}

static void manual_man_entries(FILE *out, const char *title, const struct manual_entry *e, size_t n)
{
	fprintf(out, ".SH %s\n", title);
	for (size_t i = 0; i < n; i++)
		manual_man_entry(out, e[i].name, NULL, e[i].text);
}

void manual_roff(FILE *out)
{
	const char *section = "";
	char name[64];

	fprintf(out, ".TH KVD 8 \"\" \"kvd " KVD_VERSION "\" \"System administration\"\n");
	fprintf(out, ".SH NAME\nkvd \\- daemon that owns the KV cache memory of a host\n");
	fprintf(out, ".SH SYNOPSIS\n.B kvd\n[\\fIOPTION\\fR]...\n.SH DESCRIPTION\n");
	manual_escape(out, manual_what);
	fprintf(out, "\n.SH OPTIONS\n");
	for (size_t i = 0; i < options_count; i++) {
		const struct options_row *row = &options_table[i];
		if (strcmp(section, row->section) != 0)
			fprintf(out, ".SS %s\n", row->section);
		section = row->section;
		snprintf(name, sizeof(name), "--%s", row->name);
		manual_man_entry(out, name, row->arg, row->text);
	}
	manual_man_entries(out, "FILES", manual_files, ARRAY_LEN(manual_files));
	manual_man_entries(out, "ENVIRONMENT", manual_environment, ARRAY_LEN(manual_environment));
	manual_man_entries(out, "\"EXIT STATUS\"", manual_exit, ARRAY_LEN(manual_exit));
	fprintf(out, ".SH \"SEE ALSO\"\nkvctl(1), kvengine(1)\n");
}
