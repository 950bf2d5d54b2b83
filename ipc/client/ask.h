/* SPDX-License-Identifier: Apache-2.0 */
/* One question on the socket, and its answer. */
#ifndef IPC_CLIENT_ASK_H
#define IPC_CLIENT_ASK_H

#include "ipc/client/client.h"

/*
 * Sends req with req->in_bytes of payload and waits for its reply, at most the handle's timeout.
 * At most out_size bytes of payload are stored, rep->out_bytes says how many. `out_fds` gets
 * KVD_FDS_MAX descriptors, -1 where there is none, which are then the caller's; NULL: those that
 * come are closed. 0, -ETIMEDOUT, KVD_GONE, -errno.
 */
int ask_socket(struct kvd *k, const struct kvd_req *req, const void *in, struct kvd_rep *out_rep,
	       void *out, size_t out_size, int *out_fds);
/* Reads and throws away what nobody asked for. KVD_GONE if the daemon hung up. */
int ask_drain(struct kvd *k);

#endif
