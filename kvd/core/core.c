/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entry points of the machine.
 */
#include "kvd/core/core.h"

#include "kvd/core/machine.h"

#include <errno.h>
#include <stdlib.h>

int core_new(const struct core_config *config, const struct core_ops *ops, void *ctx,
	     struct core **out)
{
	struct core *core = calloc(1, sizeof(*core));

	if (!core)
		return -ENOMEM;
	core->cfg = *config;
	core->ops = *ops;
	core->ctx = ctx;
	*out = core;
	return 0;
}

void core_free(struct core *core)
{
	free(core);
}

void core_count(struct core *core, enum kvd_counter counter, uint64_t add)
{
	core->counters[counter] += add;
}
