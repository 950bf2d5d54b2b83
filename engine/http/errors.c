/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors as OpenAI's API writes them. Clients decide by status (retry on 408, 429 and 5xx) and by
 * type and code; people read the message. So the message names the parameter and says what to do.
 */
#include "engine/http/errors.h"
#include "engine/http/jsonout.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *errors_type(int status)
{
	switch (status) {
	case 404:
		return "not_found_error";
	case 408:
		return "timeout_error";
	case 429:
		return "rate_limit_error";
	case 503:
		return "unavailable_error";
	default:
		return status >= 500 ? "server_error" : "invalid_request_error";
	}
}

int errors_set(struct api_error *e, int status, const char *code, const char *param,
	       const char *format, ...)
{
	va_list args;

	e->status = status;
	e->type = errors_type(status);
	e->code = code;
	snprintf(e->param, sizeof(e->param), "%s", param ? param : "");
	va_start(args, format);
	(void)vsnprintf(e->message, sizeof(e->message), format, args);
	va_end(args);
	return -EINVAL;
}

json_t *errors_json(const struct api_error *e)
{
	json_t *message = jsonout_text(e->message, strlen(e->message));
	json_t *param = e->param[0] ? jsonout_text(e->param, strlen(e->param)) : json_null();

	return json_pack("{s:{s:o, s:s, s:o, s:s?}}", "error", "message", message, "type", e->type,
			 "param", param, "code", e->code);
}
