/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jansson allocates a node per value, about 50 bytes for the 2 bytes of "1,": a scan in front of
 * it bounds depth and number of values, so that a body of n bytes cannot become a tree of 25 n.
 */
#include "engine/http/body.h"
#include <math.h>
#include <string.h>

struct scan {
	uint32_t depth;
	uint32_t depth_max;
	uint32_t values;
};

/* Returns the index of the closing quote of the string that opens at `at`. */
static size_t scan_string(const char *text, size_t bytes, size_t at)
{
	for (at++; at < bytes && text[at] != '"'; at++)
		if (text[at] == '\\')
			at++;
	return at;
}

/* Counts as far as brackets and commas say; whether it is JSON is jansson's question. */
static struct scan scan_text(const char *text, size_t bytes)
{
	struct scan s = {0};

	for (size_t i = 0; i < bytes; i++) {
		switch (text[i]) {
		case '"':
			i = scan_string(text, bytes, i);
			break;
		case '{':
		case '[':
			s.values++;
			if (++s.depth > s.depth_max)
				s.depth_max = s.depth;
			break;
		case '}':
		case ']':
			s.depth -= s.depth > 0;
			break;
		case ',':
			s.values++;
			break;
		default:
			break;
		}
	}
	return s;
}

int body_parse(const char *text, size_t bytes, json_t **out, struct api_error *e)
{
	const size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL;
	struct scan s = scan_text(text, bytes);
	json_error_t error;

	if (bytes == 0)
		return errors_bad(e, NULL, "the body is empty: send a JSON object");
	if (s.depth_max > BODY_DEPTH_MAX)
		return errors_bad(e, NULL, "the body is nested deeper than %u levels",
				  BODY_DEPTH_MAX);
	if (s.values > BODY_VALUES_MAX)
		return errors_bad(e, NULL, "the body holds more than %u values", BODY_VALUES_MAX);
	json_t *root = json_loadb(text, bytes, flags, &error);
	if (!root)
		return errors_bad(e, NULL, "the body is not JSON: line %d column %d: %s",
				  error.line, error.column, error.text);
	if (!json_is_object(root)) {
		int ret =
			errors_bad(e, NULL, "the body is %s: send a JSON object", body_kind(root));
		json_decref(root);
		return ret;
	}
	*out = root;
	return 0;
}

const char *body_kind(const json_t *v)
{
	static const char *const kind[] = {
		[JSON_OBJECT] = "an object",   [JSON_ARRAY] = "an array",
		[JSON_STRING] = "a string",    [JSON_INTEGER] = "an integer",
		[JSON_REAL] = "a real number", [JSON_TRUE] = "true",
		[JSON_FALSE] = "false",	       [JSON_NULL] = "null"};

	return kind[json_typeof(v)];
}

/* The value, or NULL for absent and null. */
static const json_t *value_at(const json_t *root, const char *key)
{
	const json_t *v = json_object_get(root, key);

	return json_is_null(v) ? NULL : v;
}

int body_bool(const json_t *root, const char *key, bool *out, struct api_error *e)
{
	const json_t *v = value_at(root, key);

	if (!v)
		return 0;
	if (!json_is_boolean(v))
		return errors_bad(e, key, "%s must be true or false, not %s", key, body_kind(v));
	*out = json_is_true(v);
	return 0;
}

/* Some clients send 16.0 where an integer is meant: accepted when it is one. */
static bool whole_number(const json_t *v, int64_t *out)
{
	double r = json_real_value(v);

	if (json_is_integer(v)) {
		*out = json_integer_value(v);
		return true;
	}
	if (!json_is_real(v) || !(fabs(r) <= 0x1p53) || r != floor(r))
		return false;
	*out = (int64_t)r;
	return true;
}

int body_int(const json_t *root, const char *key, int64_t min, int64_t max, int64_t *out,
	     struct api_error *e)
{
	const json_t *v = value_at(root, key);
	int64_t n;

	if (!v)
		return 0;
	if (!whole_number(v, &n))
		return errors_bad(e, key, "%s must be an integer, not %s", key, body_kind(v));
	if (n < min || n > max)
		return errors_bad(e, key, "%s must lie between %lld and %lld, it is %lld", key,
				  (long long)min, (long long)max, (long long)n);
	*out = n;
	return 0;
}

int body_real(const json_t *root, const char *key, double min, double max, double *out,
	      struct api_error *e)
{
	const json_t *v = value_at(root, key);

	if (!v)
		return 0;
	if (!json_is_number(v))
		return errors_bad(e, key, "%s must be a number, not %s", key, body_kind(v));
	double n = json_number_value(v);
	if (!(n >= min && n <= max))
		return errors_bad(e, key, "%s must lie between %g and %g, it is %g", key, min, max,
				  n);
	*out = n;
	return 0;
}

int body_string(const json_t *root, const char *key, const char **out, size_t *out_bytes,
		struct api_error *e)
{
	const json_t *v = value_at(root, key);

	if (!v)
		return 0;
	if (!json_is_string(v))
		return errors_bad(e, key, "%s must be a string, not %s", key, body_kind(v));
	*out = json_string_value(v);
	*out_bytes = json_string_length(v);
	return 0;
}

int body_object(const json_t *root, const char *key, const json_t **out, struct api_error *e)
{
	const json_t *v = value_at(root, key);

	if (!v)
		return 0;
	if (!json_is_object(v))
		return errors_bad(e, key, "%s must be an object, not %s", key, body_kind(v));
	*out = v;
	return 0;
}
