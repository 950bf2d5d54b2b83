/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kvctl top: a live screen from the status file: pool, rates since the last screen, sessions. It
 * asks the daemon nothing, so that watching costs it nothing. `q`, ^C or the end of input ends it.
 */
#include "tools/kvctl/cmd_status.h"
#include "tools/kvctl/fields.h"
#include "tools/kvctl/source.h"

#include <base/bits.h>
#include <base/units.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

static volatile sig_atomic_t cmd_top_stop;

static void cmd_top_on_signal(int signal)
{
	(void)signal;
	cmd_top_stop = 1;
}

static void cmd_top_bar(const struct kvd_status *s)
{
	static const char mark[KVD_PAGE_STATES] = {'.', 'o', '#', '>', 'q'};
	int width = 60;
	uint64_t total = 0, done = 0;

	for (size_t i = 0; i < KVD_PAGE_STATES; i++)
		total += s->bytes_by_state[i];
	total = BITS_MAX(total, s->pool_bytes);
	printf("[");
	static const size_t order[] = {KVD_PAGE_SEALED, KVD_PAGE_OPEN, KVD_PAGE_FILLING,
				       KVD_PAGE_QUARANTINE};
	int drawn = 0;
	for (size_t i = 0; i < ARRAY_LEN(order); i++) {
		done += s->bytes_by_state[order[i]];
		int upto = total ? (int)((double)done / (double)total * width + 0.5) : 0;
		for (; drawn < upto && drawn < width; drawn++)
			putchar(mark[order[i]]);
	}
	for (; drawn < width; drawn++)
		putchar('.');
	printf("]  # sealed  o open  q quarantine\n");
}

static void cmd_top_rates(const struct kvd_status *now, const struct kvd_status *before)
{
	double s = (double)(now->updated_ns - before->updated_ns) / 1e9;

	if (s <= 0)
		s = 1;
#define RATE(c) ((double)(now->counters[c] - before->counters[c]) / s)
	double asked = RATE(KVD_C_PROMPT_TOKENS), hit = RATE(KVD_C_CACHED_TOKENS);
	printf("now            %.1f acquires/s, %.0f prompt tokens/s, %.1f %% hits, %.0f blocks "
	       "sealed/s, %.0f evicted/s, %.1f refused/s\n\n",
	       RATE(KVD_C_ACQUIRES), asked, asked > 0 ? 100 * hit / asked : 0,
	       RATE(KVD_C_SEALED_BLOCKS), RATE(KVD_C_EVICTED_PAGES), RATE(KVD_C_REFUSED_FULL));
#undef RATE
}

static void cmd_top_screen(const struct kvctl *k, const struct kvd_status *now,
			   const struct kvd_status *before, enum source_life life, bool tty)
{
	if (tty)
		printf("\033[H\033[J");
	printf("kvd pid %u  %s  %s\n", now->pid, life == SOURCE_ALIVE ? "alive" : "DEAD", k->path);
	cmd_top_bar(now);
	cmd_status_screen(now);
	cmd_top_rates(now, before);
	table_print(fields_session, now->sessions,
		    BITS_MIN(now->session_count, KVD_STATUS_SESSIONS), sizeof(now->sessions[0]));
	fflush(stdout);
}

/* Waits for the interval; true if the person wants to leave. */
static bool cmd_top_pause(uint64_t interval_ms, bool keys)
{
	struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
	char key;

	if (poll(&p, keys ? 1 : 0, (int)interval_ms) > 0)
		return read(STDIN_FILENO, &key, 1) <= 0 || key == 'q';
	return false;
}

static int cmd_top_loop(struct kvctl *k, int64_t interval_ms, int64_t count, bool keys)
{
	static struct kvd_status s[2];
	enum source_life life;
	bool tty = isatty(STDOUT_FILENO);

	if (source_status(k, &s[0], &life) < 0)
		return EXIT_FAILED;
	for (int64_t i = 0; !cmd_top_stop && (count == 0 || i < count); i++) {
		if (i > 0 && cmd_top_pause((uint64_t)interval_ms, keys))
			break;
		if (source_status(k, &s[1], &life) < 0)
			return EXIT_FAILED;
		cmd_top_screen(k, &s[1], &s[0], life, tty);
		s[0] = s[1];
	}
	return EXIT_OK;
}

static int cmd_top_run(struct kvctl *k, int argc, char **argv)
{
	const char *values[2] = {"1000", "0"};
	struct termios saved, raw;

	if (args_read(&cmd_top, argc, argv, values) != 0)
		return EXIT_USAGE;
	int64_t interval_ms = args_number(values[0], "--interval", 50, 60000);
	int64_t count = args_number(values[1], "--count", 0, 1000000);
	if (interval_ms < 0 || count < 0)
		return EXIT_USAGE;
	struct sigaction action = {.sa_handler = cmd_top_on_signal};
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	bool keys = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &saved) == 0;
	if (keys) {
		raw = saved;
		raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	}
	int status = cmd_top_loop(k, interval_ms, count, keys);
	if (keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &saved);
	return status;
}

static const struct kvctl_option cmd_top_options[] = {
	{"--interval", "MS", "milliseconds between screens; default 1000"},
	{"--count", "N", "leave after N screens; default 0: never"},
	{0},
};

const struct kvctl_command cmd_top = {
	.name = "top",
	.args = "[--interval MS] [--count N]",
	.summary = "a live screen: pool, sessions, hit rate, pages by state",
	.text = "Leave with q or ^C. Rates are over the last interval. Columns as in `sessions`.\n",
	.options = cmd_top_options,
	.run = cmd_top_run,
};
