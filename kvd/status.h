/* SPDX-License-Identifier: Apache-2.0 */
/* The status file: figures that anybody with the right to read it sees without asking the daemon.
 */
#ifndef KVD_STATUS_H
#define KVD_STATUS_H

#include <kvd_abi.h>
#include <stdbool.h>
#include <sys/types.h>

struct status {
	struct kvd_status *map; /* NULL: there is no file */
	char path[280];
};

/* Makes the file, in place of one that a dead daemon left. gid: NULL, or who may read it. */
int status_init(struct status *s, const char *path, const gid_t *gid);
/* Publishes `now`; its magic, version, seq and pid are filled in here. */
void status_write(struct status *s, const struct kvd_status *now);
/* Removes the file. A zeroed struct is fine. */
void status_fini(struct status *s);

#endif
