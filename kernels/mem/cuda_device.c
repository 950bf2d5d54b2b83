/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One GPU, as this process sees it. Devices are numbered as the runtime numbers them, that is
 * within CUDA_VISIBLE_DEVICES; across processes only the UUID says which is meant.
 *
 * Every call into CUDA is made for the device of its struct, on whatever thread: it is entered
 * first. What fails is translated here, once: a number for the program, words for a person, and
 * the runtime's own memory of the failure is wiped, so that a later check of somebody else's does
 * not find it.
 */
#include "kernels/mem/cuda_device.h"
#include "base/bits.h"
#include "base/units.h"
#include "base/uuid.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CUDA_DEVICE_PIECE_BYTES UNITS_GIB
#define CUDA_DEVICE_ROOM_STEP (2 * UNITS_MIB)

static int cuda_device_errno(cudaError_t e)
{
	switch (e) {
	case cudaErrorMemoryAllocation:
		return -ENOMEM;
	case cudaErrorNoDevice:
	case cudaErrorInsufficientDriver:
	case cudaErrorInvalidDevice:
		return -ENODEV;
	case cudaErrorNotSupported:
		return -ENOTSUP;
	case cudaErrorInvalidValue:
		return -EINVAL;
	default:
		return -EIO;
	}
}

int cuda_device_fail(struct device *dev, int result, const char *format, ...)
{
	va_list args;
	int n = snprintf(dev->words, sizeof(dev->words), "GPU %d: ", dev->ordinal);

	va_start(args, format);
	vsnprintf(dev->words + n, sizeof(dev->words) - (size_t)n, format, args);
	va_end(args);
	return result;
}

int cuda_device_check(struct device *dev, cudaError_t e, const char *what)
{
	if (e == cudaSuccess)
		return 0;
	(void)cudaGetLastError();
	return cuda_device_fail(dev, cuda_device_errno(e), "%s: %s (%s)", what,
				cudaGetErrorString(e), cudaGetErrorName(e));
}

int cuda_device_check_driver(struct device *dev, CUresult e, const char *what)
{
	const char *name = NULL;

	if (e == CUDA_SUCCESS)
		return 0;
	if (dev->driver->get_error_name(e, &name) != CUDA_SUCCESS || !name)
		name = "an error without a name";
	/* The numbers of both worlds agree for what is told apart here. */
	return cuda_device_fail(dev, cuda_device_errno((cudaError_t)e), "%s: %s", what, name);
}

int cuda_device_enter(struct device *dev)
{
	return cuda_device_check(dev, cudaSetDevice(dev->ordinal), "cannot be used");
}

const char *cuda_device_failure(const struct device *dev)
{
	return dev->words;
}

int cuda_device_count(char *error, size_t size)
{
	int count = 0;
	cudaError_t e = cudaGetDeviceCount(&count);

	if (e == cudaSuccess && count > 0)
		return count;
	(void)cudaGetLastError();
	if (e == cudaErrorInsufficientDriver)
		snprintf(error, size,
			 "there is no NVIDIA driver here, or it is older than the CUDA runtime");
	else if (e == cudaSuccess || e == cudaErrorNoDevice)
		snprintf(error, size, "this process sees no GPU%s",
			 getenv("CUDA_VISIBLE_DEVICES") ? " (CUDA_VISIBLE_DEVICES is set)" : "");
	else
		snprintf(error, size, "the GPUs cannot be counted: %s", cudaGetErrorString(e));
	return e == cudaSuccess ? -ENODEV : cuda_device_errno(e);
}

int cuda_device_describe(uint32_t index, struct device_info *out, char *error, size_t size)
{
	struct cudaDeviceProp props;
	int count = cuda_device_count(error, size);

	if (count < 0)
		return count;
	if (index >= (uint32_t)count) {
		snprintf(error, size, "there is no GPU %u: this process sees %d, from 0 on", index,
			 count);
		return -ENODEV;
	}
	cudaError_t e = cudaGetDeviceProperties(&props, (int)index);
	if (e != cudaSuccess) {
		(void)cudaGetLastError();
		snprintf(error, size, "GPU %u: %s", index, cudaGetErrorString(e));
		return cuda_device_errno(e);
	}
	*out = (struct device_info){.bytes = props.totalGlobalMem};
	memcpy(out->uuid, props.uuid.bytes, sizeof(out->uuid));
	snprintf(out->name, sizeof(out->name), "%.*s", (int)sizeof(out->name) - 1, props.name);
	return 0;
}

/* How much is pinned at once; tests want less. */
static size_t cuda_device_piece_bytes(void)
{
	const char *text = getenv("KVD_PIN_PIECE_BYTES");
	uint64_t bytes = text ? strtoull(text, NULL, 10) : 0;
	uint64_t os_page = (uint64_t)sysconf(_SC_PAGESIZE);

	if (bytes < os_page || bytes > CUDA_DEVICE_PIECE_BYTES)
		bytes = CUDA_DEVICE_PIECE_BYTES;
	return bytes / os_page * os_page;
}

int cuda_device_open(uint32_t index, struct device **out, char *error, size_t size)
{
	struct device *dev = calloc(1, sizeof(*dev));
	int r = dev ? cuda_device_describe(index, &dev->info, error, size) : -ENOMEM;

	if (r < 0) {
		free(dev);
		return r;
	}
	dev->ordinal = (int)index;
	dev->pin_piece_bytes = cuda_device_piece_bytes();
	dev->driver = cuda_driver(error, size);
	r = dev->driver ? cuda_device_enter(dev) : -ENOTSUP;
	/* Makes the context: what is wrong with the device shows now. */
	if (r == 0)
		r = cuda_device_check(dev, cudaFree(NULL), "cannot be used");
	if (r < 0 && dev->driver)
		snprintf(error, size, "%s", dev->words);
	if (r < 0)
		free(dev);
	else
		*out = dev;
	return r;
}

void cuda_device_close(struct device *dev)
{
	if (!dev)
		return;
	cuda_copy_fini(dev);
	cuda_pin_fini(dev);
	free(dev);
}

/* Halves the interval between what fits and what does not; 2 MiB is fine enough. */
static uint64_t cuda_device_largest(struct device *dev, uint64_t below,
				    bool (*fits)(struct device *dev, uint64_t bytes))
{
	uint64_t low = 0, high = bits_div_ceil(below, CUDA_DEVICE_ROOM_STEP);

	while (low + 1 < high) {
		uint64_t mid = low + (high - low) / 2;
		if (fits(dev, mid * CUDA_DEVICE_ROOM_STEP))
			low = mid;
		else
			high = mid;
	}
	return low * CUDA_DEVICE_ROOM_STEP;
}

int cuda_device_no_room(struct device *dev, uint64_t asked,
			bool (*fits)(struct device *dev, uint64_t bytes))
{
	char a[32], f[32], l[32];
	size_t free_bytes = 0, total = 0;

	(void)cudaGetLastError();
	if (cudaMemGetInfo(&free_bytes, &total) != cudaSuccess)
		(void)cudaGetLastError();
	uint64_t largest = cuda_device_largest(dev, BITS_MIN(asked, (uint64_t)total), fits);
	units_format_bytes(asked, a, sizeof(a));
	units_format_bytes(free_bytes, f, sizeof(f));
	units_format_bytes(largest, l, sizeof(l));
	return cuda_device_fail(dev, -ENOMEM, "%s asked, %s free, the largest that fits is %s", a,
				f, l);
}

int cuda_device_same(struct device *dev, const struct kvd_slab_wire *wire, enum kvd_slab_kind kind)
{
	char theirs[UUID_TEXT], ours[UUID_TEXT];

	if (wire->kind != kind)
		return cuda_device_fail(dev, -EPROTO, "a slab of another kind (%u)", wire->kind);
	if (memcmp(wire->device_uuid, dev->info.uuid, sizeof(dev->info.uuid)) == 0)
		return 0;
	return cuda_device_fail(dev, -EXDEV,
				"kvd's slab lies on %s, this process uses %s: "
				"CUDA_VISIBLE_DEVICES differs between them",
				uuid_format(wire->device_uuid, theirs),
				uuid_format(dev->info.uuid, ours));
}
