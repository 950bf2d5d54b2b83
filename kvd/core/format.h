/* SPDX-License-Identifier: Apache-2.0 */
/* format.h: formats of a namespace, and the geometries that their pages fall into. */
#ifndef KVD_CORE_FORMAT_H
#define KVD_CORE_FORMAT_H

#include "kvd/core/machine.h"

/*
 * Registers a format, or finds it: the same identity on the same devices. `description` may be
 * NULL. 0; -EINVAL; -ENODEV: a part is for a device that does not exist; -EEXIST: the identity with
 * other sizes; -ENOSPC; -E2BIG: not one block fits.
 */
int format_add(struct core *core, uint32_t space, const struct kvd_format_wire *wire,
	       const char *description, uint32_t *out_format);
/* True if the number is a format of the space. */
bool format_valid(const struct core *core, uint32_t format, uint32_t space);
void format_stat(const struct core *core, uint32_t format, struct kvd_format_stat *out);

#endif
