/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program's options as one table: rows are found by their names in argv and in a file, and are
 * printed as --help (wrapped for a terminal) and as a manual page (roff). What a kind of value
 * is, and what a mistake is told, the program says.
 */
#ifndef BASE_OPTION_H
#define BASE_OPTION_H

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define OPTION_COLUMNS 80
/* Place and size of a row's field. */
#define OPTION_FIELD(type, field) offsetof(type, field), sizeof(((type *)0)->field)

struct option_row {
	const char *name;  /* without the dashes; also the name in the file */
	unsigned int kind; /* of the program's own kinds */
	const char *arg;   /* how help calls the value; NULL: a flag, takes none */
	const char *section;
	const char *text;
	size_t offset;
	size_t size;
	uint64_t min, max; /* of numbers */
	bool command_line; /* not in the file */
};

struct option_entry {
	const char *name;
	const char *text;
};

struct option_list {
	const char *title;
	const char *roff_title;
	const struct option_entry *entries;
	size_t count;
};

/* The table and the words around it; the roff_ parts are printed as they are. */
struct option_manual {
	const char *usage;
	const char *what; /* a paragraph */
	const struct option_row *rows;
	size_t row_count;
	const struct option_list *lists;
	size_t list_count;
	const char *roff_head; /* up to the heading of `what` */
	const char *roff_tail;
};

static inline const struct option_row *option_find(const struct option_row *rows, size_t count,
						   const char *name, size_t name_bytes)
{
	for (size_t i = 0; i < count; i++)
		if (strlen(rows[i].name) == name_bytes &&
		    memcmp(rows[i].name, name, name_bytes) == 0)
			return &rows[i];
	return NULL;
}

/*
 * The row of `--name`, `--name=value` or `--name value` at argv[*at], which steps over the value;
 * NULL: there is none. A flag alone has the value "yes"; *value is NULL if one is missing.
 */
static inline const struct option_row *option_word(const struct option_row *rows, size_t count,
						   int argc, char **argv, int *at,
						   const char **value)
{
	const char *word = argv[*at];
	size_t bytes = strcspn(word, "=");
	const struct option_row *row = NULL;

	if (strncmp(word, "--", 2) == 0)
		row = option_find(rows, count, word + 2, bytes - 2);
	if (!row)
		return NULL;
	*value = row->arg ? NULL : "yes";
	if (word[bytes])
		*value = word + bytes + 1;
	else if (row->arg && *at + 1 < argc)
		*value = argv[++*at];
	return row;
}

/* Cuts a comment and blanks off; returns the start. */
static inline char *option_trim(char *text)
{
	text[strcspn(text, "#")] = '\0';
	while (isspace((unsigned char)*text))
		text++;
	for (size_t n = strlen(text); n > 0 && isspace((unsigned char)text[n - 1]); n--)
		text[n - 1] = '\0';
	return text;
}

/* Prints words up to the right margin, each line indented. */
static inline void option_wrap(FILE *out, const char *text, int indent)
{
	int column = 0;

	while (*text) {
		int word = (int)strcspn(text, " ");

		if (column && column + 1 + word > OPTION_COLUMNS) {
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

static inline void option_print_help(FILE *out, const struct option_manual *m)
{
	const char *section = "";

	fprintf(out, "usage: %s\n\n", m->usage);
	option_wrap(out, m->what, 0);
	for (const struct option_row *row = m->rows; row < m->rows + m->row_count; row++) {
		if (strcmp(section, row->section) != 0)
			fprintf(out, "\n%s\n", row->section);
		section = row->section;
		fprintf(out, "  --%s%s%s\n", row->name, row->arg ? " " : "",
			row->arg ? row->arg : "");
		option_wrap(out, row->text, 6);
	}
	for (const struct option_list *l = m->lists; l < m->lists + m->list_count; l++) {
		fprintf(out, "\n%s\n", l->title);
		for (size_t i = 0; i < l->count; i++) {
			fprintf(out, "  %s\n", l->entries[i].name);
			option_wrap(out, l->entries[i].text, 6);
		}
	}
}

/* roff gives a meaning to '-' and '\', and to '.' and ''' at the start of a line. */
static inline void option_roff(FILE *out, const char *text)
{
	if (*text == '.' || *text == '\'')
		fputs("\\&", out);
	for (; *text; text++) {
		if (*text == '-' || *text == '\\')
			fputc('\\', out);
		fputc(*text, out);
	}
}

static inline void option_roff_entry(FILE *out, const char *dashes, const char *name,
				     const char *arg, const char *text)
{
	fputs(".TP\n\\fB", out);
	option_roff(out, dashes);
	option_roff(out, name);
	fputs("\\fR", out);
	if (arg) {
		fputs(" \\fI", out);
		option_roff(out, arg);
		fputs("\\fR", out);
	}
	fputc('\n', out);
	option_roff(out, text);
	fputc('\n', out);
}

static inline void option_print_roff(FILE *out, const struct option_manual *m)
{
	const char *section = "";

	fputs(m->roff_head, out);
	option_roff(out, m->what);
	fprintf(out, "\n.SH OPTIONS\n");
	for (const struct option_row *row = m->rows; row < m->rows + m->row_count; row++) {
		if (strcmp(section, row->section) != 0)
			fprintf(out, ".SS %s\n", row->section);
		section = row->section;
		option_roff_entry(out, "--", row->name, row->arg, row->text);
	}
	for (const struct option_list *l = m->lists; l < m->lists + m->list_count; l++) {
		fprintf(out, ".SH %s\n", l->roff_title);
		for (size_t i = 0; i < l->count; i++)
			option_roff_entry(out, "", l->entries[i].name, NULL, l->entries[i].text);
	}
	fputs(m->roff_tail, out);
}

#endif
