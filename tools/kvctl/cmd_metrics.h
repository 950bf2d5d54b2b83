/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the metrics that has a table of its own. */
#ifndef TOOLS_KVCTL_CMD_METRICS_H
#define TOOLS_KVCTL_CMD_METRICS_H

#include <kvd_abi.h>
#include <stdio.h>

/* The areas of the tiers, with labels that say which: nothing where there are none. */
void cmd_metrics_tiers(FILE *out, const struct kvd_status *s);

#endif
