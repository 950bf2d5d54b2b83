/* SPDX-License-Identifier: Apache-2.0 */
/*
 * error.c: results in words. The library does not log: what it has to say is here, for the program
 * that called it. Thread-local, so that two handles on two threads do not mix.
 */
#include "ipc/client/error.h"
#include <base/bits.h>
#include <kvd.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char error_text[512];

int error_set(int result, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(error_text, sizeof(error_text), format, args);
	va_end(args);
	return result;
}

const char *kvd_last_error(void)
{
	return error_text;
}

const char *kvd_version(void)
{
	return KVD_VERSION;
}

const char *kvd_strresult(int result)
{
	static const char *const outcomes[KVD_OUTCOME_COUNT] = {
		[KVD_OK] = "ok",     [KVD_FULL] = "full",	 [KVD_STALE] = "stale",
		[KVD_BUSY] = "busy", [KVD_KEPT] = "kept",	 [KVD_MISS] = "miss",
		[KVD_GONE] = "gone", [KVD_DRAINING] = "draining"};

	if (result >= 0)
		return result < KVD_OUTCOME_COUNT ? outcomes[result] : "unknown";
	const char *name = strerrorname_np(-result);
	return name ? name : "unknown";
}
