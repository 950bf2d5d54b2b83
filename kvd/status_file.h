/* SPDX-License-Identifier: Apache-2.0 */
/* The status file: figures that anybody with the right to read it sees without asking the daemon.
 */
#ifndef KVD_STATUS_FILE_H
#define KVD_STATUS_FILE_H

#include <kvd_abi.h>
#include <stdbool.h>
#include <sys/types.h>

struct status_file {
	struct kvd_status *map; /* NULL: there is no file */
	char path[280];
};

/* Makes the file, in place of one that a dead daemon left. gid: NULL, or who may read it. */
int status_file_init(struct status_file *s, const char *path, const gid_t *gid);
/* Publishes `now`; its magic, version, seq and pid are filled in here. */
void status_file_write(struct status_file *s, const struct kvd_status *now);
/* Removes the file. A zeroed struct is fine. */
void status_file_fini(struct status_file *s);

#endif
