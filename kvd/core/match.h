/* SPDX-License-Identifier: Apache-2.0 */
/* match.h: the longest cached prefix. */
#ifndef KVD_CORE_MATCH_H
#define KVD_CORE_MATCH_H

#include "kvd/core/index.h"
#include "kvd/core/machine.h"

/* The deepest sealed node that the prompt's full blocks lead to; the root if nothing is cached. */
uint32_t match_sealed(const struct core *core, uint32_t format, const struct index_prompt *prompt);
/* Fills key and hash of the block that follows the node. */
void match_next(const struct core *core, uint32_t node, const struct index_prompt *prompt,
		struct index_key *out);

#endif
