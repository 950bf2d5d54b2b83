/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One log line per event, written where the event is decided: `kvd: pool: grew to 1024 pages`.
 * Lines go to stderr in one write, so that lines of several threads do not mix; errno is kept.
 * Libraries log at debug only. Text that came from a peer is passed through log_safe() first.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* Lines above this level are dropped. A program sets it once, before it starts threads. */
__attribute__((weak)) int log_level_max = LOG_INFO;

__attribute__((format(printf, 3, 4))) static inline void log_write(enum log_level level,
								   const char *module,
								   const char *format, ...)
{
	static const char *const mark[] = {"error: ", "warning: ", "", "debug: "};
	int saved = errno;
	char line[1024];
	va_list args;

	if ((int)level > log_level_max)
		return;
	int at = snprintf(line, sizeof(line) - 1, "%s: %s: %s", program_invocation_short_name,
			  module, mark[level]);
	va_start(args, format);
	int more = vsnprintf(line + at, sizeof(line) - 1 - (size_t)at, format, args);
	va_end(args);
	size_t size = (size_t)at + (more > 0 ? (size_t)more : 0);
	if (size > sizeof(line) - 2)
		size = sizeof(line) - 2;
	line[size] = '\n';
	ssize_t written = write(STDERR_FILENO, line, size + 1);
	(void)written;
	errno = saved;
}

#define log_error(module, ...) log_write(LOG_ERROR, module, __VA_ARGS__)
#define log_warn(module, ...) log_write(LOG_WARN, module, __VA_ARGS__)
#define log_info(module, ...) log_write(LOG_INFO, module, __VA_ARGS__)
#define log_debug(module, ...) log_write(LOG_DEBUG, module, __VA_ARGS__)

/* Copies a peer's text into out[size], with everything but printable ASCII as '?'. */
static inline const char *log_safe(const char *text, size_t text_bytes, char *out, size_t size)
{
	size_t i = 0;

	for (; i < text_bytes && text[i] && i + 1 < size; i++)
		out[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
	out[i] = '\0';
	return out;
}

#endif
