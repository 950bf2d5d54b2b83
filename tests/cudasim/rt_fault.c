/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults on demand. Calls and pieces of work are counted by kind, from 1, and these variables say
 * what happens at a count (several, with commas between):
 *
 *	CUDASIM_FAIL=malloc:3=2	   the 3rd such call returns error 2
 *	CUDASIM_HANG=free:1	   the call never returns; other threads go on
 *	CUDASIM_DIE=launch:7	   the 7th such piece of work kills the process before it runs
 *	CUDASIM_DELAY=memcpy:0=4   each such piece of work is passed over 4 times (0: each)
 *
 * A sticky error that is injected breaks the device as a real one does. The kind "any" counts all.
 */
#include "tests/cudasim/rt.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FAULT_RULES 16
#define FAULT_NAMES 32

enum fault_action { FAULT_FAIL, FAULT_HANG, FAULT_DIE, FAULT_DELAY, FAULT_ACTIONS };
static const char *const variables[FAULT_ACTIONS] = {"CUDASIM_FAIL", "CUDASIM_HANG", "CUDASIM_DIE",
						     "CUDASIM_DELAY"};

static struct fault_rule {
	enum fault_action action;
	enum rt_kind kind; /* RT_KIND_COUNT: any */
	uint64_t count;
	uint32_t value;
} rules[FAULT_RULES];
static uint32_t rule_count;

static uint64_t calls[RT_KIND_COUNT + 1], work[RT_KIND_COUNT + 1];
static struct {
	const char *name;
	uint64_t count;
} named[FAULT_NAMES];

static const char *const names[] = {
#define X(symbol, name, flags) name,
	RT_KINDS(X)
#undef X
		"any",
};

/* One rule; the text behind it, or NULL if it cannot be understood. */
static const char *fault_parse_rule(enum fault_action action, const char *text)
{
	struct fault_rule rule = {.action = action};
	unsigned long long count;
	char name[24];
	char *end;
	int n = 0;

	if (sscanf(text, "%23[a-z]:%llu%n", name, &count, &n) != 2)
		return NULL;
	text += n;
	if (*text == '=') {
		rule.value = (uint32_t)strtoul(text + 1, &end, 10);
		text = end;
	}
	while (rule.kind <= RT_KIND_COUNT && strcmp(names[rule.kind], name) != 0)
		rule.kind++;
	if (rule.kind > RT_KIND_COUNT || rule_count == FAULT_RULES || (*text && *text != ','))
		return NULL;
	rule.count = count;
	rules[rule_count++] = rule;
	return text + (*text == ',');
}

static void fault_parse(enum fault_action action, const char *text)
{
	while (*text) {
		const char *behind = fault_parse_rule(action, text);
		if (!behind) {
			fprintf(stderr, "cudasim: %s: cannot be understood from \"%s\" on\n",
				variables[action], text);
			exit(2);
		}
		text = behind;
	}
}

static void fault_init(void)
{
	static bool done;

	for (int a = 0; !done && a < FAULT_ACTIONS; a++)
		if (getenv(variables[a]))
			fault_parse((enum fault_action)a, getenv(variables[a]));
	done = true;
}

/* The rule for this count, or NULL. Count 0 of a rule means each. */
static const struct fault_rule *fault_find(enum fault_action action, enum rt_kind kind,
					   const uint64_t *counts)
{
	for (uint32_t i = 0; i < rule_count; i++) {
		const struct fault_rule *r = &rules[i];
		if (r->action == action && (r->kind == kind || r->kind == RT_KIND_COUNT) &&
		    (r->count == 0 || r->count == counts[r->kind]))
			return r;
	}
	return NULL;
}

static void fault_hang(enum rt_kind kind)
{
	fprintf(stderr, "cudasim: a call of kind %s hangs, as asked\n", names[kind]);
	rt_unlock();
	for (;;)
		pause();
}

cudaError_t rt_fault_call(enum rt_kind kind)
{
	fault_init();
	calls[kind]++;
	calls[RT_KIND_COUNT]++;
	if (fault_find(FAULT_HANG, kind, calls))
		fault_hang(kind);
	const struct fault_rule *r = fault_find(FAULT_FAIL, kind, calls);
	if (!r)
		return cudaSuccess;
	if (rt_error_is_sticky((cudaError_t)r->value))
		rt_error_break(rt_device_current(), (cudaError_t)r->value, "as asked");
	return (cudaError_t)r->value;
}

void rt_fault_work(enum rt_kind kind)
{
	fault_init();
	work[kind]++;
	work[RT_KIND_COUNT]++;
	if (fault_find(FAULT_DIE, kind, work))
		raise(SIGKILL);
}

uint32_t rt_fault_delay(enum rt_kind kind)
{
	uint64_t zero[RT_KIND_COUNT + 1] = {0};

	fault_init();
	const struct fault_rule *r = fault_find(FAULT_DELAY, kind, zero);
	return r ? r->value : 0;
}

void rt_fault_count(const char *what)
{
	for (uint32_t i = 0; i < FAULT_NAMES; i++) {
		if (named[i].name && strcmp(named[i].name, what) != 0)
			continue;
		named[i].name = what;
		named[i].count++;
		return;
	}
}

static uint64_t fault_counted(const char *what)
{
	for (uint32_t i = 0; i < FAULT_NAMES && named[i].name; i++)
		if (strcmp(named[i].name, what) == 0)
			return named[i].count;
	for (uint32_t k = 0; k <= RT_KIND_COUNT; k++) {
		if (strncmp(what, "call.", 5) == 0 && strcmp(what + 5, names[k]) == 0)
			return calls[k];
		if (strncmp(what, "work.", 5) == 0 && strcmp(what + 5, names[k]) == 0)
			return work[k];
	}
	return 0;
}

uint64_t sim_count(const char *what)
{
	rt_lock();
	uint64_t n = fault_counted(what);
	rt_unlock();
	return n;
}
