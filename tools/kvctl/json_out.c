/* SPDX-License-Identifier: Apache-2.0 */
/* The same records as JSON: full numbers, full digests, ages in seconds. */
#include "tools/kvctl/fields.h"

#include <base/units.h>
#include <stdio.h>
#include <string.h>

static json_t *json_out_digest(const uint8_t *digest)
{
	char text[33];

	for (size_t i = 0; i < 16; i++)
		snprintf(text + 2 * i, 3, "%02x", digest[i]);
	return json_string(text);
}

static json_t *json_out_age(uint64_t then_ns)
{
	uint64_t now_ns = units_now_ns();

	if (then_ns == 0)
		return json_null();
	return json_real((double)(now_ns > then_ns ? now_ns - then_ns : 0) / 1e9);
}

json_t *json_out_record(const struct field *fields, const void *record)
{
	json_t *object = json_object();
	char text[160];

	for (const struct field *f = fields; f->name; f++) {
		json_t *value;
		if (f->kind == FIELD_TEXT || f->kind == FIELD_TIER || f->kind == FIELD_STATE)
			value = json_string(fields_text(f, record, text, sizeof(text)));
		else if (f->kind == FIELD_DIGEST)
			value = json_out_digest((const uint8_t *)record + f->offset);
		else if (f->kind == FIELD_AGE)
			value = json_out_age(fields_number(f, record));
		else
			value = json_integer((json_int_t)fields_number(f, record));
		if (f->kind == FIELD_AGE) {
			size_t n = strlen(f->name) - strlen("_ns");
			snprintf(text, sizeof(text), "%.*s_age_s", (int)n, f->name);
			json_object_set_new(object, text, value);
		} else {
			json_object_set_new(object, f->name, value);
		}
	}
	return object;
}

json_t *json_out_records(const struct field *fields, const void *records, size_t count,
			 size_t record_bytes)
{
	json_t *array = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(
			array, json_out_record(fields, (const char *)records + i * record_bytes));
	return array;
}

void json_out_print(json_t *value)
{
	json_dumpf(value, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
	putchar('\n');
	json_decref(value);
}
