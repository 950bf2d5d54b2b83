/* SPDX-License-Identifier: Apache-2.0 */
/* What the core says, carried out: replies, lease table rows, orders, notes. */
#ifndef KVD_OUTPUTS_H
#define KVD_OUTPUTS_H

#include "kvd/core/core.h"

/* For core_new(), with the server as ctx. */
extern const struct core_ops outputs_ops;

/* A reply by the way that its request came. Also for those that the shell answers itself. */
void outputs_reply(void *ctx, uint32_t session, const struct kvd_req *req,
		   const struct kvd_rep *rep, const void *payload);

#endif
