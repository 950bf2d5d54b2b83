/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver.c: runs a fuzz target without libFuzzer: each file of a corpus folder, then so many
 * random mutations of them.
 *
 *     fuzz_NAME CORPUS [MUTATIONS [SEED [FIRST]]]
 *
 * Mutation i depends on SEED and i alone. When the target dies, SEED and i are printed: with FIRST
 * = i and MUTATIONS = 1 that one is run again.
 */
#include "tests/test.h"
#include <base/bits.h>
#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#define DRIVER_FILES_MAX 4096
#define DRIVER_BYTES_MAX (1u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
__attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)(void));

struct driver_file {
	uint8_t *data;
	size_t size;
};

static struct driver_file files[DRIVER_FILES_MAX];
static size_t file_count;
static char where[512] = "start";

static void driver_say_where(void)
{
	(void)!write(STDERR_FILENO, where, strlen(where));
	(void)!write(STDERR_FILENO, "\n", 1);
}

static void driver_died(int signal)
{
	driver_say_where();
	_exit(128 + signal);
}

static int driver_load(const char *folder, const char *name)
{
	char path[4096];
	static uint8_t buffer[DRIVER_BYTES_MAX];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	FILE *f = fopen(path, "rb");
	if (!f || file_count == DRIVER_FILES_MAX)
		return -1;
	size_t size = fread(buffer, 1, sizeof(buffer), f);
	fclose(f);
	/* An exact copy, so that reading beyond it is found. */
	uint8_t *data = malloc(size ? size : 1);
	if (!data)
		return -1;
	memcpy(data, buffer, size);
	files[file_count++] = (struct driver_file){.data = data, .size = size};
	return 0;
}

static int driver_by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int driver_load_all(const char *folder)
{
	struct dirent **names;
	int n = scandir(folder, &names, NULL, driver_by_name), r = n < 0 ? -1 : 0;

	for (int i = 0; i < n; i++) {
		if (r == 0 && names[i]->d_name[0] != '.')
			r = driver_load(folder, names[i]->d_name);
		free(names[i]);
	}
	if (n >= 0)
		free(names);
	return r;
}

/* Puts a value that is often a limit at a random place. */
static void driver_interesting(uint8_t *data, size_t size, uint64_t *random)
{
	static const uint64_t values[] = {0,	   1,	     0x7f,	 0x80,	     0xff,
					  0x7fff,  0xffff,   0x7fffffff, 0x80000000, 0xffffffff,
					  0x10000, 0x100000, UINT64_MAX, INT64_MAX,  64};
	uint64_t value = values[test_random(random) % ARRAY_LEN(values)];
	size_t width = (size_t)1 << test_random(random) % 4;

	if (size >= width)
		memcpy(data + test_random(random) % (size - width + 1), &value, width);
}

/* Splices a piece of another file in. */
static size_t driver_splice(uint8_t *data, size_t size, size_t max, uint64_t *random)
{
	const struct driver_file *other = &files[test_random(random) % file_count];
	size_t from = other->size ? test_random(random) % other->size : 0;
	size_t at = test_random(random) % (size + 1);
	size_t count = BITS_MIN(other->size - from, max - at);

	memcpy(data + at, other->data + from, count);
	return BITS_MAX(size, at + count);
}

static size_t driver_mutate_once(uint8_t *data, size_t size, size_t max, uint64_t *random)
{
	size_t at = size ? test_random(random) % size : 0;

	switch (test_random(random) % 6) {
	case 0:
		if (size)
			data[at] ^= (uint8_t)(1u << test_random(random) % 8);
		return size;
	case 1:
		if (size)
			data[at] = (uint8_t)test_random(random);
		return size;
	case 2:
		driver_interesting(data, size, random);
		return size;
	case 3:
		return size ? test_random(random) % size : 0;
	case 4:
		if (size == max)
			return size;
		memmove(data + at + 1, data + at, size - at);
		data[at] = (uint8_t)test_random(random);
		return size + 1;
	default:
		return driver_splice(data, size, max, random);
	}
}

static void driver_mutation(uint64_t seed, uint64_t i)
{
	uint64_t random = seed * 0x9e3779b97f4a7c15ull + i;
	const struct driver_file *f = &files[test_random(&random) % file_count];
	size_t max = 2 * f->size + 64, size = f->size;
	uint8_t *work = malloc(max), *exact;
	uint64_t steps = 1 + test_random(&random) % 8;

	if (!work)
		abort();
	memcpy(work, f->data, f->size);
	while (steps--)
		size = driver_mutate_once(work, size, max, &random);
	exact = malloc(size ? size : 1);
	if (!exact)
		abort();
	memcpy(exact, work, size);
	free(work);
	LLVMFuzzerTestOneInput(exact, size);
	free(exact);
}

int main(int argc, char **argv)
{
	if (argc < 2 || driver_load_all(argv[1]) < 0 || file_count == 0) {
		fprintf(stderr, "usage: %s CORPUS [MUTATIONS [SEED [FIRST]]]\n", argv[0]);
		return 2;
	}
	uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
	uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
	uint64_t first = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;

	signal(SIGABRT, driver_died);
	signal(SIGSEGV, driver_died);
	if (__sanitizer_set_death_callback)
		__sanitizer_set_death_callback(driver_say_where);
	for (size_t i = 0; i < file_count; i++) {
		snprintf(where, sizeof(where), "died in file %zu of %s", i, argv[1]);
		LLVMFuzzerTestOneInput(files[i].data, files[i].size);
	}
	for (uint64_t i = first; i < first + count; i++) {
		snprintf(where, sizeof(where), "died in mutation: %s %s 1 %llu %llu", argv[0],
			 argv[1], (unsigned long long)seed, (unsigned long long)i);
		driver_mutation(seed, i);
	}
	printf("%zu files, %llu mutations, seed %llu\n", file_count, (unsigned long long)count,
	       (unsigned long long)seed);
	for (size_t i = 0; i < file_count; i++)
		free(files[i].data);
	return 0;
}
