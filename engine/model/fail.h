/* SPDX-License-Identifier: Apache-2.0 */
/* One sentence for the user beside a status: written where the error is found, once. */
#ifndef ENGINE_MODEL_FAIL_H
#define ENGINE_MODEL_FAIL_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

/* Writes the sentence into error[size] (may be NULL) and returns `status`. */
__attribute__((format(printf, 4, 5))) static inline int
fail_with(char *error, size_t size, int status, const char *format, ...)
{
	va_list args;

	if (!error || !size)
		return status;
	va_start(args, format);
	vsnprintf(error, size, format, args);
	va_end(args);
	return status;
}

#endif
