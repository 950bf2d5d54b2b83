/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the table of options twice: as text for a terminal, wrapped at 80 columns, and as roff.
 * Words around the table stand here once and serve both. Pure.
 */
#include "engine/settings_help.h"
#include "base/bits.h"
#include "engine/settings.h"
#include <string.h>

#define HELP_COLUMNS 80u

static const char what[] =
	"kvengine serves a language model over an OpenAI-compatible HTTP interface. Its KV cache "
	"lives in kvd: what any engine with the same model on this host has computed once, all of "
	"them find again, without a copy.";

struct entry {
	const char *name;
	const char *text;
};

static const struct entry endings[] = {
	{"0", "ended as asked, by SIGTERM or SIGINT"},
	{"1", "could not start or go on; the log says why"},
	{"2", "an option or the configuration file is wrong"},
};

static const struct entry examples[] = {
	{"kvengine --model SmolLM2-135M-Instruct.Q4_1.gguf", "serve on port 8000"},
	{"kvengine --model M.gguf --kvd require --port 0", "share with the daemon, on a free port"},
	{"kvengine --model M.gguf --print-plan", "see what memory it will take"},
};

static void wrap(FILE *out, const char *text, unsigned indent)
{
	unsigned column = 0;

	while (*text) {
		unsigned word = (unsigned)strcspn(text, " ");

		if (column > 0 && column + 1 + word > HELP_COLUMNS) {
			fputc('\n', out);
			column = 0;
		}
		if (column == 0)
			column = (unsigned)fprintf(out, "%*s", (int)indent, "");
		else
			column += (unsigned)fprintf(out, " ");
		column += (unsigned)fprintf(out, "%.*s", (int)word, text);
		text += word;
		text += strspn(text, " ");
	}
	fputc('\n', out);
}

static void entries_text(FILE *out, const char *title, const struct entry *e, size_t count)
{
	fprintf(out, "\n%s\n", title);
	for (size_t i = 0; i < count; i++) {
		fprintf(out, "  %s\n", e[i].name);
		wrap(out, e[i].text, 6);
	}
}

void settings_help_text(FILE *out)
{
	const char *section = "";

	fprintf(out, "usage: kvengine --model FILE [OPTION]...\n\n");
	wrap(out, what, 0);
	for (size_t i = 0; i < settings_count; i++) {
		const struct settings_row *row = &settings_table[i];

		if (strcmp(section, row->section) != 0)
			fprintf(out, "\n%s\n", row->section);
		section = row->section;
		fprintf(out, "  --%s%s%s\n", row->name, row->arg ? " " : "",
			row->arg ? row->arg : "");
		wrap(out, row->text, 6);
	}
	entries_text(out, "Examples", examples, ARRAY_LEN(examples));
	entries_text(out, "Exit status", endings, ARRAY_LEN(endings));
}

/* roff gives a meaning to '-' and '\', and to '.' and ''' at the start of a line. */
static void roff(FILE *out, const char *text)
{
	if (*text == '.' || *text == '\'')
		fputs("\\&", out);
	for (; *text; text++) {
		if (*text == '-' || *text == '\\')
			fputc('\\', out);
		fputc(*text, out);
	}
}

static void entry_roff(FILE *out, const char *dashes, const char *name, const char *arg,
		       const char *text)
{
	fputs(".TP\n\\fB", out);
	roff(out, dashes);
	roff(out, name);
	fputs("\\fR", out);
	if (arg) {
		fputs(" \\fI", out);
		roff(out, arg);
		fputs("\\fR", out);
	}
	fputc('\n', out);
	roff(out, text);
	fputc('\n', out);
}

static void entries_roff(FILE *out, const char *title, const struct entry *e, size_t count)
{
	fprintf(out, ".SH %s\n", title);
	for (size_t i = 0; i < count; i++)
		entry_roff(out, "", e[i].name, NULL, e[i].text);
}

void settings_help_roff(FILE *out)
{
	const char *section = "";

	fprintf(out, ".TH KVENGINE 1 \"\" \"kvd %s\" \"User Commands\"\n", KVD_VERSION);
	fprintf(out, ".SH NAME\nkvengine \\- inference server whose KV cache is shared by kvd\n");
	fprintf(out, ".SH SYNOPSIS\n.B kvengine\n\\fB\\-\\-model\\fR \\fIFILE\\fR "
		     "[\\fIOPTION\\fR]...\n.SH DESCRIPTION\n");
	roff(out, what);
	fprintf(out, "\n.SH OPTIONS\n");
	for (size_t i = 0; i < settings_count; i++) {
		const struct settings_row *row = &settings_table[i];

		if (strcmp(section, row->section) != 0)
			fprintf(out, ".SS %s\n", row->section);
		section = row->section;
		entry_roff(out, "--", row->name, row->arg, row->text);
	}
	entries_roff(out, "EXAMPLES", examples, ARRAY_LEN(examples));
	entries_roff(out, "EXIT STATUS", endings, ARRAY_LEN(endings));
	fprintf(out, ".SH SEE ALSO\n.BR kvd (1),\n.BR kvctl (1),\n.BR kvbench (1)\n");
}
