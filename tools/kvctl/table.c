/* SPDX-License-Identifier: Apache-2.0 */
/* Prints records as aligned columns: text to the left, numbers to the right. */
#include "tools/kvctl/fields.h"

#include <base/bits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define TABLE_COLUMNS_MAX 24
#define TABLE_CELL_MAX 160

static bool table_left(const struct field *f)
{
	return f->kind == FIELD_TEXT || f->kind == FIELD_DIGEST || f->kind == FIELD_TIER ||
	       f->kind == FIELD_STATE;
}

void table_print(const struct field *fields, const void *records, size_t count, size_t record_bytes)
{
	int width[TABLE_COLUMNS_MAX] = {0};
	char cell[TABLE_CELL_MAX];

	for (size_t c = 0; fields[c].name; c++) {
		if (!fields[c].title)
			continue;
		width[c] = (int)strlen(fields[c].title);
		for (size_t i = 0; i < count; i++) {
			const char *record = (const char *)records + i * record_bytes;
			int n = (int)strlen(fields_text(&fields[c], record, cell, sizeof(cell)));
			width[c] = BITS_MAX(width[c], n);
		}
	}
	for (size_t i = 0; i <= count; i++) {
		const char *record = i == 0 ? NULL : (const char *)records + (i - 1) * record_bytes;
		for (size_t c = 0; fields[c].name; c++) {
			if (!fields[c].title)
				continue;
			const char *text =
				i == 0 ? fields[c].title
				       : fields_text(&fields[c], record, cell, sizeof(cell));
			int w = table_left(&fields[c]) ? -width[c] : width[c];
			printf("%s%*s", c ? "  " : "", w, text);
		}
		putchar('\n');
	}
}
