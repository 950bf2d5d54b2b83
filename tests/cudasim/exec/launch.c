/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches: limits are checked when a kernel is queued, as the real runtime does; blocks run, one
 * after another in seeded order, when its stream's turn comes. The executor's lock makes that one
 * launch at a time in the process, whatever the number of streams and threads.
 *
 * A bad address in a kernel arrives as a signal. The handler lets the faulting fiber go on in a
 * function that reports it, so that kernel, block and thread are named, and a full stack is told
 * from a wild pointer.
 */
#include "tests/cudasim/exec/block.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

struct launch {
	struct sim_work body;
	dim3 grid;
	dim3 block;
	size_t smem_bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_t owner;
static struct sigaction before_segv, before_bus;
static const void *bad_address;
static uint64_t forced_seed;
static char last_fault[1024];
static unsigned char signal_stack[65536] __attribute__((aligned(16)));

void sim_exec_seed(uint64_t seed)
{
	forced_seed = seed;
}

const char *sim_fault_text(void)
{
	return last_fault;
}

static void report_bad_address(void)
{
	struct block_thread *t = block_current();

	if (fiber_overflowed(t->index, bad_address))
		sim_fault(cudaErrorHardwareStackError, (struct sim_place){NULL, 0},
			  "the thread's stack is full");
	sim_fault(cudaErrorIllegalAddress, (struct sim_place){NULL, 0},
		  "illegal address %p, or one that may not be written", bad_address);
}

static void pass_on(int signo)
{
	(void)sigaction(signo, signo == SIGBUS ? &before_bus : &before_segv, NULL);
}

static void on_bad_address(int signo, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	if (sim_self && pthread_equal(owner, pthread_self())) {
		const struct block_thread *t = block_current();
		uintptr_t top = (uintptr_t)t->fiber.stack + t->fiber.stack_bytes / 2;

		/* Anywhere in its own stack will do: it never returns. As after a call. */
		bad_address = info->si_addr;
#if defined(__x86_64__)
		uc->uc_mcontext.gregs[REG_RSP] = (greg_t)((top & ~(uintptr_t)15) - 8);
		uc->uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)report_bad_address;
#elif defined(__aarch64__)
		uc->uc_mcontext.sp = top & ~(uintptr_t)15;
		uc->uc_mcontext.pc = (uintptr_t)report_bad_address;
#else
#error "a faulting fiber must go on somewhere: say how on this processor"
#endif
		return;
	}
	pass_on(signo);
}

static void signals_take(stack_t *out_before)
{
	struct sigaction sa = {.sa_sigaction = on_bad_address, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	stack_t ss = {.ss_sp = signal_stack, .ss_size = sizeof(signal_stack)};

	(void)sigaltstack(&ss, out_before);
	(void)sigaction(SIGSEGV, &sa, &before_segv);
	(void)sigaction(SIGBUS, &sa, &before_bus);
}

static void signals_give_back(const stack_t *before)
{
	(void)sigaction(SIGSEGV, &before_segv, NULL);
	(void)sigaction(SIGBUS, &before_bus, NULL);
	(void)sigaltstack(before, NULL);
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t r = a % b;

		a = b;
		b = r;
	}
	return a;
}

static cudaError_t run_block(const struct launch *l, uint64_t index)
{
	cudaError_t e;

	sim_block.block_idx.x = (unsigned int)(index % l->grid.x);
	sim_block.block_idx.y = (unsigned int)(index / l->grid.x % l->grid.y);
	sim_block.block_idx.z = (unsigned int)(index / l->grid.x / l->grid.y);
	if (memory_new_block(l->smem_bytes) < 0)
		return cudaErrorInvalidValue;
	e = block_run(l->body.name, &l->body);
	if (e != cudaSuccess) {
		snprintf(last_fault, sizeof(last_fault), "%s", block_fault_text());
	} else if (!memory_redzone_whole()) {
		snprintf(last_fault, sizeof(last_fault),
			 "kernel %s, block (%u, %u, %u): wrote behind its shared memory",
			 l->body.name, sim_block.block_idx.x, sim_block.block_idx.y,
			 sim_block.block_idx.z);
		e = cudaErrorIllegalAddress;
	}
	return e;
}

/* Every block once, in an order that a start and a stride without common divisor give. */
static cudaError_t run_grid(const struct launch *l)
{
	uint64_t total = (uint64_t)l->grid.x * l->grid.y * l->grid.z;
	uint64_t stride = block_random() % total, index = block_random() % total;
	cudaError_t e = cudaSuccess;

	while (gcd(stride, total) != 1)
		stride++;
	sim_block.grid_dim = l->grid;
	sim_block.block_dim = l->block;
	for (uint64_t i = 0; i < total && e == cudaSuccess; i++) {
		e = run_block(l, index);
		index = (index + stride) % total;
	}
	return e;
}

static void launch_run(void *arg)
{
	const struct launch *l = arg;
	stack_t before;
	cudaError_t e;

	pthread_mutex_lock(&lock);
	owner = pthread_self();
	signals_take(&before);
	block_seed(forced_seed ? forced_seed++ * 0x9e3779b97f4a7c15ull : sim_random());
	memory_new_launch();
	e = run_grid(l);
	signals_give_back(&before);
	pthread_mutex_unlock(&lock);
	if (e != cudaSuccess)
		sim_abort_work(e, last_fault);
}

static void launch_drop(void *arg)
{
	struct launch *l = arg;

	if (l->body.drop)
		l->body.drop(l->body.arg);
	free(l);
}

static bool fits(dim3 d, const int max[3])
{
	return d.x && d.y && d.z && d.x <= (unsigned int)max[0] && d.y <= (unsigned int)max[1] &&
	       d.z <= (unsigned int)max[2];
}

static cudaError_t check_limits(dim3 grid, dim3 block, size_t smem_bytes)
{
	struct cudaDeviceProp prop;

	sim_device_props(sim_device(), &prop);
	if (!fits(grid, prop.maxGridSize) || !fits(block, prop.maxThreadsDim))
		return cudaErrorInvalidConfiguration;
	if ((uint64_t)block.x * block.y * block.z > (uint64_t)prop.maxThreadsPerBlock)
		return cudaErrorInvalidConfiguration;
	if (smem_bytes > prop.sharedMemPerBlockOptin)
		return cudaErrorInvalidValue;
	return cudaSuccess;
}

cudaError_t sim_launch(const char *name, dim3 grid, dim3 block, size_t smem_bytes,
		       cudaStream_t stream, struct sim_work body)
{
	cudaError_t e = check_limits(grid, block, smem_bytes);
	struct launch *l = e == cudaSuccess ? calloc(1, sizeof(*l)) : NULL;
	struct sim_work work = {launch_run, launch_drop, l, name};

	if (!l) {
		if (body.drop)
			body.drop(body.arg);
		return sim_error_set(e == cudaSuccess ? cudaErrorMemoryAllocation : e);
	}
	*l = (struct launch){.body = body, .grid = grid, .block = block, .smem_bytes = smem_bytes};
	l->body.name = name;
	return sim_stream_push(stream, &work);
}

/* Kernels here are opaque; KV_LAUNCH asks for shared memory by itself. */
cudaError_t cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attr, int value)
{
	struct cudaDeviceProp prop;

	sim_device_props(sim_device(), &prop);
	if (!func)
		return sim_error_set(cudaErrorInvalidDeviceFunction);
	if (attr == cudaFuncAttributeMaxDynamicSharedMemorySize &&
	    (value < 0 || (size_t)value > prop.sharedMemPerBlockOptin))
		return sim_error_set(cudaErrorInvalidValue);
	return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *func)
{
	struct cudaDeviceProp prop;

	if (!attr || !func)
		return sim_error_set(cudaErrorInvalidValue);
	sim_device_props(sim_device(), &prop);
	*attr = (struct cudaFuncAttributes){
		.maxThreadsPerBlock = prop.maxThreadsPerBlock,
		.numRegs = 128,
		.ptxVersion = prop.major * 10 + prop.minor,
		.binaryVersion = prop.major * 10 + prop.minor,
		.maxDynamicSharedSizeBytes = (int)prop.sharedMemPerBlockOptin,
	};
	return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *func,
							  int block_size, size_t smem_bytes)
{
	struct cudaDeviceProp prop;
	size_t by_threads, by_smem;

	if (!blocks || !func || block_size <= 0)
		return sim_error_set(cudaErrorInvalidValue);
	sim_device_props(sim_device(), &prop);
	by_threads = (size_t)prop.maxThreadsPerMultiProcessor / (size_t)block_size;
	by_smem = prop.sharedMemPerMultiprocessor / (smem_bytes + prop.reservedSharedMemPerBlock);
	*blocks = (int)(by_threads < by_smem ? by_threads : by_smem);
	return cudaSuccess;
}
