/* SPDX-License-Identifier: Apache-2.0 */
/* argv and the configuration file: what is taken, what wins, and what each mistake is told. */
#include "base/bits.h"
#include "base/units.h"
#include "engine/settings.h"
#include "engine/settings_help.h"
#include "tests/test.h"
#include <unistd.h>

static struct settings s;
static char error[512];

static int parse(char **argv)
{
	int argc = 0;

	while (argv[argc])
		argc++;
	error[0] = '\0';
	return settings_parse(&s, argc, argv, error, sizeof(error));
}

#define PARSE(...) parse((char *[]){(char *)"kvengine", __VA_ARGS__, NULL})
#define A(text) ((char *)(text))

static const char *write_file(const char *text)
{
	static char path[] = "/tmp/kvengine-settings-XXXXXX";

	strcpy(path, "/tmp/kvengine-settings-XXXXXX");
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	return path;
}

static void takes_every_kind(void **state)
{
	assert_int_equal(PARSE(A("--model"), A("m.gguf"), A("--port=0"), A("--pool-bytes"),
			       A("2GiB"), A("--kvd-wait=200ms"), A("--print-plan")),
			 0);
	assert_string_equal(s.model, "m.gguf");
	assert_int_equal(s.port, 0);
	assert_int_equal(s.pool_bytes, 2 * UNITS_GIB);
	assert_int_equal(s.kvd_wait_ns, 200 * UNITS_NS_PER_MS);
	assert_true(s.print_plan);
	assert_false(s.check_config);
	assert_string_equal(s.host, "127.0.0.1");
}

static void mistakes_are_named(void **state)
{
	assert_int_equal(PARSE(A("--nonsense")), -EINVAL);
	assert_non_null(strstr(error, "--nonsense"));
	assert_int_equal(PARSE(A("model")), -EINVAL);
	assert_int_equal(PARSE(A("--port"), A("65536")), -EINVAL);
	assert_non_null(strstr(error, "0 .. 65535"));
	assert_int_equal(PARSE(A("--port"), A("-1")), -EINVAL);
	assert_non_null(strstr(error, "not a number"));
	assert_int_equal(PARSE(A("--port")), -EINVAL);
	assert_non_null(strstr(error, "needs PORT"));
	assert_int_equal(PARSE(A("--kvd-wait"), A("fast")), -EINVAL);
	assert_int_equal(PARSE(A("--print-plan=maybe")), -EINVAL);
	char longer[SETTINGS_TEXT_MAX + 1];
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	assert_int_equal(PARSE(A("--model"), longer), -EINVAL);
}

static void command_line_wins_over_the_file(void **state)
{
	const char *path = write_file("# a comment\n\nmodel = a.gguf # another\n"
				      "  port=81\nthreads = 3\n");

	assert_int_equal(PARSE(A("--config"), A(path), A("--threads"), A("2")), 0);
	assert_string_equal(s.model, "a.gguf");
	assert_int_equal(s.port, 81);
	assert_int_equal(s.threads, 2);
	unlink(path);
}

static void files_name_their_line(void **state)
{
	static const char *const bad[] = {"\nports = 1\n", "\nport\n", "\nport = x\n",
					  "\nhelp = yes\n", "\nconfig = other\n"};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		const char *path = write_file(bad[i]);

		assert_int_equal(PARSE(A("--config"), A(path)), -EINVAL);
		assert_non_null(strstr(error, ":2: "));
		unlink(path);
	}
	assert_int_equal(PARSE(A("--config"), A("/nowhere/at/all")), -EINVAL);
	assert_non_null(strstr(error, "/nowhere/at/all"));
}

static void help_speaks_of_every_option(void **state)
{
	char *text = NULL, *roff = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	settings_help_text(f);
	fclose(f);
	f = open_memstream(&roff, &size);
	settings_help_roff(f);
	fclose(f);
	for (size_t i = 0; i < settings_count; i++) {
		char flag[64];

		snprintf(flag, sizeof(flag), "  --%s", settings_table[i].name);
		assert_non_null(strstr(text, flag));
	}
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		assert_true(strlen(line) <= 82);
	assert_non_null(strstr(roff, ".SH OPTIONS"));
	free(text);
	free(roff);
}

/* The end of a long comment is no option. */
static void long_lines_are_refused(void **state)
{
	char text[1100];

	memset(text, '#', sizeof(text));
	strcpy(text + 1023, "port = 1\n");
	const char *path = write_file(text);

	assert_int_equal(PARSE(A("--config"), A(path)), -EINVAL);
	assert_non_null(strstr(error, ":1: the line is too long"));
	unlink(path);
}

TEST_MAIN(settings, cmocka_unit_test(long_lines_are_refused), cmocka_unit_test(takes_every_kind),
	  cmocka_unit_test(mistakes_are_named), cmocka_unit_test(command_line_wins_over_the_file),
	  cmocka_unit_test(files_name_their_line), cmocka_unit_test(help_speaks_of_every_option))
