/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One table of fields for each record kind; the people's table, the JSON and the help of a column
 * all come from it.
 */
#ifndef TOOLS_KVCTL_FIELDS_H
#define TOOLS_KVCTL_FIELDS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

enum field_kind {
	FIELD_U32,
	FIELD_U64,
	FIELD_BYTES,  /* u64, shown as 1.50 GiB */
	FIELD_RATE,   /* u64 bytes a second, shown as 1.50 GiB/s */
	FIELD_AGE,    /* u64 CLOCK_MONOTONIC nanoseconds, shown as an age; JSON: seconds */
	FIELD_TEXT,   /* char[width] */
	FIELD_DIGEST, /* uint8_t[16] */
	FIELD_TIER,   /* u32 enum kvd_tier_kind, shown by its name, in JSON too */
	FIELD_STATE,  /* u32 enum kvd_area_state, likewise */
};

struct field {
	const char *name;  /* the JSON key */
	const char *title; /* the column; NULL: JSON only */
	size_t offset;
	enum field_kind kind;
	size_t width; /* of FIELD_TEXT */
};

extern const struct field fields_session[], fields_space[], fields_prefix[], fields_slab[],
	fields_format[], fields_device[], fields_area[];

/* "dram", "file", or "?". */
const char *fields_tier(uint32_t tier);

/* Prints records, one a line under the titles, numbers to the right. */
void table_print(const struct field *fields, const void *records, size_t count,
		 size_t record_bytes);
/* The record as a JSON object; the caller owns it. */
json_t *json_out_record(const struct field *fields, const void *record);
json_t *json_out_records(const struct field *fields, const void *records, size_t count,
			 size_t record_bytes);
/* Prints one JSON value and a newline, and drops it. */
void json_out_print(json_t *value);

/* The value as text, for table and metrics. Text of peers is made printable. */
const char *fields_text(const struct field *f, const void *record, char *out, size_t size);
uint64_t fields_number(const struct field *f, const void *record);

#endif
