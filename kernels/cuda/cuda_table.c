/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The op tables, one for each GPU that this process was told to use, and the module's one symbol.
 * Devices are numbered as the runtime numbers them, that is within CUDA_VISIBLE_DEVICES. Tables are
 * opened at start, from one thread, and live until the process ends.
 */
#include "base/bits.h"
#include "kernels/cuda/cuda_ctx.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CUDA_TABLE_DEVICES 64
#define CUDA_TABLE_CAPABILITY_MIN 8 /* sm_80 */

struct table {
	struct kernel_ops ops; /* name NULL: not opened */
	char name[32];
	char numerics_id[160];
};

static struct table tables[CUDA_TABLE_DEVICES];
static atomic_bool failed[CUDA_TABLE_DEVICES];
static atomic_bool failed_any;

int cuda_table_ordinal(const struct kernel_ops *ops)
{
	return (int)(CONTAINER_OF(ops, struct table, ops) - tables);
}

void cuda_table_fail(int ordinal)
{
	atomic_store(ordinal >= 0 && ordinal < CUDA_TABLE_DEVICES ? &failed[ordinal] : &failed_any,
		     true);
}

bool cuda_table_failed(int ordinal)
{
	return atomic_load(&failed_any) || atomic_load(&failed[ordinal]);
}

static const struct kernel_ops ops_all = {
	.layout = KVD_LAYOUT_CUDA_BF16,
	.asynchronous = true,
	.fp16 = true,
	.memory_new = cuda_memory_new,
	.memory_free = cuda_memory_free,
	.memory_write = cuda_memory_write,
	.memory_room = cuda_memory_room,
	.ctx_new = cuda_ctx_new,
	.ctx_free = cuda_ctx_free,
	.ctx_bytes = cuda_ctx_bytes,
	.ctx_threads = cuda_ctx_threads,
	.ctx_counts = cuda_ctx_counts,
	.step_prepare = cuda_step_prepare,
	.step_begin = cuda_step_begin,
	.step_end = cuda_step_end,
	.step_wait = cuda_step_wait,
	.failure = cuda_ctx_failure,
	.view = cuda_ctx_view,
	.weight_bytes = cuda_memory_weight_bytes,
	.weight_pack = cuda_memory_weight_pack,
	.gemm = cuda_ops_gemm,
	.embed = cuda_ops_embed,
	.rmsnorm = cuda_ops_rmsnorm,
	.rope_store = cuda_ops_rope_store,
	.attention = cuda_ops_attention,
	.gather = cuda_ops_gather,
	.sample = cuda_ops_sample,
	.page_copy = cuda_ctx_page_copy,
};

/* How many GPUs there are; else 0, and why in error. */
static int count_devices(char *error, size_t size)
{
	int count = 0, driver = 0, runtime = 0;
	cudaError_t e;

	(void)cudaDriverGetVersion(&driver);
	(void)cudaRuntimeGetVersion(&runtime);
	e = cudaGetDeviceCount(&count);
	if (e == cudaSuccess && count > 0)
		return count;
	(void)cudaGetLastError();
	if (driver == 0)
		snprintf(error, size, "there is no NVIDIA driver here");
	else if (e == cudaErrorInsufficientDriver)
		snprintf(error, size,
			 "the NVIDIA driver is too old: it knows CUDA %d.%d, and %d.%d is needed",
			 driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
	else if (e == cudaSuccess || e == cudaErrorNoDevice)
		snprintf(error, size, "this process sees no GPU%s",
			 getenv("CUDA_VISIBLE_DEVICES") ? " (CUDA_VISIBLE_DEVICES is set)" : "");
	else
		snprintf(error, size, "the GPUs cannot be counted: %s", cudaGetErrorString(e));
	return 0;
}

/* "cuda:N" to N; -1, and why. */
static int parse(const char *device, char *error, size_t size)
{
	char *end;
	long n;

	if (strncmp(device, "cuda:", 5) == 0 && device[5] >= '0' && device[5] <= '9') {
		n = strtol(device + 5, &end, 10);
		if (*end == '\0' && n < CUDA_TABLE_DEVICES)
			return (int)n;
	}
	snprintf(error, size, "it is not cuda:N, with N from 0 to %d", CUDA_TABLE_DEVICES - 1);
	return -1;
}

static bool describe(int ordinal, struct cudaDeviceProp *out, char *error, size_t size)
{
	int count = count_devices(error, size);
	cudaError_t e;

	if (count == 0)
		return false;
	if (ordinal >= count) {
		snprintf(error, size, "there is no GPU %d: this process sees %d, from 0 on%s",
			 ordinal, count,
			 getenv("CUDA_VISIBLE_DEVICES") ? " (CUDA_VISIBLE_DEVICES is set)" : "");
		return false;
	}
	e = cudaGetDeviceProperties(out, ordinal);
	if (e == cudaSuccess)
		e = cudaSetDevice(ordinal);
	if (e != cudaSuccess) {
		(void)cudaGetLastError();
		snprintf(error, size, "GPU %d cannot be used: %s", ordinal, cudaGetErrorString(e));
		return false;
	}
	if (out->major < CUDA_TABLE_CAPABILITY_MIN) {
		snprintf(error, size,
			 "GPU %d (%s) has compute capability %d.%d, and %d.0 is needed", ordinal,
			 out->name, out->major, out->minor, CUDA_TABLE_CAPABILITY_MIN);
		return false;
	}
	return true;
}

__attribute__((visibility("default"))) const struct kernel_ops *
kernels_module(const char *device, char *error, size_t size);

const struct kernel_ops *kernels_module(const char *device, char *error, size_t size)
{
	int ordinal = parse(device, error, size);
	struct cudaDeviceProp props;
	struct table *t;

	if (ordinal < 0)
		return NULL;
	t = &tables[ordinal];
	if (t->ops.name)
		return &t->ops;
	if (!describe(ordinal, &props, error, size))
		return NULL;
	t->ops = ops_all;
	snprintf(t->name, sizeof(t->name), "cuda:%d sm%d%d", ordinal, props.major, props.minor);
	/* The library's version and the model of the GPU are part of it: the library chooses its
	 * algorithms by both, and another one may sum in another order. */
	snprintf(t->numerics_id, sizeof(t->numerics_id), "cuda-sm%d%d-bf16-lt%zu-%.100s",
		 props.major, props.minor, cublasLtGetVersion(), props.name);
	memcpy(t->ops.device_uuid, props.uuid.bytes, sizeof(t->ops.device_uuid));
	t->ops.numerics_id = t->numerics_id;
	t->ops.name = t->name;
	return &t->ops;
}
