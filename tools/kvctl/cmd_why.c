/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kvctl why: what a lookup of these tokens would find, and what ended the hit. Token ids come from
 * a file or stdin, as an engine's /tokenize prints them: numbers between anything else.
 */
#include "tools/kvctl/source.h"

#include <base/bits.h>
#include <base/log.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHY_TOKENS_MAX (KVD_SOCK_PAYLOAD_MAX / sizeof(uint32_t))

static const char *const cmd_why_causes[] = {"hit",
					     "never seen",
					     "evicted",
					     "being computed",
					     "another format",
					     "quarantined",
					     "shorter than one block"};

static int cmd_why_tokens(const char *path, uint32_t *tokens, uint32_t *out_count)
{
	FILE *in = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");
	uint64_t v = 0;
	bool inside = false, fits = true;
	uint32_t n = 0;
	int c;

	if (!in) {
		fprintf(stderr, "kvctl: %s: %s\n", path, strerror(errno));
		return -1;
	}
	do {
		c = fgetc(in);
		if (c >= '0' && c <= '9') {
			v = (inside ? v * 10 : 0) + (uint64_t)(c - '0');
			fits = fits && v <= UINT32_MAX;
			inside = true;
		} else if (inside) {
			fits = fits && n < WHY_TOKENS_MAX;
			if (fits)
				tokens[n++] = (uint32_t)v;
			inside = false;
		}
	} while (c != EOF && fits);
	if (in != stdin)
		fclose(in);
	if (!fits || n == 0) {
		fprintf(stderr, "kvctl: %s: need 1 to %zu token ids, each below 2^32\n", path,
			WHY_TOKENS_MAX);
		return -1;
	}
	*out_count = n;
	return 0;
}

static void cmd_why_print(const struct kvctl *k, const struct kvd_why *w)
{
	char text[240];
	const char *cause = w->cause < ARRAY_LEN(cmd_why_causes) ? cmd_why_causes[w->cause] : "?";

	log_safe(w->text, sizeof(w->text), text, sizeof(text));
	if (k->json) {
		json_t *o = json_pack("{s:s, s:i, s:i, s:i, s:s}", "cause", cause, "hit_tokens",
				      (int)w->hit_tokens, "first_missing_block",
				      (int)w->first_missing_block, "common_run_tokens",
				      (int)w->common_run_tokens, "text", text);
		json_dumpf(o, stdout, JSON_INDENT(2));
		putchar('\n');
		json_decref(o);
		return;
	}
	printf("hit %u tokens", w->hit_tokens);
	if (w->cause != KVD_WHY_HIT)
		printf("; then block %u: %s", w->first_missing_block, cause);
	if (w->common_run_tokens)
		printf("; a cached block shares its first %u tokens", w->common_run_tokens);
	printf("%s%s\n", text[0] ? "\n" : "", text);
}

static int cmd_why_run(struct kvctl *k, int argc, char **argv)
{
	static uint32_t tokens[WHY_TOKENS_MAX];
	const char *values[2] = {NULL, "-"};
	struct kvd_why why;
	struct kvd_rep rep;
	uint32_t n;

	if (args_read(&cmd_why, argc, argv, values) != 0)
		return EXIT_USAGE;
	if (!values[0]) {
		fprintf(stderr, "kvctl: why needs --format ID; see `kvctl formats`\n");
		return EXIT_USAGE;
	}
	int64_t format = args_number(values[0], "--format", 0, UINT32_MAX);
	if (format < 0 || cmd_why_tokens(values[1], tokens, &n) < 0)
		return EXIT_USAGE;
	struct kvd_req req = {.op = KVD_OP_WHY,
			      .format = (uint32_t)format,
			      .n = n,
			      .in_bytes = (uint32_t)(n * sizeof(uint32_t)),
			      .out_bytes = sizeof(why)};
	int err = source_call(k, &req, tokens, &rep, &why, sizeof(why));
	if (err == -EINVAL)
		fprintf(stderr, "kvctl: is there a format %s? see `kvctl formats`\n", values[0]);
	if (err < 0)
		return EXIT_FAILED;
	cmd_why_print(k, &why);
	return EXIT_OK;
}

static const struct kvctl_option cmd_why_options[] = {
	{"--format", "ID", "the format to look in (see `kvctl formats`)"},
	{"--tokens", "FILE", "token ids, as numbers between anything else; default: stdin"},
	{0},
};

const struct kvctl_command cmd_why = {
	.name = "why",
	.args = "--format ID [--tokens FILE]",
	.summary = "explain what a lookup of these tokens would find",
	.text = "Says how far the cached prefix reaches and what ended it: never seen, evicted,\n"
		"being computed, another format. An engine's /tokenize gives the ids.\n",
	.options = cmd_why_options,
	.run = cmd_why_run,
};
