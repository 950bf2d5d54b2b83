/* SPDX-License-Identifier: Apache-2.0 */
/* A kvd of our own, in a temporary folder, for the benches of the control plane. */
#ifndef TOOLS_KVBENCH_DAEMON_H
#define TOOLS_KVBENCH_DAEMON_H

#include <stdint.h>
#include <sys/types.h>

struct daemon {
	pid_t pid;
	char dir[64];
	char socket[80];
};

/* Starts `program` and waits until it listens. 0 or -errno after a message. */
int daemon_start(struct daemon *d, const char *program, uint64_t pool_bytes, uint32_t spin_us);
/* SIGTERM, wait, remove the folder. */
void daemon_stop(struct daemon *d);

#endif
