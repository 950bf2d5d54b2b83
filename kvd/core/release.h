/* SPDX-License-Identifier: Apache-2.0 */
/*
 * release.h: RELEASE. All pages with the lease's tag are freed, pins fall. With KEEP_TAIL the page
 * of block `first` becomes a partial node of m tokens, if all above it is published, the run is
 * long enough to be worth a copy, no fork reads the page, and there is none as good already;
 * rep.aux = 1 if it did.
 */
#ifndef KVD_CORE_RELEASE_H
#define KVD_CORE_RELEASE_H

#include "kvd/core/machine.h"

int release_run(struct core *core, struct call *call);
/*
 * The live page that RELEASE and FORK name in arg64: binds it to the block, which has no pages
 * yet. 0 (also where arg64 is 0), KVD_STALE, -EINVAL.
 */
int release_bind(struct core *core, const struct call *call, uint32_t lease);

#endif
