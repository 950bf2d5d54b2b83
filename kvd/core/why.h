/* SPDX-License-Identifier: Apache-2.0 */
/* why.h: WHY: what a lookup of some tokens would find, and why not more. */
#ifndef KVD_CORE_WHY_H
#define KVD_CORE_WHY_H

#include "kvd/core/machine.h"

int why_run(struct core *core, struct call *call);

#endif
