/* SPDX-License-Identifier: Apache-2.0 */
/* The only place where the library sleeps on the rings. */
#ifndef IPC_CLIENT_EVENTS_H
#define IPC_CLIENT_EVENTS_H

#include "ipc/client/client.h"

/*
 * Sleeps until a reply, a wake, or a sign of life from the socket, at most timeout_ns; UINT64_MAX:
 * for ever. Finds out that the daemon is gone. May return for no reason.
 */
void events_sleep(struct kvd *k, uint64_t timeout_ns);

#endif
