/* SPDX-License-Identifier: Apache-2.0 */
/* A kvd of our own, in a temporary folder, for the benches of the control plane and of the tiers.
 */
#ifndef TOOLS_KVBENCH_DAEMON_H
#define TOOLS_KVBENCH_DAEMON_H

#include <stdint.h>
#include <sys/types.h>

struct daemon {
	pid_t pid; /* 0: does not run */
	char dir[64];
	char socket[80];
	char log[80]; /* what it says: of its last start, appended to those before */
};

/* Starts `program` and waits until it listens. 0 or -errno after a message. */
int daemon_start(struct daemon *d, const char *program, uint64_t pool_bytes, uint32_t spin_us);
/* SIGTERM, wait, remove the folder. */
void daemon_stop(struct daemon *d);

/* The same in pieces, for who starts it again. Makes the folder: 0 or -errno. */
int daemon_init(struct daemon *d);
/*
 * Starts it with its places and these options (NULL ends) and waits until it listens, for a minute
 * at most. 0 or -errno after a message.
 */
int daemon_spawn(struct daemon *d, const char *program, const char *const options[]);
/* Sends the signal and waits; the folder stays. One that does not run is fine. */
void daemon_end(struct daemon *d, int sig);

/*
 * Starts any program that writes a line to the descriptor of its --ready-fd, which is put behind
 * argv[argv_count]; argv has room for two more and NULL. Its stderr is `log`, or ours if that is
 * NULL. The line comes into line[size]. 0 or -errno after a message; *out_pid is to be ended in
 * both cases, if it is not 0.
 */
int daemon_program(const char **argv, int argv_count, const char *log, pid_t *out_pid, char *line,
		   size_t size);

#endif
