/* SPDX-License-Identifier: Apache-2.0 */
/* What the replies that bring pages mean for leases: ACQUIRE, CLAIM, FORK, EXTEND. */
#ifndef IPC_CLIENT_RECEIVE_H
#define IPC_CLIENT_RECEIVE_H

#include "ipc/client/request.h"

/* True: the record was sent again, for more handles. */
bool receive_reply(struct kvd *k, struct request *rq, const uint8_t *payload);

#endif
