/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device.h: the contract of device memory. kvd allocates and exports slabs through it, engines
 * import them. One struct device per (process, device). `host` is built in; all others are modules
 * opened by dlopen, so that no program links a device's libraries.
 *
 * Calls that may take long (alloc, free, copies) are made on a worker thread, one per device, never
 * on kvd's loop. A call that fails leaves nothing behind.
 */
#ifndef KERNELS_MEM_DEVICE_H
#define KERNELS_MEM_DEVICE_H

#include <kvd_abi.h>
#include <stddef.h>
#include <stdint.h>

struct device;

/* A slab in the process that owns it. */
struct device_slab {
	uint64_t address;  /* for copies by the owner; a pointer on the host device */
	uint64_t bytes;
	int fd;		   /* export descriptor, or -1 for kinds that use ipc_handle */
	uint8_t ipc_handle[64];
	uint64_t base_offset;
};

/* A slab in a process that imported it; read == write where the device has no two views. */
struct device_view {
	uint64_t read;
	uint64_t write;
	uint64_t bytes;
};

struct device_ops {
	const char *name;	 /* "host", "cuda-ipc", "cuda-vmm" */
	enum kvd_slab_kind kind;

	/* index: which device of this kind. error[size] gets words for a person. 0 or -errno. */
	int (*open)(uint32_t index, struct device **out, char *error, size_t size);
	void (*close)(struct device *dev);

	/* Backed at once (fallocate, prefault): -ENOMEM here rather than a SIGBUS elsewhere. */
	int (*slab_alloc)(struct device *dev, uint64_t bytes, struct device_slab *out);
	void (*slab_free)(struct device *dev, struct device_slab *slab);
	/* Gives the memory back although importers may still map it: they read zeros. Or -ENOTSUP. */
	int (*slab_punch)(struct device *dev, struct device_slab *slab);
	/* Fills wire->ipc_handle, base_offset, kind, device, uuid; *out_fd = fd to send or -1. */
	int (*slab_export)(struct device *dev, const struct device_slab *slab,
			   struct kvd_slab_wire *wire, int *out_fd);

	/* fd stays the caller's. guard: writes through view.read must fault. */
	int (*slab_import)(struct device *dev, const struct kvd_slab_wire *wire, int fd,
			   struct device_view *out);
	void (*slab_unmap)(struct device *dev, struct device_view *view);

	/* Starts a copy; *out_ticket is done when copy_poll() says 1. Host: done at once. */
	int (*copy_start)(struct device *dev, uint64_t dst, uint64_t src, uint64_t bytes,
			  uint64_t *out_ticket);
	int (*copy_poll)(struct device *dev, uint64_t ticket);

	/* Makes host memory fit for this device's copies (pinned). Host: 0. */
	int (*pin)(struct device *dev, void *memory, size_t bytes);
	void (*unpin)(struct device *dev, void *memory);
};

/* The built-in host device: slabs are memfds. */
const struct device_ops *device_host(void);

/* The device of that name, from a module if need be. NULL and words in error[size] if there is none. */
const struct device_ops *device_find(const char *name, char *error, size_t size);

#endif
