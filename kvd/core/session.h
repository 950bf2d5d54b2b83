/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.h: who is connected, and what each holds.
 */
#ifndef KVD_CORE_SESSION_H
#define KVD_CORE_SESSION_H

#include "kvd/core/machine.h"

int session_open(struct core *core, const struct core_session_args *args);
void session_close(struct core *core, uint32_t session, bool at_once);
/* Ends what is left of a closing session once its leases are gone. */
void session_finish(struct core *core, uint32_t session);
bool session_valid(const struct core *core, uint32_t session);

/* What a session holds; CORE_NONE is nobody. */
void session_charge_open(struct core *core, uint32_t session, uint32_t page, int sign);
void session_charge_private(struct core *core, uint32_t session, uint32_t page, int sign);
void session_charge_pinned(struct core *core, uint32_t session, const struct format *format,
			   int blocks);
/* Bytes that one session may hold on the device. */
uint64_t session_share_bytes(const struct core *core, uint32_t device);

/* Sends row 0, if anybody still reads it. */
void session_show_row(struct core *core, uint32_t session);

#endif
