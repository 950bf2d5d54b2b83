/* SPDX-License-Identifier: Apache-2.0 */
/* What one can ask about the server: models, health, version, metrics. */
#include "engine/http/answer.h"
#include "engine/http/handlers.h"
#include "engine/http/metrics.h"

enum MHD_Result api_info_models(struct exchange *x)
{
	const struct http *h = x->http;
	json_t *model = json_pack("{s:s, s:s, s:i, s:s, s:I}", "id", h->env.model, "object",
				  "model", "created", 0, "owned_by", "kvengine", "max_model_len",
				  (json_int_t)h->env.context);

	return answer_json(x, 200, json_pack("{s:s, s:[o]}", "object", "list", "data", model));
}

enum MHD_Result api_info_health(struct exchange *x)
{
	struct engine_stats stats;

	if (!server_ready(x->http)) {
		errors_set(&x->error, 503, "loading", NULL,
			   "the model is still loading: try again in a moment");
		return answer_error(x, NULL);
	}
	engine_stats(x->http->service.engine, &stats);
	if (!stats.kvd_ready) {
		errors_set(&x->error, 503, "kvd_unavailable", NULL,
			   "the connection to kvd is lost: the engine is trying again");
		return answer_error(x, NULL);
	}
	return answer_json(x, 200, json_pack("{s:s}", "status", "ok"));
}

enum MHD_Result api_info_version(struct exchange *x)
{
	return answer_json(x, 200, json_pack("{s:s}", "version", KVD_VERSION));
}

enum MHD_Result api_info_metrics(struct exchange *x)
{
	struct buffer out = {0};

	metrics_write(x->http, &out);
	return answer_buffer(x, 200, "text/plain; version=0.0.4; charset=utf-8", &out);
}
