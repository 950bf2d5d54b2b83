/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory that the device may read and write by itself. It is ours (a memfd, so that files and
 * other processes can have it too), and registered where it lies: never allocated by the driver. A
 * registration takes at most a gibibyte, because drivers refuse very large ones, and a copy must
 * not cross from one registration into the next: cuda_pin_run() says where to cut.
 */
#include "base/bits.h"
#include "kernels/mem/cuda_device.h"
#include <errno.h>
#include <unistd.h>

static void cuda_pin_undo(struct device *dev, uint8_t *memory, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += dev->pin_piece_bytes)
		(void)cudaHostUnregister(memory + at);
	(void)cudaGetLastError();
}

static int cuda_pin_pieces(struct device *dev, uint8_t *memory, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += dev->pin_piece_bytes) {
		size_t piece = BITS_MIN(bytes - at, dev->pin_piece_bytes);
		cudaError_t e = cudaHostRegister(memory + at, piece, cudaHostRegisterPortable);
		int r = cuda_device_check(dev, e, "host memory cannot be pinned");
		if (r == 0)
			continue;
		cuda_pin_undo(dev, memory, at);
		return e == cudaErrorHostMemoryAlreadyRegistered ? -EEXIST : r;
	}
	return 0;
}

int cuda_pin(struct device *dev, void *memory, size_t bytes)
{
	size_t os_page = (size_t)sysconf(_SC_PAGESIZE);
	int r = cuda_device_enter(dev);

	if (r == 0 && (bytes == 0 || (uintptr_t)memory % os_page || bytes % os_page))
		r = cuda_device_fail(dev, -EINVAL, "only whole OS pages can be pinned");
	if (r == 0 && dev->pin_count == CUDA_DEVICE_PINS)
		r = cuda_device_fail(dev, -ENOSPC, "%u areas are pinned already", CUDA_DEVICE_PINS);
	if (r == 0)
		r = cuda_pin_pieces(dev, memory, bytes);
	if (r == 0)
		dev->pins[dev->pin_count++] = (struct cuda_device_pin){memory, bytes};
	return r;
}

void cuda_pin_end(struct device *dev, void *memory)
{
	for (uint32_t i = 0; i < dev->pin_count; i++) {
		if (dev->pins[i].memory != memory)
			continue;
		if (cuda_device_enter(dev) == 0)
			cuda_pin_undo(dev, memory, dev->pins[i].bytes);
		dev->pins[i] = dev->pins[--dev->pin_count];
		return;
	}
}

uint64_t cuda_pin_run(const struct device *dev, uint64_t memory, uint64_t bytes)
{
	for (uint32_t i = 0; i < dev->pin_count; i++) {
		uint64_t offset = memory - (uintptr_t)dev->pins[i].memory;
		if (offset >= dev->pins[i].bytes)
			continue;
		return BITS_MIN(bytes, dev->pin_piece_bytes - offset % dev->pin_piece_bytes);
	}
	return bytes;
}

void cuda_pin_fini(struct device *dev)
{
	while (dev->pin_count)
		cuda_pin_end(dev, dev->pins[dev->pin_count - 1].memory);
}
