/* SPDX-License-Identifier: Apache-2.0 */
/* kvd: reads options, then is a server until told to stop. Exit 0 well, 1 failed, 2 usage. */
#include "base/log.h"
#include "kvd/crash.h"
#include "kvd/defaults.h"
#include "kvd/manual.h"
#include "kvd/options.h"
#include "kvd/server.h"
#include "kvd/server_loop.h"
#include "kvd/tenants.h"
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

/*
 * Read by jemalloc, where that is linked: huge pages for what is large. The records of pages and of
 * the index are looked up all over, and take a fault for every 4 KiB at start otherwise.
 */
extern const char *malloc_conf;
const char *malloc_conf = "thp:always";

/* Large, and one of each: static. */
static struct options main_options;
static struct server main_server;

static int main_serve(struct options *o)
{
	char error[512] = "";

	crash_init();
	signal(SIGPIPE, SIG_IGN);
	tenants_default(o);
	int r = server_init(&main_server, o, error, sizeof(error));
	if (r == 0)
		server_loop_run(&main_server);
	else
		log_error("start", "%s", error);
	server_fini(&main_server);
	if (r == 0)
		log_info("stop", "bye");
	/* The runtime's own end would wait for the call that hangs. */
	if (main_server.hung)
		_exit(r < 0);
	return r < 0;
}

static int main_check(struct options *o)
{
	char error[512] = "";
	int r = defaults_check(o, error, sizeof(error));

	if (r < 0)
		log_error("config", "%s", error);
	else
		log_info("config", "good");
	return r < 0 ? 2 : 0;
}

int main(int argc, char **argv)
{
	struct options *o = &main_options;
	char error[512] = "";

	if (options_parse(o, argc, argv, error, sizeof(error)) < 0) {
		log_error("options", "%s", error);
		return 2;
	}
	log_level_max = o->log_level;
	if (o->version)
		printf("kvd " KVD_VERSION ", protocol %d.%d\n", KVD_ABI_MAJOR, KVD_ABI_MINOR);
	else if (o->help)
		manual_help(stdout);
	else if (o->help_man)
		manual_roff(stdout);
	else
		return o->check_config ? main_check(o) : main_serve(o);
	return 0;
}
