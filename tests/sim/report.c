/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.c: the trace and the last words.
 *
 * A fault ends the process: the history that found it is a pure function of its seed, so nothing
 * but the seed needs to survive. An ASSERT of the core arrives here as SIGABRT and is reported in
 * the same form; what the handler calls is not async-signal-safe, which is fine for a single
 * thread that aborts on purpose and at worst loses its trace otherwise.
 */
#include "tests/sim/report.h"

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct sim *watched;

static void report_tail(const struct sim *sim)
{
	uint64_t first = sim->trace_next > SIM_TRACE_LINES ? sim->trace_next - SIM_TRACE_LINES : 0;

	for (uint64_t i = first; i < sim->trace_next; i++)
		fprintf(stderr, "  %s\n", sim->trace[i % SIM_TRACE_LINES]);
	fprintf(stderr, "sim: replay with: sim --replay %" PRIu64 "\n", sim->seed);
}

static void report_signal(int number)
{
	if (watched) {
		fprintf(stderr, "sim: FAILED seed %" PRIu64 " step %" PRIu64 ": signal %s\n",
			watched->seed, watched->step, strsignal(number));
		report_tail(watched);
	}
	_exit(REPORT_FAIL_STATUS);
}

void report_watch(struct sim *sim)
{
	watched = sim;
	signal(SIGABRT, report_signal);
	signal(SIGSEGV, report_signal);
	signal(SIGFPE, report_signal);
}

void report_trace(struct sim *sim, const char *format, ...)
{
	char *line = sim->trace[sim->trace_next++ % SIM_TRACE_LINES];
	va_list args;

	int at = snprintf(line, SIM_TRACE_BYTES, "%6" PRIu64 " ", sim->step);
	va_start(args, format);
	vsnprintf(line + at, SIM_TRACE_BYTES - (size_t)at, format, args);
	va_end(args);
	if (sim->verbose)
		printf("%s\n", line);
}

void report_fail(struct sim *sim, const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fprintf(stderr, "sim: FAILED seed %" PRIu64 " step %" PRIu64 ": ", sim->seed, sim->step);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	report_tail(sim);
	_exit(REPORT_FAIL_STATUS);
}
