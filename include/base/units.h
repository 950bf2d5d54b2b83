/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes and times as people write them, and as the code names them: bytes and nanoseconds. */
#ifndef BASE_UNITS_H
#define BASE_UNITS_H

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define UNITS_KIB (1ull << 10)
#define UNITS_MIB (1ull << 20)
#define UNITS_GIB (1ull << 30)
#define UNITS_NS_PER_US 1000ull
#define UNITS_NS_PER_MS 1000000ull
#define UNITS_NS_PER_S 1000000000ull

struct units_suffix {
	const char *name;
	uint64_t factor;
};

static inline int units_parse(const char *text, const struct units_suffix *suffixes, uint64_t *out)
{
	char *end;

	if (text[0] < '0' || text[0] > '9')
		return -EINVAL;
	errno = 0;
	unsigned long long v = strtoull(text, &end, 10);
	if (errno)
		return -ERANGE;
	for (; suffixes->name; suffixes++) {
		if (strcasecmp(end, suffixes->name) != 0)
			continue;
		if (v > UINT64_MAX / suffixes->factor)
			return -ERANGE;
		*out = v * suffixes->factor;
		return 0;
	}
	return -EINVAL;
}

/* A number alone. 0, -EINVAL or -ERANGE. */
static inline int units_parse_count(const char *text, uint64_t *out)
{
	static const struct units_suffix none[] = {{"", 1}, {NULL, 0}};

	return units_parse(text, none, out);
}

/* "512", "64KiB", "2M", "8GiB": powers of two whatever the spelling. 0, -EINVAL or -ERANGE. */
static inline int units_parse_bytes(const char *text, uint64_t *out_bytes)
{
	static const struct units_suffix suffixes[] = {
		{"", 1},	   {"B", 1},	    {"K", 1ull << 10}, {"KB", 1ull << 10},
		{"KiB", 1ull << 10}, {"M", 1ull << 20}, {"MB", 1ull << 20}, {"MiB", 1ull << 20},
		{"G", 1ull << 30}, {"GB", 1ull << 30}, {"GiB", 1ull << 30}, {"T", 1ull << 40},
		{"TB", 1ull << 40}, {"TiB", 1ull << 40}, {NULL, 0}};

	return units_parse(text, suffixes, out_bytes);
}

/* "30s", "200ms", "50us", "10ns", "5m"; a bare number is seconds. 0, -EINVAL or -ERANGE. */
static inline int units_parse_time(const char *text, uint64_t *out_ns)
{
	static const struct units_suffix suffixes[] = {{"", 1000000000ull}, {"s", 1000000000ull},
						       {"ms", 1000000ull},  {"us", 1000ull},
						       {"ns", 1},	    {"m", 60000000000ull},
						       {NULL, 0}};

	return units_parse(text, suffixes, out_ns);
}

/* Writes "1.50 GiB" into out[size] and returns it. */
static inline const char *units_format_bytes(uint64_t bytes, char *out, size_t size)
{
	static const char *const name[] = {"B", "KiB", "MiB", "GiB", "TiB"};
	double v = (double)bytes;
	size_t i = 0;

	while (v >= 1024 && i + 1 < sizeof(name) / sizeof(name[0])) {
		v /= 1024;
		i++;
	}
	snprintf(out, size, i ? "%.2f %s" : "%.0f %s", v, name[i]);
	return out;
}

/* The one clock of the project: monotonic, nanoseconds. */
static inline uint64_t units_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * UNITS_NS_PER_S + (uint64_t)ts.tv_nsec;
}

#endif
