/* SPDX-License-Identifier: Apache-2.0 */
/* What both kinds of CUDA memory share: the device, the words of its failures, copies, pins. */
#ifndef KERNELS_MEM_CUDA_DEVICE_H
#define KERNELS_MEM_CUDA_DEVICE_H

#include "kernels/mem/cuda_driver.h"
#include "kernels/mem/device.h"
#include <cuda_runtime_api.h>
#include <stdbool.h>

#define CUDA_DEVICE_COPIES 64u /* on their way at once */
#define CUDA_DEVICE_PINS 256u  /* areas of host memory */

struct cuda_device_import;

struct device {
	int ordinal;
	struct device_info info;
	const struct cuda_driver *driver;
	char words[320];

	/* Copies: one stream, an event a ticket, both made at the first copy. */
	cudaStream_t stream;
	cudaEvent_t events[CUDA_DEVICE_COPIES];
	uint64_t started;  /* the last ticket given */
	uint64_t finished; /* tickets up to it are done */

	struct cuda_device_pin {
		uint8_t *memory;
		size_t bytes;
	} pins[CUDA_DEVICE_PINS];
	uint32_t pin_count;
	size_t pin_piece_bytes;

	struct cuda_device_import *imports; /* cuda_ipc.c */
	uint64_t granularity;		    /* cuda_vmm.c */
};

/* Errors become -errno and words that begin with `what`. All return < 0 but for success. */
int cuda_device_check(struct device *dev, cudaError_t e, const char *what);
int cuda_device_check_driver(struct device *dev, CUresult e, const char *what);
__attribute__((format(printf, 3, 4))) int cuda_device_fail(struct device *dev, int result,
							   const char *format, ...);
/* Makes the device this thread's. */
int cuda_device_enter(struct device *dev);

/* Parts of struct device_ops that do not depend on the kind. */
int cuda_device_count(char *error, size_t size);
int cuda_device_describe(uint32_t index, struct device_info *out, char *error, size_t size);
int cuda_device_open(uint32_t index, struct device **out, char *error, size_t size);
void cuda_device_close(struct device *dev);
const char *cuda_device_failure(const struct device *dev);

/*
 * -ENOMEM, and in words what was asked, what is free, and what would have fitted, found by `fits`:
 * can so many bytes be had right now?
 */
int cuda_device_no_room(struct device *dev, uint64_t asked,
			bool (*fits)(struct device *dev, uint64_t bytes));
/* The slab was described by whoever exported it: does it lie on this device? 0 or -EXDEV. */
int cuda_device_same(struct device *dev, const struct kvd_slab_wire *wire, enum kvd_slab_kind kind);

int cuda_copy_start(struct device *dev, uint64_t dst, uint64_t src, uint64_t bytes,
		    uint64_t *out_ticket);
int cuda_copy_poll(struct device *dev, uint64_t ticket);
int cuda_copy_fill(struct device *dev, uint64_t address, uint8_t byte, uint64_t bytes);
void cuda_copy_fini(struct device *dev);

int cuda_pin(struct device *dev, void *memory, size_t bytes);
void cuda_pin_end(struct device *dev, void *memory);
/* Of `bytes` from `memory` on, how many one copy may take: pieces are not crossed. */
uint64_t cuda_pin_run(const struct device *dev, uint64_t memory, uint64_t bytes);
void cuda_pin_fini(struct device *dev);

int cuda_nvml_process_gone(struct device *dev, uint32_t pid);

const struct device_ops *cuda_ipc_ops(void);
const struct device_ops *cuda_vmm_ops(void);

#endif
