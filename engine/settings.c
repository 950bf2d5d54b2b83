/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads argv and the configuration file by one table. The file has lines `name = value` with the
 * names of the flags; `#` starts a comment; a flag without a value is `name = yes` or `no`. Pure
 * but for reading that file; runs once, before any thread.
 */
#include "engine/settings.h"
#include "base/bits.h"
#include "base/units.h"
#include <string.h>

#define SETTINGS_LINE_MAX 1024
#define AT(field) OPTION_FIELD(struct settings, field)

const struct option_row settings_table[] = {
	{"model", SETTINGS_TEXT, "FILE", "Model", "The model: a GGUF file, version 3.", AT(model)},
	{"served-model-name", SETTINGS_TEXT, "NAME", "Model",
	 "What /v1/models calls it. Default: the name in the file.", AT(served_model_name)},
	{"chat-template", SETTINGS_TEXT, "KIND", "Model",
	 "auto (default): recognise the file's template, refuse an unknown one; chatml: use ChatML "
	 "whatever the file says; none: serve no chat.",
	 AT(chat_template)},
	{"context", SETTINGS_NUMBER, "TOKENS", "Model",
	 "Longest sequence, prompt and answer together. Default: what the model was trained for.",
	 AT(context), 2, 1u << 20},

	{"host", SETTINGS_TEXT, "ADDRESS", "Server",
	 "Address to listen on. There is no authentication: keep it on a loopback or private "
	 "address. Default: 127.0.0.1.",
	 AT(host)},
	{"port", SETTINGS_NUMBER, "PORT", "Server",
	 "Port to listen on; 0 takes a free one and prints it. Default: 8000.", AT(port), 0, 65535},
	{"connections", SETTINGS_NUMBER, "N", "Server", "Connections at once. Default: 256.",
	 AT(connections), 1, 65536},
	{"queue", SETTINGS_NUMBER, "N", "Server",
	 "Requests that may wait; beyond, the server answers 429. Default: 1024.", AT(queue), 1,
	 1u << 20},

	{"threads", SETTINGS_NUMBER, "N", "Compute",
	 "Threads that compute. Results do not depend on it. Default: one per core of this "
	 "process.",
	 AT(threads), 1, 1024},
	{"batch-tokens", SETTINGS_NUMBER, "N", "Compute",
	 "Rows of one step: one for each sequence that generates, the rest for prompts. "
	 "Default: 512.",
	 AT(batch_tokens), 1, 65536},
	{"chunk-tokens", SETTINGS_NUMBER, "N", "Compute",
	 "Prompt tokens of one sequence in one step. Default: 256.", AT(chunk_tokens), 1, 65536},
	{"sequences", SETTINGS_NUMBER, "N", "Compute", "Sequences that run at once. Default: 32.",
	 AT(sequences), 1, 1000},
	{"memory-bytes", SETTINGS_BYTES, "BYTES", "Compute",
	 "Refuse to start if weights and buffers need more. Default: what the machine and the "
	 "control group have left.",
	 AT(memory_bytes), 1, UINT64_MAX},
	{"device", SETTINGS_TEXT, "NAME", "Compute",
	 "Where steps run: cpu, cpu:ISA (amx, avx512bf16 or portable), cuda:N, or auto: the first "
	 "GPU if there is one, else the CPU. KV pages are shared between engines with the same "
	 "kernels only. Default: auto.",
	 AT(device)},
	{"eager", SETTINGS_FLAG, NULL, "Compute",
	 "Record no graphs on a GPU: each step launches its kernels one by one.", AT(eager)},
	{"dtype", SETTINGS_TEXT, "TYPE", "Compute",
	 "What weights are kept in and products take: bf16, fp16 (GPUs only), or auto: fp16 where "
	 "all of the file's matrices are F16 and the device can, else bf16. Sums are f32, K and V "
	 "bf16; engines with different types share no pages. Default: auto.",
	 AT(dtype)},
	{"overlap", SETTINGS_TEXT, "ON", "Compute",
	 "on: choose and submit the next step while a GPU computes one; off: when that one has "
	 "ended. Answers do not depend on it. Default: on.",
	 AT(overlap)},

	{"kvd", SETTINGS_TEXT, "MODE", "KV cache",
	 "auto (default): the daemon if there is one, else a private one that ends with this "
	 "process; require: the daemon or nothing; private: a private one.",
	 AT(kvd)},
	{"socket", SETTINGS_TEXT, "PATH", "KV cache",
	 "The daemon's socket; implies --kvd require. Default: $KVD_SOCKET, /run/kvd/kvd.sock, "
	 "then the user's runtime directory.",
	 AT(socket)},
	{"namespace", SETTINGS_TEXT, "NAME", "KV cache",
	 "The tenant whose pages are shared. Default: default.", AT(space)},
	{"secret-file", SETTINGS_TEXT, "FILE", "KV cache",
	 "Holds the namespace's secret, at most 64 bytes.", AT(secret_file)},
	{"name", SETTINGS_TEXT, "NAME", "KV cache",
	 "What kvctl shows for this engine. Default: kvengine.", AT(name)},
	{"page-tokens", SETTINGS_NUMBER, "N", "KV cache",
	 "Tokens of one page: 16, 32, 64 or 128. Engines share only with the same number. "
	 "Default: 64.",
	 AT(page_tokens), 16, 128},
	{"kvd-wait", SETTINGS_TIME, "TIME", "KV cache",
	 "How long requests wait for a daemon that died. Default: 30s.", AT(kvd_wait_ns), 1,
	 UINT64_MAX},
	{"pool-bytes", SETTINGS_BYTES, "BYTES", "KV cache",
	 "Pool of a private daemon. Default: the daemon's own default.", AT(pool_bytes), 1,
	 UINT64_MAX},
	{"kvd-program", SETTINGS_TEXT, "FILE", "KV cache",
	 "The program of a private daemon. Default: kvd beside this program (or in its build "
	 "folder), "
	 "else in PATH.",
	 AT(kvd_program)},

	{"config", SETTINGS_TEXT, "FILE", "General",
	 "Read options from FILE: lines `name = value` with the names of these flags; `#` starts a "
	 "comment. The command line wins.",
	 AT(config), .command_line = true},
	{"check-config", SETTINGS_FLAG, NULL, "General",
	 "Check everything that was given, load nothing, and exit.", AT(check_config),
	 .command_line = true},
	{"print-plan", SETTINGS_FLAG, NULL, "General",
	 "Load the model, print every buffer with its bytes, and exit.", AT(print_plan),
	 .command_line = true},
	{"ready-fd", SETTINGS_NUMBER, "FD", "General",
	 "Write `ready URL` to this descriptor when requests are served, then close it.",
	 AT(ready_fd), 0, 65535},
	{"log-level", SETTINGS_TEXT, "LEVEL", "General",
	 "error, warning, info (default) or debug. The log goes to stderr.", AT(log_level)},
	{"help", SETTINGS_FLAG, NULL, "General", "Print this text and exit.", AT(help),
	 .command_line = true},
	{"help-man", SETTINGS_FLAG, NULL, "General", "Print the manual page as roff and exit.",
	 AT(help_man), .command_line = true},
	{"version", SETTINGS_FLAG, NULL, "General", "Print the version and exit.", AT(version),
	 .command_line = true},
};
const size_t settings_count = ARRAY_LEN(settings_table);

static int set_number(const struct option_row *row, const char *value, uint64_t *out)
{
	uint64_t v;
	int r;

	if (row->kind == SETTINGS_BYTES)
		r = units_parse_bytes(value, &v);
	else if (row->kind == SETTINGS_TIME)
		r = units_parse_time(value, &v);
	else
		r = units_parse_count(value, &v);
	if (r < 0)
		return r;
	if (v < row->min || v > row->max)
		return -ERANGE;
	*out = v;
	return 0;
}

static int set_flag(const char *value, bool *out)
{
	bool yes = strcmp(value, "yes") == 0 || strcmp(value, "true") == 0;

	if (!yes && strcmp(value, "no") != 0 && strcmp(value, "false") != 0)
		return -EINVAL;
	*out = yes;
	return 0;
}

/* `where` opens the message: "--port", or "FILE:LINE: port". */
static int set(struct settings *s, const struct option_row *row, const char *where,
	       const char *value, char *error, size_t size)
{
	static const char *const looks[] = {[SETTINGS_FLAG] = "yes or no",
					    [SETTINGS_NUMBER] = "a number",
					    [SETTINGS_BYTES] = "a size as 512MiB",
					    [SETTINGS_TIME] = "a time as 30s"};
	void *field = (char *)s + row->offset;
	int r = 0;

	if (row->kind == SETTINGS_FLAG)
		r = set_flag(value, field);
	else if (row->kind != SETTINGS_TEXT)
		r = set_number(row, value, field);
	else if (strlen(value) >= row->size)
		r = -ERANGE;
	else
		memcpy(field, value, strlen(value) + 1);
	if (r == -ERANGE && row->kind == SETTINGS_TEXT)
		snprintf(error, size, "%s: longer than %zu bytes", where, row->size - 1);
	else if (r == -ERANGE)
		snprintf(error, size, "%s: %s is outside %" PRIu64 " .. %" PRIu64, where, value,
			 row->min, row->max);
	else if (r < 0)
		snprintf(error, size, "%s: `%s` is not %s", where, value, looks[row->kind]);
	return r < 0 ? -EINVAL : 0;
}

static int parse_line(struct settings *s, char *line, const char *where, char *error, size_t size)
{
	char full[SETTINGS_LINE_MAX + SETTINGS_TEXT_MAX + 32];

	char *name = option_trim(line);

	if (*name == '\0')
		return 0;
	char *value = strchr(name, '=');

	if (value)
		*value++ = '\0';
	name = option_trim(name);
	const struct option_row *row =
		option_find(settings_table, settings_count, name, strlen(name));

	snprintf(full, sizeof(full), "%s: %s", where, name);
	if (!row || row->command_line) {
		snprintf(error, size, "%s: there is no such option in a file; see --help", full);
		return -EINVAL;
	}
	if (!value) {
		snprintf(error, size, "%s: needs `= value`", full);
		return -EINVAL;
	}
	return set(s, row, full, option_trim(value), error, size);
}

static int parse_file(struct settings *s, const char *path, char *error, size_t size)
{
	char line[SETTINGS_LINE_MAX], where[SETTINGS_TEXT_MAX + 16];
	FILE *f = fopen(path, "re");
	int r = 0;

	if (!f) {
		snprintf(error, size, "--config %s: %s", path, strerror(errno));
		return -EINVAL;
	}
	for (unsigned number = 1; r == 0 && fgets(line, sizeof(line), f); number++) {
		snprintf(where, sizeof(where), "%s:%u", path, number);
		if (!strchr(line, '\n') && !feof(f)) {
			snprintf(error, size, "%s: the line is too long", where);
			r = -EINVAL;
		} else {
			r = parse_line(s, line, where, error, size);
		}
	}
	fclose(f);
	return r;
}

/* The option at argv[*i], which steps over its value. */
static int parse_arg(struct settings *s, int argc, char **argv, int *i, char *error, size_t size)
{
	const char *arg = argv[*i];
	const char *value;
	const struct option_row *row =
		option_word(settings_table, settings_count, argc, argv, i, &value);
	char where[64];

	if (!row) {
		snprintf(error, size, "%s: there is no such option; see --help", arg);
		return -EINVAL;
	}
	snprintf(where, sizeof(where), "--%s", row->name);
	if (!value) {
		snprintf(error, size, "%s: needs %s", where, row->arg);
		return -EINVAL;
	}
	return set(s, row, where, value, error, size);
}

static int parse_args(struct settings *s, int argc, char **argv, char *error, size_t size)
{
	int r = 0;

	for (int i = 1; r == 0 && i < argc; i++)
		r = parse_arg(s, argc, argv, &i, error, size);
	return r;
}

int settings_parse(struct settings *s, int argc, char **argv, char *error, size_t size)
{
	/* Once to learn the file's name, and once more because argv wins over it. */
	*s = (struct settings){.port = 8000, .host = "127.0.0.1", .ready_fd = UINT64_MAX};
	int r = parse_args(s, argc, argv, error, size);

	if (r < 0 || !s->config[0])
		return r;
	r = parse_file(s, s->config, error, size);
	return r < 0 ? r : parse_args(s, argc, argv, error, size);
}
