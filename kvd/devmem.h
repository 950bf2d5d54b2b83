/* SPDX-License-Identifier: Apache-2.0 */
/* Slabs, by order of the core: made and destroyed on workers, exported to clients. */
#ifndef KVD_DEVMEM_H
#define KVD_DEVMEM_H

#include "kernels/mem/device.h"
#include "kvd/core/core.h"
#include "kvd/work.h"

#define DEVMEM_SLABS_MAX 4096u

struct devmem_slab;

struct devmem {
	const struct device_ops *ops;
	struct device *dev;
	struct work *work;
	struct devmem_slab *slabs; /* by the core's slab id */
};

/* What an order came to, for core_complete(). */
struct devmem_result {
	enum core_order_kind kind;
	uint32_t slab;
	int result;
};

/* Opens the device of that name. 0, or -errno with words in error[size]. */
int devmem_init(struct devmem *d, const char *device_memory, struct work *work, char *error,
		size_t size);
/* Hands the order to a worker. */
void devmem_order(struct devmem *d, const struct core_order *order);
/* Takes a job of ours back from the workers, logs what became of it, forgets a slab that is gone.
 */
struct devmem_result devmem_done(struct devmem *d, struct work_job *job);
/* Completes `wire` for a slab that is there; *out_fd stays ours, -1: none. 0, -ENOENT. */
int devmem_export(struct devmem *d, struct kvd_slab_wire *wire, int *out_fd);
/* After work_stop(). Frees every slab. */
void devmem_fini(struct devmem *d);

#endif
