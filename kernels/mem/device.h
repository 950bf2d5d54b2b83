/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device.h: the contract of device memory. kvd allocates and exports slabs through it, engines
 * import them. One struct device per (process, device). `host` is built in; all others are modules
 * opened by dlopen, so that no program links a device's libraries.
 *
 * Calls that may take long (all but failure() and slab_export()) are made on a worker thread, one
 * per device, never on kvd's loop. One thread at a time uses a struct device, but for
 * slab_export(), which asks no driver, and process_gone(), which needs no device's thread. A call
 * that fails leaves nothing behind.
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

/* What a device is, as far as others need to know. */
struct device_info {
	uint8_t uuid[16]; /* zero: the host */
	char name[KVD_NAME_MAX];
	uint64_t bytes; /* of its memory; 0: not said */
};

struct device_ops {
	const char *name;	 /* "host", "cuda-ipc", "cuda-vmm" */
	enum kvd_slab_kind kind;

	/* Devices of this kind that this process sees; or -errno, and words in error[size]. */
	int (*count)(char *error, size_t size);
	/*
	 * What number `index` is, and whether slabs of this kind can lie there: -ENOTSUP and words
	 * if not. Opens nothing.
	 */
	int (*describe)(uint32_t index, struct device_info *out, char *error, size_t size);
	/* index: which device of this kind. error[size] gets words for a person. 0 or -errno. */
	int (*open)(uint32_t index, struct device **out, char *error, size_t size);
	void (*close)(struct device *dev);
	/* Why the last call on this device failed, for the thread that made it. Never NULL. */
	const char *(*failure)(const struct device *dev);

	/* Backed at once (fallocate, prefault): -ENOMEM here rather than a SIGBUS elsewhere. */
	int (*slab_alloc)(struct device *dev, uint64_t bytes, struct device_slab *out);
	/* Nobody imports it any more. */
	void (*slab_free)(struct device *dev, struct device_slab *slab);
	/*
	 * Gives the memory back although importers may still map it: they read zeros. NULL where
	 * that is impossible: such a slab is freed when its importers are gone or dead.
	 */
	int (*slab_punch)(struct device *dev, struct device_slab *slab);
	/* Fills wire->ipc_handle, base_offset, kind, uuid; *out_fd = fd to send or -1. */
	int (*slab_export)(struct device *dev, const struct device_slab *slab,
			   struct kvd_slab_wire *wire, int *out_fd);

	/*
	 * fd stays the caller's. Views begin at the slab's allocation: base_offset is still to be
	 * added. A slab imported twice is one import, ended by the last unmap.
	 */
	int (*slab_import)(struct device *dev, const struct kvd_slab_wire *wire, int fd,
			   struct device_view *out);
	void (*slab_unmap)(struct device *dev, struct device_view *view);

	/*
	 * Starts a copy; *out_ticket is done when copy_poll() says 1 (0: not yet, -errno). Tickets
	 * end in order. -EAGAIN: too many are on their way. Host: done at once.
	 */
	int (*copy_start)(struct device *dev, uint64_t dst, uint64_t src, uint64_t bytes,
			  uint64_t *out_ticket);
	int (*copy_poll)(struct device *dev, uint64_t ticket);
	/* Sets bytes, and has when it returns. */
	int (*fill)(struct device *dev, uint64_t address, uint8_t byte, uint64_t bytes);

	/* Makes host memory (whole OS pages) fit for this device's copies (pinned). Host: 0. */
	int (*pin)(struct device *dev, void *memory, size_t bytes);
	void (*unpin)(struct device *dev, void *memory);

	/*
	 * Of a process that has died: has the device let go of it, so that nothing which it had
	 * queued can still write? 1: yes; 0: not yet; -ENOTSUP: this device cannot tell. NULL:
	 * the death of the process is the end of its writes. Any thread.
	 */
	int (*process_gone)(struct device *dev, uint32_t pid);
};

/* The built-in host device: slabs are memfds. */
const struct device_ops *device_host(void);

/* The device of that name, from a module if need be. NULL and words in error[size] if there is none. */
const struct device_ops *device_find(const char *name, char *error, size_t size);

#endif
