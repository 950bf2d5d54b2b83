/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kvd of one's own: a child process at the other end of a socket pair, that ends with us. Start
 * it on a thread that lives as long as the engine: the child is bound to that thread's life.
 */
#ifndef ENGINE_PRIVATE_KVD_H
#define ENGINE_PRIVATE_KVD_H

#include <engine/engine.h>
#include <sys/types.h>

struct private_kvd {
	pid_t pid; /* 0: none */
};

/* Starts the daemon; *out_fd is our end of its socket. 0 or -errno with a sentence in error. */
int private_kvd_start(struct private_kvd *p, const struct engine_config *config, int *out_fd,
		      char *error, size_t size);
/* Our end of the socket is closed: waits at most so long for its end, then kills it. */
void private_kvd_stop(struct private_kvd *p, uint32_t wait_ms);

#endif
