/* SPDX-License-Identifier: Apache-2.0 */
/* The table of endpoints. Paths match exactly. */
#include "engine/http/route.h"
#include "engine/http/answer.h"
#include "engine/http/handlers.h"
#include <base/bits.h>
#include <string.h>

static const struct route routes[] = {
	{"POST", "/v1/completions", true, api_generate_completions},
	{"POST", "/v1/chat/completions", true, api_generate_chat},
	{"GET", "/v1/models", true, api_info_models},
	{"POST", "/tokenize", true, api_tokenize_run},
	{"POST", "/detokenize", true, api_tokenize_reverse},
	{"GET", "/health", false, api_info_health},
	{"GET", "/metrics", false, api_info_metrics},
	{"GET", "/version", false, api_info_version},
};

static bool method_fits(const struct route *r, const char *method)
{
	return strcmp(method, r->method) == 0 ||
	       (strcmp(method, "HEAD") == 0 && strcmp(r->method, "GET") == 0);
}

void route_find(struct exchange *x, const char *method, const char *path)
{
	x->refused = true;
	for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
		if (strcmp(path, routes[i].path) != 0)
			continue;
		x->route = &routes[i];
		if (!method_fits(x->route, method))
			errors_set(&x->error, 405, "method_not_allowed", NULL, "%s takes %s only",
				   path, x->route->method);
		else if (x->route->needs_engine && !server_ready(x->http))
			errors_set(&x->error, 503, "loading", NULL,
				   "the model is still loading: try again in a moment");
		else
			x->refused = false;
		return;
	}
	errors_set(&x->error, 404, "not_found", NULL, "there is no %.100s here", path);
}

enum MHD_Result route_run(struct exchange *x)
{
	if (x->refused)
		return answer_error(x, x->error.status == 405 ? x->route->method : NULL);
	return x->route->run(x);
}
