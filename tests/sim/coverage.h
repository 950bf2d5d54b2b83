/* SPDX-License-Identifier: Apache-2.0 */
/* What a run has reached, summed over its histories, and what it must reach. */
#ifndef SIM_COVERAGE_H
#define SIM_COVERAGE_H

#include "tests/sim/sim.h"

#define COVERAGE_TIMES_MIN 100u

/* An answer came: result is -errno or an outcome. */
void coverage_reply(uint16_t op, int result);
/* core_request() refused outright. */
void coverage_refused(int error);
/* A lease was told what to do. */
void coverage_event(uint16_t event);
/* A lease's row went to this state. */
void coverage_row(uint32_t state);
/* Another entry of the core refused with this error. */
void coverage_other(int error);
/* A session was opened, or refused with this error. */
void coverage_session(int error);
/* A miss was explained. */
void coverage_why(uint32_t cause);
/* Something of the simulator's own that must not be hollow. */
void coverage_count(const char *what);
void coverage_add(const char *what, uint64_t count);
/* A core ends: takes over its counts. */
void coverage_states(const struct core *core);
/* Prints the table. True when everything that must be reached was, at least `times_min` times. */
bool coverage_print(uint64_t times_min);
const char *coverage_op_name(uint16_t op);

#endif
