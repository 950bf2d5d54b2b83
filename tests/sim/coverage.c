/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coverage.c: the run must not be hollow.
 *
 * Counts are of the whole process. What must be reached is written down here, and all rows of the
 * core's own table of page states.
 */
#include "tests/sim/coverage.h"

#include "kvd/core/state.h"
#include "tests/sim/coverage_table.h"

#include <base/bits.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define COVERAGE_ERRNO_MAX 256
#define COVERAGE_WORDS_MAX 128u
#define COVERAGE_STATES_MAX 32u

static uint64_t coverage_outcomes[KVD_OP_COUNT][KVD_OUTCOME_COUNT];
static uint64_t coverage_errors[KVD_OP_COUNT][COVERAGE_ERRNO_MAX];
static uint64_t coverage_refusals[COVERAGE_ERRNO_MAX];
static uint64_t coverage_sessions[COVERAGE_ERRNO_MAX];
static uint64_t coverage_events[3];
static uint64_t coverage_rows[KVD_LEASE_REVOKED + 1];
static uint64_t coverage_causes[KVD_WHY_IN_TIER + 1];
static uint64_t coverage_state_rows[COVERAGE_STATES_MAX];
static uint64_t coverage_others[COVERAGE_ERRNO_MAX];

static struct {
	const char *name;
	uint64_t count;
} coverage_words[COVERAGE_WORDS_MAX];

static const char *const coverage_ops[KVD_OP_COUNT] = {
	[KVD_OP_HELLO] = "HELLO",
	[KVD_OP_FORMAT] = "FORMAT",
	[KVD_OP_ACQUIRE] = "ACQUIRE",
	[KVD_OP_EXTEND] = "EXTEND",
	[KVD_OP_SEAL] = "SEAL",
	[KVD_OP_FORK] = "FORK",
	[KVD_OP_RELEASE] = "RELEASE",
	[KVD_OP_TOPUP] = "TOPUP",
	[KVD_OP_RETURN] = "RETURN",
	[KVD_OP_HANDOFF] = "HANDOFF",
	[KVD_OP_CLAIM] = "CLAIM",
	[KVD_OP_PREFETCH] = "PREFETCH",
	[KVD_OP_PIN] = "PIN",
	[KVD_OP_UNPIN] = "UNPIN",
	[KVD_OP_EVICT] = "EVICT",
	[KVD_OP_CANCEL] = "CANCEL",
	[KVD_OP_STAT] = "STAT",
	[KVD_OP_WHY] = "WHY",
	[KVD_OP_LIST] = "LIST",
	[KVD_OP_CHECK] = "CHECK",
	[KVD_OP_RATE] = "RATE",
	[KVD_OP_SLAB] = "SLAB",
	[KVD_OP_SLAB_GONE] = "SLAB_GONE",
	[KVD_OP_BYE] = "BYE",
	[KVD_OP_DRAIN] = "DRAIN",
	[KVD_OP_VERIFY] = "VERIFY",
};

const char *coverage_op_name(uint16_t op)
{
	return op < KVD_OP_COUNT && coverage_ops[op] ? coverage_ops[op] : "?";
}

void coverage_reply(uint16_t op, int result)
{
	if (op >= KVD_OP_COUNT)
		op = 0;
	if (result >= 0)
		coverage_outcomes[op][result]++;
	else if (-result < COVERAGE_ERRNO_MAX)
		coverage_errors[op][-result]++;
}

void coverage_refused(int error)
{
	coverage_refusals[-error % COVERAGE_ERRNO_MAX]++;
}

void coverage_other(int error)
{
	coverage_others[-error % COVERAGE_ERRNO_MAX]++;
}

void coverage_session(int error)
{
	coverage_sessions[-error % COVERAGE_ERRNO_MAX]++;
}

void coverage_event(uint16_t event)
{
	coverage_events[event]++;
}

void coverage_row(uint32_t state)
{
	coverage_rows[state]++;
}

void coverage_why(uint32_t cause)
{
	coverage_causes[cause]++;
}

void coverage_count(const char *what)
{
	coverage_add(what, 1);
}

void coverage_add(const char *what, uint64_t count)
{
	for (uint32_t i = 0; i < COVERAGE_WORDS_MAX; i++) {
		if (!coverage_words[i].name)
			coverage_words[i].name = what;
		if (coverage_words[i].name != what)
			continue;
		coverage_words[i].count += count;
		return;
	}
}

void coverage_states(const struct core *core)
{
	for (uint32_t i = 0; i < BITS_MIN(state_row_count(), COVERAGE_STATES_MAX); i++)
		coverage_state_rows[i] += state_row_hits(core, i);
}

static bool coverage_line(const char *kind, const char *name, const char *what, uint64_t count,
			  uint64_t times_min)
{
	bool enough = count >= times_min;

	printf("  %-8s %-30s %-12s %10" PRIu64 "%s\n", kind, name, what, count,
	       enough ? "" : "  NOT ENOUGH");
	return enough;
}

static bool coverage_required_row(const struct coverage_required *r, uint64_t times_min)
{
	uint64_t count = r->result >= 0 ? coverage_outcomes[r->op][r->result]
					: coverage_errors[r->op][-r->result];
	char what[24];

	snprintf(what, sizeof(what), "%d", r->result);
	return coverage_line("reply", coverage_op_name(r->op), what, count, times_min);
}

static bool coverage_required_word(const char *word, uint64_t times_min)
{
	for (uint32_t i = 0; i < COVERAGE_WORDS_MAX && coverage_words[i].name; i++)
		if (strcmp(coverage_words[i].name, word) == 0)
			return true; /* it has a line of its own */
	return coverage_line("sim", word, "", 0, times_min);
}

static void coverage_print_rest(void)
{
	for (uint32_t op = 0; op < KVD_OP_COUNT; op++)
		for (int e = 0; e < COVERAGE_ERRNO_MAX; e++)
			if (coverage_errors[op][e])
				printf("  seen     %-30s %-12d %10" PRIu64 "\n",
				       coverage_op_name((uint16_t)op), -e, coverage_errors[op][e]);
	for (uint32_t op = 0; op < KVD_OP_COUNT; op++)
		for (uint32_t o = 0; o < KVD_OUTCOME_COUNT; o++)
			if (coverage_outcomes[op][o])
				printf("  seen     %-30s %-12u %10" PRIu64 "\n",
				       coverage_op_name((uint16_t)op), o, coverage_outcomes[op][o]);
}

bool coverage_print(uint64_t times_min)
{
	static const char *const row_names[] = {"NONE", "OK", "CALL", "REVOKED"};
	static const char *const causes[] = {"HIT",	     "NEVER_SEEN",  "EVICTED", "BUILDING",
					     "OTHER_FORMAT", "QUARANTINED", "SHORT",   "IN_TIER"};
	bool ok = true;

	coverage_print_rest();
	for (uint32_t i = 0; i < BITS_MIN(state_row_count(), COVERAGE_STATES_MAX); i++)
		ok &= coverage_line("state", state_row_name(i), "", coverage_state_rows[i],
				    times_min);
	for (uint32_t i = 0; i < ARRAY_LEN(coverage_required); i++)
		ok &= coverage_required_row(&coverage_required[i], times_min);
	ok &= coverage_line("broken", "core_request", "EPROTO", coverage_refusals[EPROTO],
			    times_min);
	ok &= coverage_line("broken", "core_request", "EFAULT", coverage_refusals[EFAULT],
			    times_min);
	ok &= coverage_line("other", "space, slab", "ENOENT", coverage_others[ENOENT], times_min);
	ok &= coverage_line("other", "space", "EACCES", coverage_others[EACCES], times_min);
	ok &= coverage_line("other", "space", "EEXIST", coverage_others[EEXIST], times_min);
	ok &= coverage_line("other", "space", "ENOSPC", coverage_others[ENOSPC], times_min);
	ok &= coverage_line("other", "space, core_new", "EINVAL", coverage_others[EINVAL],
			    times_min);
	ok &= coverage_line("session", "core_session_open", "0", coverage_sessions[0], times_min);
	ok &= coverage_line("session", "core_session_open", "EUSERS", coverage_sessions[EUSERS],
			    times_min);
	ok &= coverage_line("session", "core_session_open", "ENOENT", coverage_sessions[ENOENT],
			    times_min);
	ok &= coverage_line("event", "COMPUTE", "", coverage_events[0], times_min);
	ok &= coverage_line("event", "FOLLOW", "", coverage_events[1], times_min);
	ok &= coverage_line("event", "LOAD", "", coverage_events[2], times_min);
	for (uint32_t i = 0; i < ARRAY_LEN(coverage_rows); i++)
		ok &= coverage_line("row", row_names[i], "", coverage_rows[i], times_min);
	for (uint32_t i = 0; i < ARRAY_LEN(coverage_causes); i++)
		ok &= coverage_line("why", causes[i], "", coverage_causes[i], times_min);
	for (uint32_t i = 0; i < COVERAGE_WORDS_MAX && coverage_words[i].name; i++)
		ok &= coverage_line("sim", coverage_words[i].name, "", coverage_words[i].count,
				    times_min);
	for (uint32_t i = 0; i < ARRAY_LEN(coverage_required_words); i++)
		ok &= coverage_required_word(coverage_required_words[i], times_min);
	return ok;
}
