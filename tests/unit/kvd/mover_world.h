/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mover with everything around it: a file in memory, file I/O that tests hold up, fail and let
 * go, slabs of the host or of GPUs that are made up, and a core that only writes down what it
 * hears.
 */
#ifndef TESTS_UNIT_KVD_MOVER_WORLD_H
#define TESTS_UNIT_KVD_MOVER_WORLD_H

#include "kvd/mover.h"
#include <semaphore.h>

#define WORLD_PARTS 3u
#define WORLD_PAGES 16u /* of each slab; one slab for each part */
#define WORLD_SLOT_BYTES (64u << 10)
#define WORLD_SLOTS 16u
#define WORLD_FILES 2u
#define WORLD_DRAM_BYTES (1u << 20)

enum world_kind {
	WORLD_HOST,
	WORLD_GPU,  /* one, on which all parts lie */
	WORLD_GPUS, /* two, in turns */
};

/* What a test sets, and what it may look at. */
struct world {
	enum world_kind kind;
	struct work work;
	struct devmem devmem;
	struct file files[WORLD_FILES];
	uint8_t *dram;
	struct mover *mover;
	/* file I/O */
	bool held;	/* nothing is carried out */
	int errors[16]; /* of the operations to come, one after the other */
	uint32_t error_at;
	uint32_t submitted;
	uint32_t written;
	/* copies of GPUs */
	uint32_t copy_polls; /* how often one is asked for before it is done */
	int copy_errors[16]; /* of the starts to come */
	uint32_t copy_at;
	int poll_error;
	bool hang;  /* a copy does not even start */
	sem_t hung; /* one is about not to */
	/* what the core heard */
	int results[MOVER_TRANSFERS_MAX];
	uint32_t done[MOVER_TRANSFERS_MAX];
	uint32_t late[MOVER_TRANSFERS_MAX];
	bool down[WORLD_FILES];
	uint32_t downs;
	void (*on_done)(uint32_t id, int result); /* NULL: nothing more */
};

extern struct world world;

struct world_args {
	enum world_kind kind;
	uint64_t throttle_bytes_per_s;
	uint64_t stage_bytes;
};

void world_begin(const struct world_args *args);
void world_end(void);

/* Part i of block `block` lies in page world_page(i, block). */
uint32_t world_page(uint32_t part, uint32_t block);
/* Whoever has the bytes can say what they are: block, part and place make them. */
void world_fill(uint32_t block, uint32_t seed);
bool world_holds(uint32_t block, uint32_t seed);

struct core_slot world_slot(enum core_tier_kind tier, uint32_t area, uint32_t number);
struct core_transfer world_transfer(enum core_transfer_kind kind, uint32_t id, uint32_t block,
				    struct core_slot slot);
/* Takes what the workers have done; waits for the first of it. */
void world_work(int wait_ms);
/* Turns until nothing is under way. */
void world_run(void);
/* Some turns: until the workers have nothing to say. */
void world_turn(uint64_t now_ns);
/* Starts it, runs, and gives its result. */
int world_move(struct core_transfer t);
/* All that is held up has taken too long. */
void world_io_late(void);

#endif
