/* SPDX-License-Identifier: Apache-2.0 */
/* status.h: figures of the whole machine. */
#ifndef KVD_CORE_STATUS_H
#define KVD_CORE_STATUS_H

#include "kvd/core/machine.h"

void status_fill(const struct core *core, struct kvd_status *out);

#endif
