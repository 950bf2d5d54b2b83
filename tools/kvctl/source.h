/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where kvctl's figures come from: the status file, which needs no answer from the daemon and is
 * still there when it died; and LIST and the other admin requests over its socket.
 */
#ifndef TOOLS_KVCTL_SOURCE_H
#define TOOLS_KVCTL_SOURCE_H

#include "tools/kvctl/kvctl.h"

enum source_life { SOURCE_ALIVE, SOURCE_DEAD };

/*
 * A consistent copy of the status file beside the socket. 0 or -errno, with a message on stderr
 * that says what to do. *out_life: whether the daemon that wrote it still runs.
 */
int source_status(const struct kvctl *k, struct kvd_status *out, enum source_life *out_life);
/* The same without a message: for commands that go on without it. */
int source_status_quiet(const struct kvctl *k, struct kvd_status *out, enum source_life *out_life);

/*
 * Opens an admin connection, on which each call waits for at most timeout_ns (0: the library's 5
 * s). 0 or not, after a message then.
 */
int source_open(const struct kvctl *k, uint64_t timeout_ns, struct kvd **out);
/*
 * Gets all records of a kind, each record_bytes, into a malloc'ed array. 0 or -errno after a
 * message.
 */
int source_list(const struct kvctl *k, enum kvd_list_kind kind, size_t record_bytes,
		void **out_records, size_t *out_count);
/* One admin request. 0 (and so is rep->result), or -errno after a message. */
int source_call(const struct kvctl *k, const struct kvd_req *req, const void *in,
		struct kvd_rep *rep, void *out, size_t out_size);

#endif
