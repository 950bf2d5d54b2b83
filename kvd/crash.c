/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kills the process at a named point. SIGKILL to oneself does not return: no handler, no exit
 * function, no flush runs, exactly as when somebody else does it.
 */
#include "kvd/crash.h"
#include "base/atomic.h"
#include "base/log.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int crash_at = CRASH_COUNT;
static long crash_left = 1;

const char *crash_name(enum crash_point point)
{
#define CRASH_NAME(name) #name,
	static const char *const names[] = {CRASH_TABLE(CRASH_NAME)};
#undef CRASH_NAME

	return names[point];
}

void crash_init(void)
{
	const char *text = getenv("KVD_CRASH_AT");
	size_t n = text ? strcspn(text, ":") : 0;

	for (int i = 0; i < CRASH_COUNT; i++)
		if (n && strlen(crash_name(i)) == n && memcmp(crash_name(i), text, n) == 0)
			crash_at = i;
	if (n && text[n] == ':')
		crash_left = strtol(text + n + 1, NULL, 10);
	if (n && crash_at == CRASH_COUNT)
		log_warn("crash", "KVD_CRASH_AT names no point");
}

void crash_pass(enum crash_point point)
{
	if ((int)point == crash_at && atomic_add_relaxed(&crash_left, -1) == 1)
		kill(getpid(), SIGKILL);
}
