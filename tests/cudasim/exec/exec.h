/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executor, as compiled kernels see it: one block at a time runs on the calling thread, each of
 * its CUDA threads a fiber. The executor's lock is held meanwhile, so that plain globals tell a
 * fiber who it is. device.cuh gives these functions their CUDA names.
 *
 * A fault (a barrier that part of the block misses, an unaligned row) ends the launch: it is
 * printed with the kernel's name, block and line, and becomes the context's sticky error. A
 * function that finds one does not return.
 */
#ifndef CUDASIM_EXEC_EXEC_H
#define CUDASIM_EXEC_EXEC_H

#include <cuda_runtime.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/cudasim/sim.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SIM_WARP 32

/* Where a kernel stands; device.cuh fills it from the caller's line. */
struct sim_place {
	const char *file;
	int line;
};

/* What every thread of the running block shares. */
struct sim_block {
	dim3 grid_dim;
	dim3 block_dim;
	uint3 block_idx;
	unsigned char *smem;
	size_t smem_bytes;
};

/* The head of a thread's record; the rest is the executor's. */
struct sim_self {
	uint3 thread_idx;
	uint32_t lane;
};

extern struct sim_block sim_block;
extern const struct sim_self *sim_self;

/* Launches from here on take their orders from this seed; 0: from CUDASIM_SEED again. */
void sim_exec_seed(uint64_t seed);

/* What the latest fault of any launch said; "" before the first. */
const char *sim_fault_text(void);

/*
 * Checks the launch against the limits of the current device and queues it; `body` runs one
 * thread. It is owned from here on: dropped at once when the launch is refused.
 */
cudaError_t sim_launch(const char *name, dim3 grid, dim3 block, size_t smem_bytes,
		       cudaStream_t stream, struct sim_work body);

/* Ends the launch with a fault of the kernel's. */
__attribute__((noreturn, format(printf, 3, 4))) void
sim_fault(cudaError_t error, struct sim_place place, const char *format, ...);

/* Lets other threads of the block run. */
void sim_yield(void);
/* Before each atomic operation: now and then lets others go first. */
void sim_atomic(void);

/* Barrier of the whole block: what its threads' predicates add up to. */
uint32_t sim_syncthreads(uint32_t predicate, struct sim_place place);
/* Named barriers 1 to 15; count 0 stands for the whole block. */
void sim_barrier(uint32_t id, uint32_t count, struct sim_place place);
void sim_barrier_arrive(uint32_t id, uint32_t count, struct sim_place place);

/* Lanes' values, as unsigned words of `bytes` (4 or 8) each. */
enum sim_shuffle_mode { SIM_SHFL_INDEX, SIM_SHFL_UP, SIM_SHFL_DOWN, SIM_SHFL_XOR };
uint64_t sim_shuffle(uint32_t mask, enum sim_shuffle_mode mode, uint64_t value, int operand,
		     int width, struct sim_place place);
enum sim_reduce {
	SIM_REDUCE_ADD,
	SIM_REDUCE_MIN_UNSIGNED,
	SIM_REDUCE_MIN_SIGNED,
	SIM_REDUCE_MAX_UNSIGNED,
	SIM_REDUCE_MAX_SIGNED,
	SIM_REDUCE_AND,
	SIM_REDUCE_OR,
	SIM_REDUCE_XOR
};
uint32_t sim_reduce(uint32_t mask, enum sim_reduce op, uint32_t value, struct sim_place place);
uint32_t sim_ballot(uint32_t mask, bool predicate, struct sim_place place);
uint32_t sim_match_any(uint32_t mask, uint64_t value, struct sim_place place);
void sim_syncwarp(uint32_t mask, struct sim_place place);

void sim_mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2], struct sim_place place);
void sim_ldmatrix(uint32_t *r, uint32_t matrices, bool transpose, const void *row,
		  struct sim_place place);

/* Copies of 16 bytes that land at the wait for their group; until then the bytes are poison. */
void sim_cp_async16(void *smem, const void *global, bool valid, struct sim_place place);
void sim_cp_commit(void);
void sim_cp_wait(uint32_t groups_left);

#ifdef __cplusplus
}
#endif
#endif
