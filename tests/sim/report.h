/* SPDX-License-Identifier: Apache-2.0 */
/* What was done lately, and the end of a run that found a fault. */
#ifndef SIM_REPORT_H
#define SIM_REPORT_H

#include "tests/sim/sim.h"

#define REPORT_FAIL_STATUS 3

/* From now on an abort or a crash is reported as a fault of this history. NULL: nothing runs. */
void report_watch(struct sim *sim);
/* One line about what the present step does; the last SIM_TRACE_LINES are kept. */
__attribute__((format(printf, 2, 3))) void report_trace(struct sim *sim, const char *format, ...);
/* Prints the fault, the trace and how to replay, and ends the process. */
__attribute__((format(printf, 2, 3), noreturn)) void report_fail(struct sim *sim,
								 const char *format, ...);

#define REPORT_REQUIRE(sim, cond, ...)                                                             \
	do {                                                                                       \
		if (__builtin_expect(!(cond), 0))                                                  \
			report_fail(sim, __VA_ARGS__);                                             \
	} while (0)

#endif
