/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries out the core's transfers: bytes of blocks between pages, the DRAM tier and files. Loop's
 * thread only; bytes are touched by workers, by GPUs and by the kernel.
 */
#ifndef KVD_MOVER_H
#define KVD_MOVER_H

#include "kvd/aio.h"
#include "kvd/core/core.h"
#include "kvd/devmem.h"
#include "kvd/file.h"
#include "kvd/work.h"

#define MOVER_TRANSFERS_MAX 256u

/* What the core is told; all from within mover_turn(). */
struct mover_events {
	void (*done)(void *ctx, uint32_t id, int result);
	void (*late)(void *ctx, uint32_t id);
	void (*area_down)(void *ctx, enum core_tier_kind tier, uint32_t area, bool down);
};

/* What is pointed to outlives the mover. */
struct mover_config {
	struct devmem *devmem;
	struct work *work;
	struct aio *const *aios; /* one for each file: one that hangs holds up no other */
	const struct file *files;
	uint32_t file_count;
	void *dram; /* the DRAM tier's memory; NULL: there is none */
	uint64_t dram_bytes;
	uint64_t file_timeout_ns;
	uint64_t device_timeout_ns;
	uint64_t file_retry_ns;	       /* 0: MOVER_RETRY_NS; tests use less */
	uint64_t throttle_bytes_per_s; /* of each file; 0: as fast as it is */
	uint64_t stage_bytes;	       /* 0: what suits the device */
	const struct mover_events *events;
	void *ctx;
};

/* An area that does not work is tried again after this, and then after ever longer. */
#define MOVER_RETRY_NS 30000000000ull

struct mover;

/*
 * Before the loop turns, and while workers have nothing to do: staging memory is pinned here. 0, or
 * -errno with words in error[size].
 */
int mover_new(struct mover **out, const struct mover_config *config, char *error, size_t size);
/*
 * After the workers have stopped and aio has been drained; what is under way then is forgotten.
 * Staging memory is mapped until then. NULL is fine.
 */
void mover_free(struct mover *m);
/* A transfer by order of the core, which hears of its end in a later mover_turn(). */
void mover_start(struct mover *m, const struct core_transfer *transfer);
/*
 * Begins what has waited long enough, tells the core what has ended. Once in each turn of the loop,
 * behind aio_turn() and the workers' jobs. The number of things that the core was told.
 */
uint32_t mover_turn(struct mover *m, uint64_t now_ns);
/* When mover_turn() must be called next; UINT64_MAX: no need. */
uint64_t mover_deadline_ns(const struct mover *m);
/* Transfers of which the core has not heard the end, and probes of files. */
uint32_t mover_pending(const struct mover *m);
/* Of those, how many may end soon: a stop does not wait for what is late. */
uint32_t mover_awaited(const struct mover *m);
/* What is started from now on stays undone: what has begun is to end, and no more. */
void mover_close(struct mover *m);
/* And from now on the core is told nothing: it is about to go. */
void mover_mute(struct mover *m);
/* How the journal of a file does: 0, or -errno. In each turn; cheap. */
void mover_file_journal(struct mover *m, uint32_t area, int state);
/* Completes what the core has filled: state, errors, engine, path. */
void mover_stat(const struct mover *m, struct kvd_area_stat *areas, uint32_t count);

#endif
