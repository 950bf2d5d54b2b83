/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seal.h: SEAL.
 *
 * For each block, in order: pages are the lease's own, or the next magazine handles. Then
 *   - a block of the prompt publishes the building node of the path, if the node above is sealed;
 *   - a block behind the path becomes a node, if all tokens of it are known and all above it is
 *     published;
 *   - if such a node is sealed already, the lease reads it from now on, and its own page stays
 *     private: published for whoever asks, KEPT for nobody;
 *   - anything else is kept: sealed, private, free at RELEASE.
 * The whole request is checked before anything changes.
 */
#ifndef KVD_CORE_SEAL_H
#define KVD_CORE_SEAL_H

#include "kvd/core/machine.h"

int seal_run(struct core *core, struct call *call);

#endif
