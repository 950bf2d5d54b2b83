/* SPDX-License-Identifier: Apache-2.0 */
/* Where the daemon keeps its files, and the lock that makes it the only one there. */
#ifndef KVD_PATHS_H
#define KVD_PATHS_H

#include "kvd/options.h"

struct paths {
	char runtime_dir[OPTIONS_PATH_MAX]; /* "": none, a private child */
	char state_dir[OPTIONS_PATH_MAX];   /* "": none */
	char socket[OPTIONS_PATH_MAX];
	char status[OPTIONS_PATH_MAX + 16];
	char lock[OPTIONS_PATH_MAX + 16];
	int lock_fd; /* -1: not held */
	bool has_socket_gid, has_status_gid;
	gid_t socket_gid;
	gid_t status_gid;
	mode_t socket_mode;
};

/* Decides all names; touches nothing. 0, or -errno with words in error[size]. */
int paths_init(struct paths *p, const struct options *o, char *error, size_t size);
/* Makes the directories and takes the lock: -EADDRINUSE when another daemon holds it. */
int paths_take(struct paths *p, char *error, size_t size);
void paths_release(struct paths *p);

#endif
