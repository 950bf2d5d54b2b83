/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the mover's files share. A transfer is a list of steps, made when it starts (mover_plan.c);
 * each step is carried out by somebody, and the loop takes the transfer to the next one:
 *
 *   STAGE   mover_stage.c  waits for staging memory: host memory that GPUs can copy from and to
 *   READ    mover_file.c   a file's slot into host memory
 *   WRITE   mover_file.c   host memory into a file's slot
 *   LANE    mover_lane.c   between host memory and the pages of GPUs
 *   COPY    mover_bytes.c  between the DRAM tier and pages that are host memory
 *   CHECK   mover_bytes.c  is this the block that it should be?
 *   FILL    mover_bytes.c  the header of what is to be stored
 *
 * `header` and `parts` say where in host memory the block lies, whatever that memory is: the pages
 * themselves, the DRAM tier, or staging memory.
 */
#ifndef KVD_MOVER_INSIDE_H
#define KVD_MOVER_INSIDE_H

#include "kvd/mover.h"

#define MOVER_STEPS_MAX 7u

enum mover_step {
	MOVER_END,
	MOVER_STAGE,
	MOVER_READ,
	MOVER_WRITE,
	MOVER_LANE,
	MOVER_COPY,
	MOVER_CHECK,
	MOVER_FILL,
};

/* While a step is somebody else's (a worker, a lane, aio) the loop looks at `core's` part alone. */
struct mover_transfer {
	/* of the loop */
	struct mover *mover;
	struct list_link link; /* in the list of what it waits for, or of its lane */
	bool taken;
	bool timed;	/* its step may take until late_ns; aio's clock is aio's */
	bool late;	/* somebody has waited too long */
	bool late_told; /* and the core knows */
	bool file_late; /* its operation on a file is */
	uint64_t late_ns;
	struct list_link stage_link;
	uint64_t stage_at; /* of its staging memory */
	uint64_t stage_bytes;
	/* of whoever carries out the step */
	struct core_transfer what;
	struct work_job job;
	struct aio_op op;
	uint8_t steps[MOVER_STEPS_MAX];
	uint32_t at;
	int result;
	void *own_header; /* for blocks that lie in pages; always there */
	void *header;	  /* is filled */
	void *found;	  /* is checked */
	void *parts[KVD_PARTS_MAX];
	bool has_pages;
	uint32_t devices[KVD_PARTS_MAX];
	uint64_t addresses[KVD_PARTS_MAX];
	bool summed;
	uint64_t checksum;
	/* of a lane */
	uint32_t copies_left;  /* bits: parts that no lane has copied */
	uint32_t copies_begun; /* of this lane's */
	uint64_t ticket;       /* of the last one begun */
};

/* A file, how it does, and who waits until --file-throttle lets it go on. */
struct mover_area {
	struct mover *mover;
	const struct file *file;
	struct list_link reads;
	struct list_link writes;
	uint64_t free_ns; /* when the next may begin */
	uint64_t errors;
	uint32_t errors_in_row;
	uint32_t late_count; /* operations that are late and still under way */
	int journal;	     /* state of it: 0 or -errno */
	bool down;
	bool down_told;
	bool probe_writes; /* what failed was a write */
	uint64_t up_ns;	   /* when it came back */
	uint64_t wait_ns;  /* before the next probe, when it goes down again */
	uint64_t probe_at_ns;
	bool probing;
	bool probe_late;
	struct aio_op probe;
	void *probe_buffer;
};

/* The copies of one GPU, see mover_lane.c. */
struct mover_lane {
	struct work_job job;
	struct mover *mover;
	uint32_t device;
	bool stuck; /* the job does not come back: nothing more is given to it */
	bool busy;  /* the job is at the workers: then the last two lists are theirs */
	struct list_link waiting; /* not yet handed to it */
	struct list_link active;
	struct list_link ended;
};

struct mover {
	struct mover_config config;
	bool gpu; /* pages are no host memory */
	int store_lane;
	struct mover_transfer *table;
	uint8_t *headers;
	struct list_link over; /* the core is to be told */
	uint32_t pending;
	uint32_t timed_count;
	uint32_t late_count; /* of which the core has not been told */
	uint32_t hopeless;   /* late, and the core knows */
	bool closed;
	bool muted;
	uint64_t dram_errors;
	uint8_t *stage;
	uint64_t stage_bytes;
	struct list_link stage_taken; /* by address */
	struct list_link stage_waiting;
	struct mover_area areas[KVD_AREAS_MAX];
	struct mover_lane lanes[KVD_DEVICES_MAX];
};

/* Begins the step at which the transfer is, or its end if its result is an error. */
void mover_go(struct mover_transfer *t);
/* The step is done: the next one. */
void mover_next(struct mover_transfer *t, int result);
/* The step should be done by then, if it is not stopped before. */
void mover_time(struct mover_transfer *t, uint64_t timeout_ns);
void mover_time_stop(struct mover_transfer *t);
/* Nobody should wait for it any longer. */
void mover_late(struct mover_transfer *t);

/* Where things lie, and the steps. 0 or -errno. */
int mover_plan(struct mover_transfer *t);
/* The block lies there: header and parts, one after the other. */
void mover_plan_lay(struct mover_transfer *t, uint8_t *memory);
/* The slot that is read. */
const struct core_slot *mover_plan_source(const struct mover_transfer *t);

int mover_stage_init(struct mover *m, char *error, size_t size);
void mover_stage_fini(struct mover *m);
void mover_stage_take(struct mover_transfer *t);
void mover_stage_give(struct mover_transfer *t);

/* A job: carries out steps of bytes, one after the other, until one is somebody else's. */
void mover_bytes_run(struct work_job *job);

void mover_file_begin(struct mover_transfer *t);
/* Begins what the throttle kept. */
void mover_file_turn(struct mover_area *a, uint64_t now_ns);
uint64_t mover_file_deadline_ns(const struct mover_area *a);

int mover_area_init(struct mover *m, uint32_t number);
void mover_area_fini(struct mover_area *a);
/* What an operation came to, and whether that is the end of the area for now. */
void mover_area_result(struct mover_area *a, bool write, int result);
/* An operation is late and goes on; and it has come back after all. */
void mover_area_late(struct mover_area *a, bool write);
void mover_area_late_done(struct mover_area *a);
void mover_area_journal(struct mover_area *a, int state);
void mover_area_turn(struct mover_area *a, uint64_t now_ns);
uint64_t mover_area_deadline_ns(const struct mover_area *a);

void mover_lane_init(struct mover *m);
void mover_lane_begin(struct mover_transfer *t);
/* The transfer's copies take too long. */
void mover_lane_late(struct mover_transfer *t);

#endif
