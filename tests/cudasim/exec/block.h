/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the executor: the threads of the block that runs, and how they wait. One block at a time;
 * all of it belongs to the thread that holds the executor's lock (launch.c).
 */
#ifndef CUDASIM_EXEC_BLOCK_H
#define CUDASIM_EXEC_BLOCK_H

#include "tests/cudasim/exec/exec.h"
#include "tests/cudasim/exec/fiber.h"

#define BLOCK_THREADS_MAX 1024u
#define BLOCK_BARRIERS 16u
#define BLOCK_SMEM_MAX ((size_t)256 << 10)
#define BLOCK_REDZONE_BYTES ((size_t)1024)
#define BLOCK_POISON 0xff

enum block_state {
	BLOCK_READY,
	BLOCK_IN_WARP,
	BLOCK_IN_BARRIER,
	BLOCK_EXITED,
};

struct block_warp;

/* What the last lane of a collective does for all: reads every `in`, writes every `out`. */
typedef void block_warp_op(struct block_warp *w, uint32_t mask);

struct cp_async;

struct block_thread {
	struct sim_self self; /* first: sim_self points here */
	struct fiber fiber;
	enum block_state state;
	uint32_t index;
	struct block_warp *warp;
	/* Where it waits, and for what. */
	struct sim_place place;
	uint32_t barrier;
	uint32_t result;
	const void *in;
	void *out;
	/* How often it called kv_fence_async: memory.c compares. */
	uint32_t fence_epoch;
	/* Copies under way, of cp_async.c. */
	struct cp_async *copies;
};

struct block_meeting {
	uint32_t mask;
	uint32_t arrived;
	block_warp_op *op;
	struct sim_place place;
};

struct block_warp {
	uint32_t present;	    /* lanes that the block has and that have not exited */
	struct block_thread *lanes; /* the first of SIM_WARP */
	uint32_t meeting_count;
	struct block_meeting meetings[SIM_WARP];
};

/* The thread that runs. */
static inline struct block_thread *block_current(void)
{
	return (struct block_thread *)(uintptr_t)sim_self;
}

/* Seeded at each launch; decides every order within it. */
uint64_t block_random(void);
uint32_t block_random_below(uint32_t n);

/*
 * Runs one block, whose shape and index stand in sim_block: 0, or the error of its first fault,
 * told in block_fault_text(). `threads` of the record are made as needed.
 */
cudaError_t block_run(const char *kernel, const struct sim_work *body);
void block_seed(uint64_t seed);
const char *block_fault_text(void);
/* The launch was given up from outside: forgets the block. */
void block_forget(void);
/* How many threads the block has, and one of them. */
uint32_t block_thread_count(void);
struct block_thread *block_thread(uint32_t index);

/* Something happened on which a thread that polls may have waited. */
void block_progress(void);
/* The current thread waits in `state` until another wakes it. */
void block_wait(enum block_state state);
void block_wake(struct block_thread *t);

/* Meets the other lanes of the mask; the last of them runs `op`. */
void warp_meet(uint32_t mask, block_warp_op *op, const void *in, void *out, struct sim_place place);
/* A thread ended: nobody may wait for it. */
void warp_exited(struct block_thread *t);

/* Barriers: a new block, a thread that exits, and what a stuck block says. */
void barrier_reset(void);

/* The block's shared memory: made anew for each, all poison, with a red zone behind. */
int memory_new_block(size_t smem_bytes);
bool memory_redzone_whole(void);
/* A new launch: what was known of device memory may have changed. */
void memory_new_launch(void);
/* Faults unless the bytes are aligned and in the block's shared memory, or in device memory. */
void memory_check_smem(const void *at, size_t bytes, size_t alignment, const char *what,
		       struct sim_place place);
void memory_check_global(const void *at, size_t bytes, size_t alignment, const char *what,
			 struct sim_place place);

/*
 * The current thread's copy to 16 bytes has landed; they are fenced once it calls kv_fence_async. A
 * product may read what is fenced, and what threads stored.
 */
void memory_copied(const void *at);
bool memory_fenced(const void *at);

/* Drops the products under way. What is wrong with those of the block that ended, or NULL. */
void hopper_reset(void);
const char *hopper_check_end(uint32_t warps);

/* Drops the thread's copies. */
void cp_async_reset(struct block_thread *t);

#endif
