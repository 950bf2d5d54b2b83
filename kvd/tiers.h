/* SPDX-License-Identifier: Apache-2.0 */
/* The tiers below the devices: DRAM and files, opened at start, turned by the loop. */
#ifndef KVD_TIERS_H
#define KVD_TIERS_H

#include "kvd/aio.h"
#include "kvd/core/core.h"
#include "kvd/devmem.h"
#include "kvd/dram.h"
#include "kvd/file.h"
#include "kvd/file_journal.h"
#include "kvd/loop.h"
#include "kvd/mover.h"
#include "kvd/options.h"
#include "kvd/work.h"

struct tiers {
	struct core *core;
	struct file files[KVD_AREAS_MAX];
	struct file_journal *journals[KVD_AREAS_MAX];
	uint32_t file_count;
	struct aio *aios[KVD_AREAS_MAX]; /* of the files: one that hangs has its own to hang in */
	struct dram dram;
	struct mover *mover; /* NULL: there are no tiers */
	struct loop_source ready[KVD_AREAS_MAX];
	struct work *work;
	uint32_t lane; /* of the first file's journal; the others' follow */
	uint64_t journal_timeout_ns;
	uint64_t journal_retry_ns;
	uint64_t now_ns; /* of this turn, like all that the core hears */
	bool stuck;	 /* something never came back: nothing that it uses may be freed */
};

/* What tiers_open() will bring, as far as that can be said without opening anything. */
void tiers_expect(const struct options *o, bool gpu, struct core_config *config);
/*
 * Allocates memory and opens files, before there is a core, and writes into config->tiers what
 * there is. 0, or -errno with words in error[size]; tiers_fini() then frees what there is.
 */
int tiers_open(struct tiers *t, const struct options *o, struct devmem *devmem, struct work *work,
	       struct core_config *config, char *error, size_t size);
/* Gives the core, which has its namespaces, what the files hold, and says so in the log. */
int tiers_recover(struct tiers *t, struct core *core, char *error, size_t size);

/* Of core_ops. */
void tiers_transfer(struct tiers *t, const struct core_transfer *transfer);
void tiers_record(struct tiers *t, const struct core_record *record);

int tiers_add_to_loop(struct tiers *t, struct loop *loop);
/* Once in each turn, behind the workers' jobs. The number of things that the core was told. */
uint32_t tiers_turn(struct tiers *t, uint64_t now_ns);
/* At the turn's end: what the core has started since begins. */
void tiers_flush(struct tiers *t, uint64_t now_ns);
uint64_t tiers_deadline_ns(const struct tiers *t);
/* Completes the areas that the core has filled. */
void tiers_stat(const struct tiers *t, struct kvd_status *status);

/* What the core starts from now on is not begun. */
void tiers_close(struct tiers *t);
/* Transfers that were begun and have not ended, and are not late. */
uint32_t tiers_pending(const struct tiers *t);
/*
 * The core is told nothing any more; operations on files are ended, or given up, and the journals
 * get their last records.
 */
void tiers_stop(struct tiers *t);
/*
 * After work_stop() and devmem_fini(), before core_free(). hung: a worker or a driver may still use
 * memory. A zeroed struct is fine.
 */
void tiers_fini(struct tiers *t, bool hung);

#endif
