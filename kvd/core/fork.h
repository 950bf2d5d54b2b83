/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork.h: FORK: a second lease on the same sequence.
 *
 * The child pins the parent's sealed nodes and reads its private sealed blocks. m > 0: block
 * `first`, the first that is not sealed, has m valid tokens in the parent's live page, which is
 * the child's tail. The child's sequence ends there: kvd knows its tokens up to that point, or up
 * to where it knows the parent's. The child gets pages for that block and arg32 more. The parent's
 * pages stay until its last fork is released.
 */
#ifndef KVD_CORE_FORK_H
#define KVD_CORE_FORK_H

#include "kvd/core/machine.h"

int fork_run(struct core *core, struct call *call);

#endif
