/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that grow at the end. A failed append is remembered: check `failed` once, at the end. */
#ifndef ENGINE_HTTP_BUFFER_H
#define ENGINE_HTTP_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

struct buffer {
	char *data;
	size_t used;
	size_t size;
	bool failed;
};

void buffer_append(struct buffer *b, const void *data, size_t bytes);
__attribute__((format(printf, 2, 3))) void buffer_printf(struct buffer *b, const char *format, ...);
/* Room for `bytes` in all, without growing later. */
void buffer_reserve(struct buffer *b, size_t bytes);
void buffer_fini(struct buffer *b);

#endif
