/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between any two places that the device reaches. All of a device's go one after the other
 * through one stream of their own, which waits for no other: whoever asks knows that the bytes are
 * complete (pages are sealed after their step was seen to end). A ticket is the number of an event
 * behind its copy; tickets end in order, so that one number says which are done.
 */
#include "base/bits.h"
#include "kernels/mem/cuda_device.h"
#include <errno.h>

static int cuda_copy_init(struct device *dev)
{
	int r = 0;

	if (dev->stream)
		return 0;
	r = cuda_device_check(dev, cudaStreamCreateWithFlags(&dev->stream, cudaStreamNonBlocking),
			      "no stream for copies");
	for (uint32_t i = 0; i < CUDA_DEVICE_COPIES && r == 0; i++)
		r = cuda_device_check(
			dev, cudaEventCreateWithFlags(&dev->events[i], cudaEventDisableTiming),
			"no event for copies");
	if (r < 0)
		cuda_copy_fini(dev);
	return r;
}

void cuda_copy_fini(struct device *dev)
{
	if (!dev->stream || cudaSetDevice(dev->ordinal) != cudaSuccess)
		return;
	(void)cudaStreamSynchronize(dev->stream);
	for (uint32_t i = 0; i < CUDA_DEVICE_COPIES; i++) {
		if (dev->events[i])
			(void)cudaEventDestroy(dev->events[i]);
		dev->events[i] = NULL;
	}
	(void)cudaStreamDestroy(dev->stream);
	dev->stream = NULL;
}

/* In pieces, where one end lies in host memory that was pinned in pieces. */
static int cuda_copy_queue(struct device *dev, uint64_t dst, uint64_t src, uint64_t bytes)
{
	int r = 0;

	while (bytes && r == 0) {
		uint64_t run = cuda_pin_run(dev, dst, cuda_pin_run(dev, src, bytes));
		r = cuda_device_check(dev,
				      cudaMemcpyAsync((void *)(uintptr_t)dst,
						      (const void *)(uintptr_t)src, run,
						      cudaMemcpyDefault, dev->stream),
				      "a copy cannot be started");
		dst += run;
		src += run;
		bytes -= run;
	}
	return r;
}

/* Forgets tickets that are done. */
static int cuda_copy_progress(struct device *dev)
{
	while (dev->finished < dev->started) {
		uint64_t next = dev->finished + 1;
		cudaError_t e = cudaEventQuery(dev->events[next % CUDA_DEVICE_COPIES]);
		if (e == cudaErrorNotReady) {
			(void)cudaGetLastError();
			return 0;
		}
		if (e != cudaSuccess)
			return cuda_device_check(dev, e, "a copy failed");
		dev->finished = next;
	}
	return 0;
}

int cuda_copy_start(struct device *dev, uint64_t dst, uint64_t src, uint64_t bytes,
		    uint64_t *out_ticket)
{
	int r = cuda_device_enter(dev);

	if (r == 0)
		r = cuda_copy_init(dev);
	if (r == 0)
		r = cuda_copy_progress(dev);
	if (r == 0 && dev->started - dev->finished == CUDA_DEVICE_COPIES)
		r = cuda_device_fail(dev, -EAGAIN, "%u copies are on their way",
				     CUDA_DEVICE_COPIES);
	if (r == 0)
		r = cuda_copy_queue(dev, dst, src, bytes);
	if (r < 0)
		return r;
	uint64_t ticket = dev->started + 1;
	r = cuda_device_check(
		dev, cudaEventRecord(dev->events[ticket % CUDA_DEVICE_COPIES], dev->stream),
		"a copy cannot be followed");
	if (r < 0)
		return r;
	dev->started = ticket;
	*out_ticket = ticket;
	return 0;
}

int cuda_copy_poll(struct device *dev, uint64_t ticket)
{
	int r = cuda_device_enter(dev);

	if (r == 0)
		r = cuda_copy_progress(dev);
	return r < 0 ? r : dev->finished >= ticket;
}

int cuda_copy_fill(struct device *dev, uint64_t address, uint8_t byte, uint64_t bytes)
{
	int r = cuda_device_enter(dev);

	if (r == 0)
		r = cuda_copy_init(dev);
	if (r == 0)
		r = cuda_device_check(
			dev, cudaMemsetAsync((void *)(uintptr_t)address, byte, bytes, dev->stream),
			"memory cannot be set");
	if (r == 0)
		r = cuda_device_check(dev, cudaStreamSynchronize(dev->stream),
				      "memory cannot be set");
	return r;
}
