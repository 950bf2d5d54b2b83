/* SPDX-License-Identifier: Apache-2.0 */
/* Open pages that wait here until a sequence needs its next block. */
#ifndef IPC_CLIENT_MAGAZINE_H
#define IPC_CLIENT_MAGAZINE_H

#include "ipc/client/request.h"

/* A bound block comes back unused; there is always room for it. */
void magazine_push(struct format *f, const struct kvd_handle *handles);
/* The block that magazine_pop() would give, or NULL. */
const struct kvd_handle *magazine_top(const struct format *f);
/* The top one is bound to a lease. */
void magazine_pop(struct format *f);
/* A bound block became the lease's, in kvd's books too. */
void magazine_spent(struct format *f);
void magazine_reply(struct kvd *k, struct request *rq, const uint8_t *payload);

#endif
