/* SPDX-License-Identifier: Apache-2.0 */
/* verify.h: VERIFY, which reads what a tier holds and compares it with its checksums. */
#ifndef KVD_CORE_VERIFY_H
#define KVD_CORE_VERIFY_H

#include "kvd/core/machine.h"

struct call;

/* Returns CALL_LATER, or an error. */
int verify_run(struct core *core, struct call *call);
/* One of its transfers ended, or is late. */
void verify_done(struct core *core, uint64_t bytes, int result);
/* Begins more; replies when it is at its end. */
void verify_pump(struct core *core);
bool verify_busy(const struct core *core);
/* The session gets no reply any more. */
void verify_drop_session(struct core *core, uint32_t session);

#endif
