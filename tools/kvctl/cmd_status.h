/* SPDX-License-Identifier: Apache-2.0 */
/* The status screen and its figures, shared by status, top and metrics. */
#ifndef TOOLS_KVCTL_CMD_STATUS_H
#define TOOLS_KVCTL_CMD_STATUS_H

#include <kvd_abi.h>
#include <stddef.h>
#include <stdint.h>

void cmd_status_screen(const struct kvd_status *s);
double cmd_status_hit_percent(const struct kvd_status *s);
const char *cmd_status_state_name(size_t state);
/* The i-th counter (enum kvd_counter) and its name; the name stays NULL past the last. */
uint64_t cmd_status_counter(const struct kvd_status *s, size_t i, const char **out_name);
/* How many areas of tiers it tells of: none if it is a kvd's that knew no tiers. */
uint32_t cmd_status_areas(const struct kvd_status *s);

#endif
