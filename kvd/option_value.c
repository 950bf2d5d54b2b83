/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kinds of option values: one function each, all of the same shape. Each says in `why` what is
 * wrong with the value; the caller knows where it was written. Pure.
 */
#include "kvd/option_value.h"
#include "base/bits.h"
#include "base/log.h"
#include "base/units.h"
#include <string.h>

struct value_args {
	struct options *o;
	const struct option_row *row;
	const char *text;
	char *why;
	size_t size;
};

static void *value_field(const struct value_args *a)
{
	return (char *)a->o + a->row->offset;
}

static int value_bad(const struct value_args *a, const char *wanted)
{
	snprintf(a->why, a->size, "'%.80s' is not %s", a->text, wanted);
	return -EINVAL;
}

static int value_range(const struct value_args *a, uint64_t v)
{
	if (v >= a->row->min && v <= a->row->max)
		return 0;
	snprintf(a->why, a->size, "'%.80s' is out of range: %" PRIu64 " to %" PRIu64, a->text,
		 a->row->min, a->row->max);
	return -EINVAL;
}

static int value_flag(const struct value_args *a)
{
	bool yes = strcmp(a->text, "yes") == 0;

	if (!yes && strcmp(a->text, "no") != 0)
		return value_bad(a, "yes or no");
	*(bool *)value_field(a) = yes;
	return 0;
}

static int value_string(const struct value_args *a)
{
	if (!a->text[0] || strlen(a->text) >= a->row->size) {
		snprintf(a->why, a->size, "wants 1 to %zu characters", a->row->size - 1);
		return -EINVAL;
	}
	strcpy(value_field(a), a->text);
	return 0;
}

static int value_bytes(const struct value_args *a)
{
	uint64_t v;

	if (units_parse_bytes(a->text, &v) < 0)
		return value_bad(a, "a size such as 512MiB or 8GiB");
	int r = value_range(a, v);
	if (r == 0)
		*(uint64_t *)value_field(a) = v;
	return r;
}

static int value_plain(const struct value_args *a, uint64_t *out)
{
	if (units_parse_count(a->text, out) < 0)
		return value_bad(a, "a number");
	return value_range(a, *out);
}

static int value_count(const struct value_args *a)
{
	uint64_t v;
	int r = value_plain(a, &v);

	if (r == 0)
		*(uint64_t *)value_field(a) = v;
	return r;
}

static int value_number(const struct value_args *a)
{
	uint64_t v;
	int r = value_plain(a, &v);

	if (r == 0)
		*(int64_t *)value_field(a) = (int64_t)v;
	return r;
}

static int value_time(const struct value_args *a)
{
	uint64_t v;

	if (units_parse_time(a->text, &v) < 0)
		return value_bad(a, "a time such as 5s or 200ms");
	if (v < a->row->min || v > a->row->max)
		return value_bad(a, "a time between 1ms and one hour");
	*(uint64_t *)value_field(a) = v;
	return 0;
}

static int value_mode(const struct value_args *a)
{
	char *end;
	unsigned long v = strtoul(a->text, &end, 8);

	if (!a->text[0] || *end || v > a->row->max)
		return value_bad(a, "an octal mode such as 0660");
	*(uint32_t *)value_field(a) = (uint32_t)v;
	return 0;
}

static int value_level(const struct value_args *a)
{
	static const char *const names[] = {"error", "warning", "info", "debug"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (strcmp(a->text, names[i]) == 0) {
			*(int *)value_field(a) = (int)i;
			return 0;
		}
	}
	return value_bad(a, "error, warning, info or debug");
}

static int value_uid(const struct value_args *a)
{
	uint64_t v;

	if (units_parse_count(a->text, &v) < 0 || v >= UINT32_MAX)
		return value_bad(a, "a numeric user id");
	if (a->o->uid_count == OPTIONS_UIDS_MAX) {
		snprintf(a->why, a->size, "more than %u", OPTIONS_UIDS_MAX);
		return -EINVAL;
	}
	a->o->uids[a->o->uid_count++] = (uid_t)v;
	return 0;
}

/* Names become file names in the state directory, and appear in logs. */
static bool value_space_name_ok(const char *name)
{
	size_t n =
		strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

	return n > 0 && n < KVD_NAME_MAX && name[n] == '\0' && name[0] != '.';
}

static int value_copy(char *out, const char *text)
{
	strcpy(out, text);
	return 0;
}

static int value_space_key(const struct value_args *a, struct options_space *space, char *word)
{
	char *equals = strchr(word, '=');
	const char *v = equals ? equals + 1 : "";
	int r = -EINVAL;

	if (equals)
		*equals = '\0';
	if (strcmp(word, "floor") == 0)
		r = units_parse_bytes(v, &space->floor_bytes);
	else if (strcmp(word, "ceiling") == 0)
		r = units_parse_bytes(v, &space->ceiling_bytes);
	else if (strcmp(word, "secret-file") == 0 && *v && strlen(v) < sizeof(space->secret_file))
		r = value_copy(space->secret_file, v);
	if (r < 0)
		snprintf(a->why, a->size,
			 "'%.40s': wants secret-file=FILE, floor=BYTES or ceiling=BYTES", word);
	return r < 0 ? -EINVAL : 0;
}

static int value_space_check(const struct value_args *a, const struct options_space *space)
{
	if (!value_space_name_ok(space->name))
		return value_bad(a, "a namespace: a name of letters, digits, '.', '_' and '-'");
	for (uint32_t i = 0; i < a->o->space_count; i++) {
		if (strcmp(a->o->spaces[i].name, space->name) == 0) {
			snprintf(a->why, a->size, "'%s' is named twice", space->name);
			return -EINVAL;
		}
	}
	if (space->ceiling_bytes && space->floor_bytes != UINT64_MAX &&
	    space->floor_bytes > space->ceiling_bytes) {
		snprintf(a->why, a->size, "'%s': the floor is above the ceiling", space->name);
		return -EINVAL;
	}
	return 0;
}

static int value_space(const struct value_args *a)
{
	struct options_space space = {.floor_bytes = UINT64_MAX};
	char text[OPTIONS_PATH_MAX + 160];
	char *save = NULL;

	if (strlen(a->text) >= sizeof(text) || a->o->space_count == OPTIONS_SPACES_MAX) {
		snprintf(a->why, a->size, "too long, or more than %u", OPTIONS_SPACES_MAX);
		return -EINVAL;
	}
	strcpy(text, a->text);
	char *word = strtok_r(text, ",", &save);
	snprintf(space.name, sizeof(space.name), "%s", word ? word : "");
	if (word && strlen(word) >= sizeof(space.name))
		return value_bad(a, "a namespace: the name is too long");
	while ((word = strtok_r(NULL, ",", &save))) {
		int r = value_space_key(a, &space, word);
		if (r < 0)
			return r;
	}
	int r = value_space_check(a, &space);
	if (r == 0)
		a->o->spaces[a->o->space_count++] = space;
	return r;
}

static int value_file(const struct value_args *a)
{
	struct options *o = a->o;

	if (!a->text[0] || strlen(a->text) >= OPTIONS_PATH_MAX) {
		snprintf(a->why, a->size, "wants 1 to %u characters", OPTIONS_PATH_MAX - 1);
		return -EINVAL;
	}
	for (uint32_t i = 0; i < o->file_count; i++) {
		if (strcmp(o->files[i].path, a->text) == 0) {
			snprintf(a->why, a->size, "'%.80s' is named twice", a->text);
			return -EINVAL;
		}
	}
	if (o->file_count == KVD_AREAS_MAX) {
		snprintf(a->why, a->size, "more than %u", KVD_AREAS_MAX);
		return -EINVAL;
	}
	strcpy(o->files[o->file_count++].path, a->text);
	return 0;
}

/* A pair with the --file before it. */
static int value_file_bytes(const struct value_args *a)
{
	struct options *o = a->o;
	uint64_t v;

	if (units_parse_bytes(a->text, &v) < 0)
		return value_bad(a, "a size such as 100GiB");
	int r = value_range(a, v);
	if (r == 0 && (o->file_count == 0 || o->files[o->file_count - 1].bytes)) {
		snprintf(a->why, a->size, "'%.80s' belongs behind the --file whose size it is",
			 a->text);
		r = -EINVAL;
	}
	if (r == 0)
		o->files[o->file_count - 1].bytes = v;
	return r;
}

int option_value_set(struct options *o, const struct option_row *row, const char *value, char *why,
		     size_t size)
{
	static int (*const set[])(const struct value_args *) = {
		[OPTIONS_FLAG] = value_flag,	 [OPTIONS_STRING] = value_string,
		[OPTIONS_BYTES] = value_bytes,	 [OPTIONS_COUNT] = value_count,
		[OPTIONS_NUMBER] = value_number, [OPTIONS_TIME] = value_time,
		[OPTIONS_MODE] = value_mode,	 [OPTIONS_LEVEL] = value_level,
		[OPTIONS_UID] = value_uid,	 [OPTIONS_SPACE] = value_space,
		[OPTIONS_FILE] = value_file,	 [OPTIONS_FILE_BYTES] = value_file_bytes,
	};
	struct value_args args = {o, row, value, why, size};

	return set[row->kind](&args);
}
