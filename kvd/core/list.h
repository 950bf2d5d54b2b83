/* SPDX-License-Identifier: Apache-2.0 */
/*
 * list.h: LIST: records of one kind from a cursor on, as many as fit and a step allows; rep.aux is
 * the cursor to go on with, 0 at the end. A reply may bring no record and a cursor.
 */
#ifndef KVD_CORE_LIST_H
#define KVD_CORE_LIST_H

#include "kvd/core/machine.h"

int list_run(struct core *core, struct call *call);
void list_session(const struct core *core, uint32_t session, struct kvd_session_stat *out);

#endif
