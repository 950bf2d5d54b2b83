/* SPDX-License-Identifier: Apache-2.0 */
/* One refusal, in the words and the shape that OpenAI's clients know. */
#ifndef ENGINE_HTTP_ERRORS_H
#define ENGINE_HTTP_ERRORS_H

#include <jansson.h>

struct api_error {
	int status;	  /* of HTTP */
	const char *type; /* static */
	const char *code; /* static, or NULL */
	char param[48];	  /* the parameter at fault, or "" */
	char message[320];
};

/*
 * Fills *e and returns -EINVAL, so that a parser can `return errors_set(...)`. param may be NULL.
 * The message may hold a client's text: it is shortened, and made valid UTF-8 by errors_json().
 */
__attribute__((format(printf, 5, 6))) int errors_set(struct api_error *e, int status,
						     const char *code, const char *param,
						     const char *format, ...);
/* For status 400: the most frequent one. */
#define errors_bad(e, param, ...) errors_set(e, 400, NULL, param, __VA_ARGS__)

/* {"error": {...}}: a new reference, or NULL without memory. */
json_t *errors_json(const struct api_error *e);

#endif
