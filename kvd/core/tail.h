/* SPDX-License-Identifier: Apache-2.0 */
/* tail.h: the start of a block that somebody else has computed: worth a copy by the engine. */
#ifndef KVD_CORE_TAIL_H
#define KVD_CORE_TAIL_H

#include "kvd/core/index.h"
#include "kvd/core/machine.h"

/*
 * Pins the child of the lease's last node that shares the longest run with block `block` of the
 * prompt, if that is KVD_TAIL_RUN_MIN tokens or more. Returns the length of the run, or 0.
 */
uint32_t tail_pin(struct core *core, uint32_t lease, const struct index_prompt *prompt,
		  uint32_t block);
/* The longest run that any of the newest children of `parent` shares with the key's block. */
uint32_t tail_run(const struct core *core, uint32_t parent, const struct index_key *key,
		  uint32_t *out_node);
/*
 * Keeps pulled pages as a partial node below the lease's path, with the key's tokens. False: there
 * is one already that is as good, or no room; the pages are untouched.
 */
bool tail_keep(struct core *core, uint32_t lease, const struct index_key *key,
	       const uint32_t *pages);

#endif
