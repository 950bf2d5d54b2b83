/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kvengine: argv, start and stop order.
 *
 * Start: settings, signals blocked, HTTP (which answers 503 meanwhile), kvd, model, engine, ready:
 * a taken port or a missing daemon is found before a model is loaded for nothing. Stop, by SIGTERM
 * or SIGINT: HTTP first, which cancels what it serves, then the engine, which says BYE to kvd, then
 * the model. The main thread only waits for signals.
 */
#include "base/atomic.h"
#include "base/log.h"
#include "base/units.h"
#include "engine/footprint.h"
#include "engine/http/http.h"
#include "engine/kv.h"
#include "engine/loader.h"
#include "engine/settings.h"
#include "engine/settings_help.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SECRET_BYTES_MAX 64u
#define EXIT_USAGE 2
#define FIND_WAIT_NS (2 * UNITS_NS_PER_S)
#define FIND_PAUSE_NS (50 * UNITS_NS_PER_MS)
#define FINISH_WAIT_NS (2 * UNITS_NS_PER_S)

struct program {
	struct settings settings;
	struct engine_config config;
	uint8_t secret[SECRET_BYTES_MAX + 2]; /* and a line end */
	struct loader loader;
	struct http *http;
	struct engine *engine;
	bool failed; /* atomic: the device is gone */
	char error[1024];
};

/* --- settings that are more than a number -------------------------------------------------------
 */

static int choose_log_level(struct program *p)
{
	static const char *const names[] = {"error", "warning", "info", "debug"};
	const char *name = p->settings.log_level;

	for (int i = 0; name[0] && i < 4; i++) {
		if (strcmp(name, names[i]) == 0) {
			log_level_max = i;
			return 0;
		}
	}
	if (!name[0])
		return 0;
	snprintf(p->error, sizeof(p->error),
		 "--log-level: `%s` is not one of error, warning, "
		 "info, debug",
		 name);
	return -EINVAL;
}

static int choose_kvd_mode(struct program *p)
{
	static const char *const names[] = {"auto", "require", "private"};
	const char *name = p->settings.kvd[0] ? p->settings.kvd : "auto";
	bool socket = p->settings.socket[0] != '\0';

	for (int i = 0; i < 3; i++) {
		if (strcmp(name, names[i]) == 0 && !(socket && i == ENGINE_KVD_PRIVATE)) {
			p->config.kvd_mode = socket ? ENGINE_KVD_REQUIRE : (enum engine_kvd_mode)i;
			return 0;
		}
	}
	snprintf(p->error, sizeof(p->error), "--kvd: `%s` is not %s", name,
		 socket ? "auto or require, which a --socket allows"
			: "one of auto, require, private");
	return -EINVAL;
}

static int choose_overlap(struct program *p)
{
	const char *name = p->settings.overlap;

	p->config.no_overlap = strcmp(name, "off") == 0;
	if (!name[0] || p->config.no_overlap || strcmp(name, "on") == 0)
		return 0;
	snprintf(p->error, sizeof(p->error), "--overlap: `%s` is not on or off", name);
	return -EINVAL;
}

static int check_dtype(struct program *p)
{
	const char *name = p->settings.dtype;

	if (!name[0] || strcmp(name, "auto") == 0 || strcmp(name, "bf16") == 0 ||
	    strcmp(name, "fp16") == 0)
		return 0;
	snprintf(p->error, sizeof(p->error), "--dtype: `%s` is not one of auto, bf16, fp16", name);
	return -EINVAL;
}

static int read_secret(struct program *p)
{
	const char *path = p->settings.secret_file;

	if (!path[0])
		return 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, p->secret, sizeof(p->secret));
	int failed = errno;

	if (fd >= 0)
		close(fd);
	while (n > 0 && (p->secret[n - 1] == '\n' || p->secret[n - 1] == '\r'))
		n--;
	if (n > 0 && n <= (ssize_t)SECRET_BYTES_MAX) {
		p->config.kvd_secret = p->secret;
		p->config.kvd_secret_bytes = (size_t)n;
		return 0;
	}
	snprintf(p->error, sizeof(p->error), "--secret-file %s: %s", path,
		 n < 0 ? strerror(failed) : "must hold 1 to 64 bytes");
	return -EINVAL;
}

static const char *or_null(const char *text)
{
	return text[0] ? text : NULL;
}

/* On the engine's thread; the main thread waits for signals. */
static void stop_failed(void *ctx, const char *why)
{
	struct program *p = ctx;

	atomic_store_release(&p->failed, true); /* partner: serve() */
	kill(getpid(), SIGTERM);
}

static void fill_config(struct program *p)
{
	const struct settings *s = &p->settings;
	struct engine_config *c = &p->config;

	c->threads = (uint32_t)s->threads;
	c->page_tokens = (uint32_t)s->page_tokens;
	c->context = (uint32_t)s->context;
	c->batch_tokens = (uint32_t)s->batch_tokens;
	c->chunk_tokens = (uint32_t)s->chunk_tokens;
	c->sequences_max = (uint32_t)s->sequences;
	c->queue_max = (uint32_t)s->queue;
	c->kvd_socket = or_null(s->socket);
	c->kvd_space = or_null(s->space);
	c->name = s->name[0] ? s->name : "kvengine";
	c->kvd_program = or_null(s->kvd_program);
	c->kvd_pool_bytes = s->pool_bytes;
	c->kvd_wait_ns = s->kvd_wait_ns;
	c->memory_bytes_max = s->memory_bytes;
	c->no_graphs = s->eager;
	c->failed = stop_failed;
	c->failed_ctx = p;
}

static int check_page_tokens(struct program *p)
{
	uint64_t n = p->settings.page_tokens;

	if ((n & (n - 1)) == 0)
		return 0;
	snprintf(p->error, sizeof(p->error), "--page-tokens: %llu is not one of 16, 32, 64, 128",
		 (unsigned long long)n);
	return -EINVAL;
}

static int check_program(struct program *p)
{
	const char *path = p->settings.kvd_program;

	if (!strchr(path, '/') || access(path, X_OK) == 0)
		return 0;
	snprintf(p->error, sizeof(p->error), "--kvd-program %s: %s", path, strerror(errno));
	return -EINVAL;
}

static int check_settings(struct program *p)
{
	int r = choose_log_level(p);

	if (r == 0)
		r = choose_kvd_mode(p);
	if (r == 0)
		r = choose_overlap(p);
	if (r == 0)
		r = check_dtype(p);
	if (r == 0)
		r = read_secret(p);
	if (r == 0)
		r = check_page_tokens(p);
	if (r == 0)
		r = check_program(p);
	if (r == 0 && !p->settings.model[0]) {
		snprintf(p->error, sizeof(p->error), "--model FILE is missing; see --help");
		r = -EINVAL;
	}
	if (r == 0 && access(p->settings.model, R_OK) < 0) {
		snprintf(p->error, sizeof(p->error), "--model %s: %s", p->settings.model,
			 strerror(errno));
		r = -EINVAL;
	}
	fill_config(p);
	return r;
}

/* --- start and stop --------------------------------------------------------------------------- */

static void stop_signals(sigset_t *out)
{
	sigemptyset(out);
	sigaddset(out, SIGTERM);
	sigaddset(out, SIGINT);
}

static bool stop_is_pending(void)
{
	sigset_t pending;

	sigpending(&pending);
	return sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1;
}

static int start_http(struct program *p)
{
	const struct settings *s = &p->settings;
	const struct http_config config = {.host = s->host,
					   .port = (uint16_t)s->port,
					   .connections_max = (uint32_t)s->connections};

	return http_start(&config, &p->http, p->error, sizeof(p->error));
}

static void tell_ready(struct program *p)
{
	char line[SETTINGS_TEXT_MAX + 64];
	const char *host = p->settings.host;
	bool six = strchr(host, ':') != NULL;

	snprintf(line, sizeof(line), "ready http://%s%s%s:%u\n", six ? "[" : "", host,
		 six ? "]" : "", http_port(p->http));
	log_info("engine", "%.*s", (int)strlen(line) - 1, line);
	if (p->settings.ready_fd == UINT64_MAX)
		return;
	int fd = (int)p->settings.ready_fd;

	if (write(fd, line, strlen(line)) < 0)
		log_warn("engine", "--ready-fd %d: %s", fd, strerror(errno));
	close(fd);
}

static int load(struct program *p)
{
	int r = loader_load(&p->loader, &p->settings, stop_is_pending, p->error, sizeof(p->error));

	p->config.model = p->loader.model;
	return r;
}

/* What clients call it: as told, as the file says, or as the file is called. */
static const char *model_name(const struct program *p)
{
	const char *slash = strrchr(p->settings.model, '/');

	if (p->settings.served_model_name[0])
		return p->settings.served_model_name;
	if (p->loader.model->h.name[0])
		return p->loader.model->h.name;
	return slash ? slash + 1 : p->settings.model;
}

/* A daemon that was started a moment before us may not listen yet. */
static int find_kvd(struct program *p, const sigset_t *stop)
{
	const struct timespec pause = {.tv_nsec = FIND_PAUSE_NS};
	uint64_t deadline_ns = units_now_ns() + FIND_WAIT_NS;
	int r;

	do {
		r = kv_find(&p->config, p->error, sizeof(p->error));
	} while ((r == -ENOENT || r == -ECONNREFUSED) && units_now_ns() < deadline_ns &&
		 sigtimedwait(stop, NULL, &pause) < 0);
	return r;
}

static int serve(struct program *p, const sigset_t *stop)
{
	int r = start_http(p);
	int number;

	if (r == 0)
		r = find_kvd(p, stop);
	if (r == 0)
		r = load(p);
	if (r == 0)
		r = engine_new(&p->config, &p->engine, p->error, sizeof(p->error));
	if (r < 0)
		return r;
	const struct http_service service = {.engine = p->engine,
					     .tokenizer = p->loader.tokenizer,
					     .chat = p->loader.chat,
					     .model = model_name(p)};

	http_set_ready(p->http, &service);
	tell_ready(p);
	sigwait(stop, &number);
	if (atomic_load_acquire(&p->failed)) {
		http_finish(p->http, FINISH_WAIT_NS);
		snprintf(p->error, sizeof(p->error), "ending: the device failed");
		return -EIO;
	}
	log_info("engine", "signal %d, ending", number);
	return 0;
}

static int print_plan(struct program *p)
{
	struct footprint f;
	int r = load(p);

	if (r == 0)
		r = footprint_init(&f, &p->config, p->error, sizeof(p->error));
	if (r == 0)
		footprint_print(&f, stdout);
	return r;
}

static int run(struct program *p)
{
	sigset_t stop;

	stop_signals(&stop);
	sigprocmask(SIG_BLOCK, &stop, NULL);
	signal(SIGPIPE, SIG_IGN);
	int r = p->settings.print_plan ? print_plan(p) : serve(p, &stop);

	if (r < 0)
		log_error("engine", "%s", p->error);
	http_stop(p->http);
	engine_free(p->engine);
	loader_free(&p->loader);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	static struct program p;

	if (settings_parse(&p.settings, argc, argv, p.error, sizeof(p.error)) < 0) {
		fprintf(stderr, "kvengine: %s\n", p.error);
		return EXIT_USAGE;
	}
	if (p.settings.help) {
		settings_help_text(stdout);
		return EXIT_SUCCESS;
	}
	if (p.settings.help_man) {
		settings_help_roff(stdout);
		return EXIT_SUCCESS;
	}
	if (p.settings.version) {
		printf("kvengine %s\n", KVD_VERSION);
		return EXIT_SUCCESS;
	}
	if (check_settings(&p) < 0) {
		fprintf(stderr, "kvengine: %s\n", p.error);
		return EXIT_USAGE;
	}
	if (p.settings.check_config) {
		printf("kvengine: the configuration is right\n");
		return EXIT_SUCCESS;
	}
	return run(&p);
}
