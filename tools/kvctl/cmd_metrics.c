/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kvctl metrics: kvd's figures in the Prometheus text format, printed once or served over HTTP.
 * Format: https://prometheus.io/docs/instrumenting/exposition_formats/ (text, version 0.0.4). They
 * come from the status file, so that a scrape costs the daemon nothing and a dead daemon is
 * visible as kvd_up 0.
 */
#include "tools/kvctl/cmd_metrics.h"
#include "tools/kvctl/cmd_status.h"
#include "tools/kvctl/fields.h"
#include "tools/kvctl/source.h"

#include <base/bits.h>
#include <base/log.h>
#include <base/units.h>
#include <errno.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static void cmd_metrics_one(FILE *out, const char *name, const char *type, const char *help,
			    double value)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n%s %.17g\n", name, help, name, type, name, value);
}

static void cmd_metrics_sessions(FILE *out, const struct kvd_status *s)
{
	char name[KVD_NAME_MAX];

	fprintf(out, "# HELP kvd_session_pages pages that a session holds\n"
		     "# TYPE kvd_session_pages gauge\n");
	for (size_t i = 0; i < BITS_MIN(s->session_count, KVD_STATUS_SESSIONS); i++) {
		const struct kvd_session_stat *x = &s->sessions[i];
		log_safe(x->name, sizeof(x->name), name, sizeof(name));
		for (char *c = name; *c; c++)
			*c = *c == '"' || *c == '\\' ? '_' : *c;
		fprintf(out,
			"kvd_session_pages{session=\"%u\",name=\"%s\",kind=\"open\"} %u\n"
			"kvd_session_pages{session=\"%u\",name=\"%s\",kind=\"pinned\"} %u\n"
			"kvd_session_pages{session=\"%u\",name=\"%s\",kind=\"magazine\"} %u\n",
			x->session, name, x->open_pages, x->session, name, x->pinned_pages,
			x->session, name, x->magazine_pages);
	}
}

/* Times are seconds here, as is the custom. */
static void cmd_metrics_counters(FILE *out, const struct kvd_status *s)
{
	const char *name = NULL;
	uint64_t v = cmd_status_counter(s, 0, &name);

	for (size_t i = 1; name; i++) {
		size_t bytes = strlen(name);
		bool ns = bytes > 3 && strcmp(name + bytes - 3, "_ns") == 0;
		char full[64];

		snprintf(full, sizeof(full), "kvd_%.*s%s_total", (int)(bytes - 3 * ns), name,
			 ns ? "_seconds" : "");
		cmd_metrics_one(out, full, "counter", "see kvd_abi.h, enum kvd_counter",
				ns ? (double)v / 1e9 : (double)v);
		name = NULL;
		v = cmd_status_counter(s, i, &name);
	}
}

static void cmd_metrics_write(FILE *out, const struct kvd_status *s, bool up)
{
	cmd_metrics_one(out, "kvd_up", "gauge", "1 while the daemon runs", up);
	if (!up)
		return;
	fprintf(out, "# HELP kvd_pages pages by state\n# TYPE kvd_pages gauge\n");
	for (size_t i = 0; i < KVD_PAGE_STATES; i++)
		fprintf(out, "kvd_pages{state=\"%s\"} %" PRIu64 "\n", cmd_status_state_name(i),
			s->pages_by_state[i]);
	fprintf(out, "# HELP kvd_bytes bytes of pages by state\n# TYPE kvd_bytes gauge\n");
	for (size_t i = 0; i < KVD_PAGE_STATES; i++)
		fprintf(out, "kvd_bytes{state=\"%s\"} %" PRIu64 "\n", cmd_status_state_name(i),
			s->bytes_by_state[i]);
	cmd_metrics_one(out, "kvd_pool_bytes", "gauge", "the pool's size", (double)s->pool_bytes);
	cmd_metrics_one(out, "kvd_slab_bytes", "gauge", "bytes made into slabs",
			(double)s->slab_bytes);
	cmd_metrics_one(out, "kvd_promised_pages", "gauge", "promised, not yet taken",
			(double)s->promised_pages);
	cmd_metrics_one(out, "kvd_evictable_pages", "gauge", "sealed without pins",
			(double)s->evictable_pages);
	cmd_metrics_one(out, "kvd_nodes", "gauge", "index nodes", (double)s->nodes);
	cmd_metrics_one(out, "kvd_leases", "gauge", "live leases", (double)s->leases);
	cmd_metrics_one(out, "kvd_sessions", "gauge", "connected sessions", s->session_count);
	cmd_metrics_one(out, "kvd_waiting_requests", "gauge", "requests that wait for memory",
			(double)s->waiting_requests);
	cmd_metrics_one(out, "kvd_loop_turn_p50_seconds", "gauge", "median turn of the loop",
			(double)s->loop_p50_ns / 1e9);
	cmd_metrics_one(out, "kvd_loop_turn_p99_seconds", "gauge", "p99 turn of the loop",
			(double)s->loop_p99_ns / 1e9);
	cmd_metrics_counters(out, s);
	cmd_metrics_tiers(out, s);
	cmd_metrics_sessions(out, s);
}

/* The metrics as malloc'ed text. NULL: no memory. */
static char *cmd_metrics_text(const struct kvd_status *s, bool up, size_t *out_bytes)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, out_bytes);

	if (!out)
		return NULL;
	cmd_metrics_write(out, s, up);
	return fclose(out) == 0 ? text : NULL;
}

static char *cmd_metrics_scrape(const struct kvctl *k, size_t *out_bytes)
{
	static __thread struct kvd_status s;
	enum source_life life = SOURCE_DEAD;
	int err = source_status_quiet(k, &s, &life);

	return cmd_metrics_text(&s, !err && life == SOURCE_ALIVE, out_bytes);
}

static enum MHD_Result cmd_metrics_answer(void *ctx, struct MHD_Connection *c, const char *url,
					  const char *method, const char *version,
					  const char *upload, size_t *upload_bytes, void **state)
{
	size_t bytes = 0;
	bool known = strcmp(url, "/metrics") == 0 && strcmp(method, "GET") == 0;
	char *text = known ? cmd_metrics_scrape(ctx, &bytes) : strdup("GET /metrics\n");

	if (!text)
		return MHD_NO;
	struct MHD_Response *r = MHD_create_response_from_buffer(known ? bytes : strlen(text), text,
								 MHD_RESPMEM_MUST_FREE);
	if (!r) {
		free(text);
		return MHD_NO;
	}
	MHD_add_response_header(r, "Content-Type", "text/plain; version=0.0.4; charset=utf-8");
	enum MHD_Result sent = MHD_queue_response(c, known ? MHD_HTTP_OK : MHD_HTTP_NOT_FOUND, r);
	MHD_destroy_response(r);
	return sent;
}

/* "HOST:PORT", ":PORT" or "PORT" into an address to bind; the host is 127.0.0.1 unless given. */
static int cmd_metrics_address(const char *listen, struct addrinfo **out)
{
	char host[256] = "127.0.0.1";
	const char *colon = strrchr(listen, ':');
	const char *port = colon ? colon + 1 : listen;
	struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV,
				 .ai_socktype = SOCK_STREAM};

	bool brackets = listen[0] == '[' && colon && colon > listen && colon[-1] == ']';
	if (colon && colon > listen)
		snprintf(host, sizeof(host), "%.*s", (int)(colon - listen) - 2 * brackets,
			 listen + brackets);
	int err = getaddrinfo(host, port, &hints, out);
	if (err)
		fprintf(stderr, "kvctl: --listen %s: %s; write HOST:PORT\n", listen,
			gai_strerror(err));
	return err;
}

static int cmd_metrics_serve(struct kvctl *k, const char *listen)
{
	struct addrinfo *address;
	sigset_t stop;
	int signal;

	if (cmd_metrics_address(listen, &address))
		return EXIT_USAGE;
	sigemptyset(&stop);
	sigaddset(&stop, SIGINT);
	sigaddset(&stop, SIGTERM);
	sigprocmask(SIG_BLOCK, &stop, NULL);
	unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_AUTO;
	if (address->ai_family == AF_INET6)
		flags |= MHD_USE_IPv6;
	errno = 0;
	struct MHD_Daemon *d =
		MHD_start_daemon(flags, 0, NULL, NULL, cmd_metrics_answer, k, MHD_OPTION_SOCK_ADDR,
				 address->ai_addr, MHD_OPTION_CONNECTION_LIMIT, 16u,
				 MHD_OPTION_CONNECTION_TIMEOUT, 10u, MHD_OPTION_END);
	freeaddrinfo(address);
	if (!d) {
		fprintf(stderr, "kvctl: cannot listen on %s: %s\n", listen, strerror(errno));
		return EXIT_FAILED;
	}
	fprintf(stderr, "kvctl: serving /metrics on %s; ^C ends it\n", listen);
	sigwait(&stop, &signal);
	MHD_stop_daemon(d);
	return EXIT_OK;
}

static int cmd_metrics_run(struct kvctl *k, int argc, char **argv)
{
	static struct kvd_status s;
	enum source_life life = SOURCE_DEAD;
	const char *values[1] = {NULL};
	size_t bytes;

	if (args_read(&cmd_metrics, argc, argv, values) != 0)
		return EXIT_USAGE;
	if (values[0])
		return cmd_metrics_serve(k, values[0]);
	bool read = source_status(k, &s, &life) == 0;
	bool up = read && life == SOURCE_ALIVE;
	if (read && !up)
		fprintf(stderr, "kvctl: the daemon at %s died\n", k->path);
	char *text = cmd_metrics_text(&s, up, &bytes);
	if (!text)
		return EXIT_FAILED;
	fwrite(text, 1, bytes, stdout);
	free(text);
	return up ? EXIT_OK : EXIT_FAILED;
}

static const struct kvctl_option cmd_metrics_options[] = {
	{"--listen", "HOST:PORT",
	 "serve them over HTTP at /metrics; the host is 127.0.0.1 by default"},
	{0},
};

const struct kvctl_command cmd_metrics = {
	.name = "metrics",
	.args = "[--listen HOST:PORT]",
	.summary = "kvd's figures for Prometheus",
	.text = "Prints them once, or serves them: of the daemon, its sessions, and the areas of "
		"its\n"
		"tiers with labels tier, area and path. When the daemon is dead kvd_up is 0, and "
		"the exit\n"
		"status 1. Engines serve their own at /metrics of their HTTP port.\n",
	.options = cmd_metrics_options,
	.run = cmd_metrics_run,
};
