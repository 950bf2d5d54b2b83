/* SPDX-License-Identifier: Apache-2.0 */
/* Rows to people or to programs, and the median. */
#include "tools/kvbench/bench.h"

#include <kernels/kernels.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void bench_emit_json(const struct bench_row *row)
{
	json_t *o = json_pack("{s:s, s:s, s:f, s:s}", "bench", row->bench, "case", row->name,
			      "value", row->value, "unit", row->unit);

	json_object_set_new(o, "limit", row->limit > 0 ? json_real(row->limit) : json_null());
	json_object_set_new(o, "fraction",
			    row->fraction > 0 ? json_real(row->fraction) : json_null());
	json_dumpf(o, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(6));
	putchar('\n');
	json_decref(o);
}

void bench_emit(const struct bench *b, const struct bench_row *row)
{
	static bool headed;

	if (b->json) {
		bench_emit_json(row);
	} else {
		if (!headed)
			printf("%-10s %-34s %12s %-9s %12s %9s\n", "BENCH", "CASE", "VALUE", "UNIT",
			       "LIMIT", "FRACTION");
		headed = true;
		printf("%-10s %-34s %12.2f %-9s", row->bench, row->name, row->value, row->unit);
		if (row->limit > 0)
			printf(" %12.2f", row->limit);
		if (row->fraction > 0)
			printf(" %8.1f%%", 100 * row->fraction);
		putchar('\n');
	}
	fflush(stdout);
}

bool bench_wanted(const struct bench *b, const char *name)
{
	return !b->only || strcmp(b->only, name) == 0;
}

static int bench_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double bench_median(double *samples, size_t count)
{
	qsort(samples, count, sizeof(*samples), bench_compare);
	return count % 2 ? samples[count / 2] : (samples[count / 2 - 1] + samples[count / 2]) / 2;
}

const struct kernel_ops *bench_kernels(const struct bench *b)
{
	char error[512];
	const struct kernel_ops *ops =
		kernels_open(b->device ? b->device : "cpu", error, sizeof(error));

	if (!ops)
		fprintf(stderr, "kvbench: %s\n", error);
	return ops;
}
