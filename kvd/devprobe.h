/* SPDX-License-Identifier: Apache-2.0 */
/* Which memory this kvd has its slabs on: what was asked for, held against what is there. */
#ifndef KVD_DEVPROBE_H
#define KVD_DEVPROBE_H

#include "kernels/mem/device.h"

struct devprobe_device {
	uint32_t ordinal; /* as the kind numbers them */
	struct device_info info;
};

struct devprobe {
	const struct device_ops *ops;
	struct devprobe_device devices[KVD_DEVICES_MAX];
	uint32_t count;
	char why[640]; /* of `auto`: what was passed over, and for which reason */
};

/*
 * memory: "auto", "host", or a kind of GPU memory. wanted: "" for all that are visible, else
 * numbers or UUIDs of GPUs with commas between. 0, or -errno with words in error[size]. Asks
 * drivers: not for the loop.
 */
int devprobe(struct devprobe *out, const char *memory, const char *wanted, char *error,
	     size_t size);
/* Bytes that the pool of each device may take where nobody says how many; 0: ask the host. */
void devprobe_pools(const struct devprobe *p, uint64_t out_bytes[KVD_DEVICES_MAX]);

#endif
