/* SPDX-License-Identifier: Apache-2.0 */
/*
 * extend.h: EXTEND.
 *
 * Hands out handles of blocks [first, first + m) as they are known by now, and appends n generated
 * tokens. With KVD_EXTEND_TAKE the lease becomes the builder of all that is unsealed on its path;
 * with KVD_EXTEND_CALL of what it was called for, if that is still to do. Both may need pages: all
 * of them or KVD_FULL, and then nothing has changed and no token is appended.
 *
 * A block whose pages the client was never told, and which somebody else has sealed by now, is
 * answered with the sealed pages; build_from then lies behind it.
 */
#ifndef KVD_CORE_EXTEND_H
#define KVD_CORE_EXTEND_H

#include "kvd/core/machine.h"

int extend_run(struct core *core, struct call *call);
/* Own pages that the client does not know, of blocks that somebody else has sealed, are freed. */
void extend_drop_useless(struct core *core, uint32_t lease, bool hidden_only);

#endif
