/* SPDX-License-Identifier: Apache-2.0 */
/* A screen that is shown again and again: top, tiers --watch. */
#ifndef TOOLS_KVCTL_WATCH_H
#define TOOLS_KVCTL_WATCH_H

#include <stdbool.h>
#include <stdint.h>

struct watch {
	/* Prints the screen. 0, or -errno after a message: that was the last. */
	int (*screen)(void *ctx);
	void *ctx;
	uint64_t interval_ms;
	uint64_t count; /* leave after so many screens; 0: never */
	bool clear;	/* each screen in the place of the one before, where there is a terminal */
};

/*
 * Blocks until the count is reached, ^C, SIGTERM, or, where the input is a terminal, `q`. Takes
 * SIGINT and SIGTERM over. 0, or what screen() said.
 */
int watch_run(const struct watch *w);

#endif
