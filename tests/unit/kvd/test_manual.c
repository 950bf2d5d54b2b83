/* SPDX-License-Identifier: Apache-2.0 */
/* --help and the manual page name every option, and keep to the width of a terminal. */
#include "kvd/manual.h"
#include "kvd/options.h"
#include "tests/test.h"

static char text[64 << 10];

static void print(void (*how)(FILE *))
{
	FILE *f = fmemopen(text, sizeof(text), "w");

	assert_non_null(f);
	how(f);
	fclose(f);
}

static void test_help_names_all(void **state)
{
	char name[64];

	print(manual_help);
	for (size_t i = 0; i < options_count; i++) {
		snprintf(name, sizeof(name), "\n  --%s", options_table[i].name);
		assert_non_null(strstr(text, name));
	}
}

static void test_help_fits(void **state)
{
	print(manual_help);
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		assert_true(strlen(line) <= 80);
}

/* A hyphen that roff may turn into another character would break what people copy. */
static void test_man(void **state)
{
	print(manual_roff);
	assert_non_null(strstr(text, ".SH OPTIONS"));
	assert_non_null(strstr(text, "\\fB\\-\\-pool\\-bytes\\fR"));
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		assert_null(strstr(line, " --"));
}

TEST_MAIN(manual, cmocka_unit_test(test_help_names_all), cmocka_unit_test(test_help_fits),
	  cmocka_unit_test(test_man))
