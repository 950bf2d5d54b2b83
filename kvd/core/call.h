/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call.h: one request on its way through the core: its payload is copied and checked, its handler
 * runs, it is answered or waits. Each handler is in the file of what it is about.
 */
#ifndef KVD_CORE_CALL_H
#define KVD_CORE_CALL_H

#include "kvd/core/index.h"
#include "kvd/core/machine.h"

/* From a handler: the reply comes later, by call_reply(). */
#define CALL_LATER 0x7fffffff

/* A request of a session, from the shell: 0, -EPROTO, -EFAULT. */
int call_request(struct core *core, uint32_t session, const struct kvd_req *req,
		 const uint8_t random[CORE_RANDOM_BYTES]);
/* Runs the handler: an outcome or -errno to reply with; -EPROTO, -EFAULT: the client is broken. */
int call_run(struct core *core, struct call *call);
/* Sends the reply. */
void call_reply(struct core *core, struct call *call, int result);

/* Copies the payload, which must have exactly that size. 0, -EPROTO, -EFAULT. */
int call_payload(struct core *core, const struct call *call, uint64_t bytes);
/*
 * Copies and checks n tokens of a format and `extra_count` extras, into the core's own memory.
 * 0; -EINVAL: the format is not one of the caller's; -E2BIG; -EPROTO; -EFAULT.
 */
int call_prompt(struct core *core, const struct call *call, uint32_t extra_count,
		struct index_prompt *out);
/* The same for n tokens that continue a sequence, and `more` bytes behind them. */
int call_tokens(struct core *core, const struct call *call, uint64_t more,
		const uint32_t **out_tokens);
/* The live lease that the request names, not revoked. 0, KVD_STALE. */
int call_lease(const struct core *core, const struct call *call, uint32_t *out_lease);

#endif
