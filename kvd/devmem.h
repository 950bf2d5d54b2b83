/* SPDX-License-Identifier: Apache-2.0 */
/* Slabs, by order of the core: made and destroyed on workers, exported to clients. */
#ifndef KVD_DEVMEM_H
#define KVD_DEVMEM_H

#include "kernels/mem/device.h"
#include "kvd/core/core.h"
#include "kvd/slabmap.h"
#include "kvd/work.h"

#define DEVMEM_SLABS_MAX 4096u
#define DEVMEM_PIN_BYTES (1ull << 30)

struct devmem;
struct devmem_slab;

/* A device, and the lane on which alone it is spoken to (-1: it may be any worker). */
struct devmem_device {
	struct work_job job; /* opens it at start, closes it at the end */
	struct devmem *owner;
	struct device *dev;
	struct device_info info;
	uint32_t ordinal;
	int lane;
	int result;
	void *pin; /* host memory that is being pinned */
	size_t pin_bytes;
	uint32_t stuck; /* jobs on its lane that were given up and have not come back */
	char error[256];
};

struct devmem {
	const struct device_ops *ops;
	struct devmem_device devices[KVD_DEVICES_MAX]; /* by the number that parts name */
	uint32_t device_count;
	struct work *work;
	struct devmem_slab **slabs;  /* by the core's slab id */
	struct devmem_slab *records; /* what they point to, and spares for those given up */
	struct list_link spares;
	struct slabmap map; /* slabs that are there and may be used */
	uint64_t timeout_ns;			      /* for a GPU to make a slab */
	uint32_t making_count;			      /* slabs that GPUs are making */
	uint64_t pool_bytes_default[KVD_DEVICES_MAX]; /* see devprobe_pools() */
};

/* What an order came to, for core_complete(). */
struct devmem_result {
	enum core_order_kind kind;
	uint32_t slab;
	int result;
};

/*
 * Chooses the memory, as devprobe() does, opens its devices and says in the log what was taken.
 * 0, or -errno with words in error[size]. A driver that does not answer is given up after a while.
 */
int devmem_init(struct devmem *d, const char *memory, const char *wanted, uint64_t timeout_ns,
		struct work *work, char *error, size_t size);
/*
 * Makes host memory (whole OS pages, mapped until devmem_fini()) fit for the copies of all GPUs;
 * the host needs nothing. A piece of DEVMEM_PIN_BYTES or less, which is what a driver takes at
 * once: nothing that is copied in one go may lie across two pieces. Before the loop turns, and
 * while no worker has anything else to do. 0, or -errno with words in error[size].
 */
int devmem_pin(struct devmem *d, void *memory, size_t bytes, char *error, size_t size);
/* The devices as clients are told of them. */
uint32_t devmem_list(const struct devmem *d, struct kvd_device out[KVD_DEVICES_MAX]);

/* Hands the order to a worker, or keeps it until nobody imports the slab any more. */
void devmem_order(struct devmem *d, const struct core_order *order);
/*
 * Takes a job of ours back from the workers, logs what became of it, forgets a slab that is gone.
 * False: it was given up long ago, and the core has had its result.
 */
bool devmem_done(struct devmem *d, struct work_job *job, struct devmem_result *out);
/* A slab that a GPU should have made by now: it is given up, and *out is for the core. */
bool devmem_overdue(struct devmem *d, uint64_t now_ns, struct devmem_result *out);
/* When devmem_overdue() must be called next; UINT64_MAX: no need. */
uint64_t devmem_deadline_ns(const struct devmem *d);
/* Completes `wire` for a slab that is there; *out_fd stays ours, -1: none. 0, -ENOENT. */
int devmem_export(struct devmem *d, struct kvd_slab_wire *wire, int *out_fd);

/*
 * Where a page of the core's lies. Its slab is held, which the core must not destroy then, until
 * devmem_page_end().
 */
void devmem_page(struct devmem *d, uint32_t page, uint32_t *out_device, uint64_t *out_address);
void devmem_page_end(struct devmem *d, uint32_t page);

/*
 * Who maps which slab. Only kinds whose memory cannot be taken from under a map need to know: a
 * slab of theirs is destroyed when all who got it have said so, or are dead.
 */
int devmem_imported(struct devmem *d, uint32_t slab, uint32_t session, uint64_t process);
/* The session has unmapped it: SLAB_GONE. */
void devmem_unmapped(struct devmem *d, uint32_t slab, uint32_t session);
/* clean: it had unmapped everything. */
void devmem_session_end(struct devmem *d, uint32_t session, bool clean);
/* What broken sessions of this living process had mapped is unmapped: its HELLO says so. */
void devmem_process_quiet(struct devmem *d, uint64_t process);
/* The process is dead, and its device has let go of it. */
void devmem_process_end(struct devmem *d, uint64_t process);

/* Between work_stop_threads() and work_stop(): lanes free their slabs and close their devices. */
void devmem_stop(struct devmem *d);
/* After work_stop() said 0. Frees the rest. */
void devmem_fini(struct devmem *d);

#endif
