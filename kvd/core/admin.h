/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin.h: the small requests: FORMAT, RATE, STAT, CANCEL, SLAB_GONE, and those of an operator:
 * EVICT, CHECK, DRAIN. EVICT does at most CORE_STEP_MAX pages; asked again until rep.aux is 0, it
 * has done all. CANCEL of what does not wait is KVD_MISS.
 */
#ifndef KVD_CORE_ADMIN_H
#define KVD_CORE_ADMIN_H

#include "kvd/core/machine.h"

int admin_format(struct core *core, struct call *call);
int admin_rate(struct core *core, struct call *call);
int admin_stat(struct core *core, struct call *call);
int admin_cancel(struct core *core, struct call *call);
int admin_slab_gone(struct core *core, struct call *call);
int admin_evict(struct core *core, struct call *call);
int admin_check(struct core *core, struct call *call);
int admin_drain(struct core *core, struct call *call);

#endif
