/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names follow vLLM's where the meaning is the same, under our own prefix `kvengine_`, so that a
 * dashboard is carried over by replacing the prefix. All carry model_name.
 */
#include "engine/http/metrics.h"
#include "engine/http/server.h"
#include <base/bits.h>
#include <microhttpd.h>
#include <stddef.h>

struct metrics_out {
	struct buffer *buffer;
	char label[160]; /* model_name="..." */
};

/* The name with \ and " escaped, and nothing that could end the line. */
static void label_init(struct metrics_out *o, const char *model)
{
	size_t at = (size_t)snprintf(o->label, sizeof(o->label), "model_name=\"");

	for (; *model && at + 4 < sizeof(o->label); model++) {
		if (*model == '\\' || *model == '"')
			o->label[at++] = '\\';
		o->label[at++] = (unsigned char)*model < ' ' ? '?' : *model;
	}
	o->label[at++] = '"';
	o->label[at] = '\0';
}

static void head(struct metrics_out *o, const char *name, const char *type, const char *help)
{
	buffer_printf(o->buffer, "# HELP kvengine_%s %s\n# TYPE kvengine_%s %s\n", name, help, name,
		      type);
}

static void one(struct metrics_out *o, const char *name, const char *type, const char *help,
		uint64_t v)
{
	head(o, name, type, help);
	buffer_printf(o->buffer, "kvengine_%s{%s} %llu\n", name, o->label, (unsigned long long)v);
}

static void histogram(struct metrics_out *o, const char *name, const char *help,
		      const struct engine_histogram *h)
{
	head(o, name, "histogram", help);
	for (size_t i = 0; i < ARRAY_LEN(h->bucket); i++)
		buffer_printf(o->buffer, "kvengine_%s_bucket{%s,le=\"%g\"} %llu\n", name, o->label,
			      engine_histogram_bounds_s[i], (unsigned long long)h->bucket[i]);
	buffer_printf(o->buffer, "kvengine_%s_bucket{%s,le=\"+Inf\"} %llu\n", name, o->label,
		      (unsigned long long)h->count);
	buffer_printf(o->buffer, "kvengine_%s_sum{%s} %.9g\n", name, o->label, h->sum_s);
	buffer_printf(o->buffer, "kvengine_%s_count{%s} %llu\n", name, o->label,
		      (unsigned long long)h->count);
}

static void write_gauges(struct metrics_out *o, const struct engine_stats *s)
{
	one(o, "kvd_ready", "gauge", "1 while connected to kvd.", s->kvd_ready);
	one(o, "kvd_private", "gauge", "1 if kvd is a child of this engine.", s->private_kvd);
	one(o, "num_requests_running", "gauge", "Requests in the batch.", s->running);
	one(o, "num_requests_waiting", "gauge", "Requests in the queue.", s->waiting);
	one(o, "sequences_max", "gauge", "Requests that run at once, at most.", s->sequences_max);
	one(o, "context_tokens", "gauge", "Longest sequence.", s->context);
	one(o, "page_tokens", "gauge", "Tokens of one page.", s->page_tokens);
	one(o, "leased_pages", "gauge", "Pages leased from kvd for sequences.", s->leased_blocks);
	one(o, "magazine_pages", "gauge", "Open pages leased ahead.", s->magazine_blocks);
}

static void write_counters(struct metrics_out *o, const struct engine_stats *s)
{
	one(o, "prefix_cache_queries_total", "counter", "Prompt tokens looked up in kvd.",
	    s->lookup_tokens);
	one(o, "prefix_cache_hits_total", "counter", "Prompt tokens found in kvd.",
	    s->cached_tokens);
	one(o, "prompt_tokens_total", "counter", "Prompt tokens.", s->prompt_tokens);
	one(o, "generation_tokens_total", "counter", "Generated tokens.", s->generated_tokens);
	one(o, "tail_bytes_copied_total", "counter", "Bytes copied to continue partial pages.",
	    s->tail_bytes_copied);
	one(o, "num_preemptions_total", "counter", "Sequences that had to start over.",
	    s->preemptions);
	one(o, "iterations_total", "counter", "Steps of the engine.", s->steps);
	one(o, "iteration_tokens_total", "counter", "Rows of all steps.", s->step_tokens);
	one(o, "early_iterations_total", "counter",
	    "Steps that were submitted while the one before computed.", s->early_steps);
	one(o, "wasted_rows_total", "counter",
	    "Rows of answers whose end was learnt too late to leave them out.", s->wasted_rows);
	one(o, "kvd_reconnects_total", "counter", "Times kvd came back.", s->kvd_reconnects);
	one(o, "graph_steps_total", "counter", "Steps that replayed a recorded graph.",
	    s->kernels.graph_steps);
	one(o, "eager_steps_total", "counter", "Steps whose kernels were launched one by one.",
	    s->kernels.eager_steps);
	one(o, "padding_rows_total", "counter", "Rows computed for nothing, to fit a graph.",
	    s->kernels.padding_rows);
}

static void write_finished(struct metrics_out *o, const struct engine_stats *s)
{
	static const char *const reason[] = {"stop", "length", "abort", "error"};

	head(o, "request_success_total", "counter", "Ended requests.");
	for (size_t i = 0; i < ARRAY_LEN(reason); i++)
		buffer_printf(o->buffer,
			      "kvengine_request_success_total{%s,finished_reason=\"%s\"} %llu\n",
			      o->label, reason[i], (unsigned long long)s->requests_done[i]);
}

static void write_histograms(struct metrics_out *o, const struct engine_stats *s)
{
	histogram(o, "time_to_first_token_seconds", "From submit to the first token.", &s->ttft);
	histogram(o, "inter_token_latency_seconds", "Between two tokens.", &s->itl);
	histogram(o, "e2e_request_latency_seconds", "From submit to the end.", &s->e2e);
	histogram(o, "request_queue_time_seconds", "From submit to the first step.", &s->queue);
	histogram(o, "request_prefill_time_seconds", "From the first step to the first token.",
		  &s->prefill);
}

static void write_server(struct metrics_out *o, struct http *h)
{
	const union MHD_DaemonInfo *info =
		MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);

	one(o, "http_connections", "gauge", "Open connections.", info ? info->num_connections : 0);
	one(o, "http_body_bytes", "gauge", "Request bodies being received.",
	    atomic_load_relaxed(&h->bodies_bytes));
	head(o, "http_answers_total", "counter", "Answers by status.");
	for (size_t i = 2; i < ARRAY_LEN(h->answers); i++)
		buffer_printf(o->buffer, "kvengine_http_answers_total{%s,status=\"%zuxx\"} %llu\n",
			      o->label, i, (unsigned long long)atomic_load_relaxed(&h->answers[i]));
}

void metrics_write(struct http *h, struct buffer *out)
{
	struct metrics_out o = {.buffer = out};
	struct engine_stats stats;

	label_init(&o, server_ready(h) ? h->env.model : h->model);
	write_server(&o, h);
	if (!server_ready(h))
		return;
	engine_stats(h->service.engine, &stats);
	write_gauges(&o, &stats);
	write_counters(&o, &stats);
	write_finished(&o, &stats);
	write_histograms(&o, &stats);
}
