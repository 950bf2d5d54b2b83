/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows a screen at intervals until somebody has seen enough. The terminal's keys are read without
 * waiting for a line meanwhile, and are as they were when this ends. Signals come in the pauses
 * alone, so that none is lost between a look at watch_stop and the pause.
 */
#include "tools/kvctl/watch.h"

#include <base/units.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <termios.h>
#include <unistd.h>

static volatile sig_atomic_t watch_stop;

static void watch_on_signal(int signal)
{
	(void)signal;
	watch_stop = 1;
}

/* Waits for the interval; true if the person wants to leave. */
static bool watch_pause(uint64_t interval_ms, bool keys, const sigset_t *unblocked)
{
	struct timespec wait = {.tv_sec = (time_t)(interval_ms / 1000),
				.tv_nsec = (long)(interval_ms % 1000 * UNITS_NS_PER_MS)};
	struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
	char key;

	if (ppoll(&p, keys ? 1 : 0, &wait, unblocked) > 0)
		return read(STDIN_FILENO, &key, 1) <= 0 || key == 'q';
	return false;
}

static int watch_loop(const struct watch *w, bool keys, const sigset_t *unblocked)
{
	bool clear = w->clear && isatty(STDOUT_FILENO);

	for (uint64_t i = 0; !watch_stop && (w->count == 0 || i < w->count); i++) {
		if (i > 0 && watch_pause(w->interval_ms, keys, unblocked))
			break;
		if (clear)
			printf("\033[H\033[J");
		int err = w->screen(w->ctx);
		/* A reader of ours that left ends us too. */
		if (err < 0 || fflush(stdout) != 0)
			return err;
	}
	return 0;
}

int watch_run(const struct watch *w)
{
	struct sigaction action = {.sa_handler = watch_on_signal};
	struct termios saved, raw;
	sigset_t stops, unblocked;

	sigemptyset(&stops);
	sigaddset(&stops, SIGINT);
	sigaddset(&stops, SIGTERM);
	sigprocmask(SIG_BLOCK, &stops, &unblocked);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	bool keys = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &saved) == 0;
	if (keys) {
		raw = saved;
		raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	}
	int err = watch_loop(w, keys, &unblocked);
	if (keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &saved);
	return err;
}
