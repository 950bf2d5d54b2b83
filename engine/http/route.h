/* SPDX-License-Identifier: Apache-2.0 */
/* From method and path to the function that answers. */
#ifndef ENGINE_HTTP_ROUTE_H
#define ENGINE_HTTP_ROUTE_H

#include "engine/http/exchange.h"

struct route {
	const char *method; /* GET (HEAD too) or POST */
	const char *path;
	bool needs_engine; /* 503 while the model is loading */
	enum MHD_Result (*run)(struct exchange *x);
};

/* Sets x->route, or x->refused with a 404, 405 or 503. */
void route_find(struct exchange *x, const char *method, const char *path);
/* The body is there: answers. */
enum MHD_Result route_run(struct exchange *x);

#endif
