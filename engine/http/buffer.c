/* SPDX-License-Identifier: Apache-2.0 */
/* Growing bytes for bodies and answers. Its callers bound the size; it only doubles. */
#include "engine/http/buffer.h"
#include <base/bits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buffer_reserve(struct buffer *b, size_t bytes)
{
	if (b->failed || bytes <= b->size)
		return;
	char *data = realloc(b->data, bytes);
	if (!data) {
		b->failed = true;
		return;
	}
	b->data = data;
	b->size = bytes;
}

void buffer_append(struct buffer *b, const void *data, size_t bytes)
{
	if (b->used + bytes > b->size)
		buffer_reserve(b, BITS_MAX(2 * b->size, b->used + bytes + 256));
	if (b->failed || bytes == 0)
		return;
	memcpy(b->data + b->used, data, bytes);
	b->used += bytes;
}

void buffer_printf(struct buffer *b, const char *format, ...)
{
	char line[512];
	va_list args;

	va_start(args, format);
	int n = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	if (n < 0 || (size_t)n >= sizeof(line))
		b->failed = true;
	else
		buffer_append(b, line, (size_t)n);
}

void buffer_fini(struct buffer *b)
{
	free(b->data);
	*b = (struct buffer){0};
}
