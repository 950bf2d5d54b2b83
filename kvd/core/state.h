/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a page record, as one table of {from, event, to}. A change of state that is not a
 * row of it is a bug of ours and stops the daemon. Rows are counted, so that a test can demand
 * that each was reached.
 *
 *           TAKE, TOPUP            PUBLISH, KEEP, KEEP_TAIL
 *   free ------------------> open -------------------------> sealed
 *    ^ ^                    |  | \ BIND (open to open)          |
 *    | +--------------------+  |                                |
 *    |   RELEASE, RETURN       | BREAK   EVICT, DROP, DEMOTE    |
 *    +---- quarantine <--------+                                |
 *    |  PROVEN, QUIESCED                                        |
 *    +----------------------------------------------------------+
 *    |                                          LOADED          |
 *    +------------------> filling ------------------------------+
 *    |       LOAD            |
 *    +-----------------------+  LOAD_FAILED, LOAD_USELESS
 */
#ifndef KVD_CORE_STATE_H
#define KVD_CORE_STATE_H

#include <kvd_abi.h>
#include <stdint.h>

struct core;

enum state_event {
	STATE_TAKE,	    /* for a lease, promised by its admission */
	STATE_TOPUP,	    /* for the magazine of a session group */
	STATE_BIND,	    /* a magazine page becomes a block of a lease */
	STATE_PUBLISH,	    /* sealed as the page of a node */
	STATE_KEEP,	    /* sealed, but stays private to the lease */
	STATE_KEEP_TAIL,    /* sealed as the page of a partial node */
	STATE_RELEASE,	    /* its lease ended in peace */
	STATE_RETURN,	    /* given back from a magazine, or its group said BYE */
	STATE_BREAK,	    /* its writer broke: it may still write */
	STATE_EVICT,	    /* its node leaves the index */
	STATE_DROP,	    /* private, and its lease ended */
	STATE_PROVEN,	    /* the writer's process is dead */
	STATE_QUIESCED,	    /* the writer's process says that its writes have ended */
	STATE_DEMOTE,	    /* its node stays: a tier has it */
	STATE_LOAD,	    /* promised; to be filled from a tier */
	STATE_LOADED,	    /* as the page of a node */
	STATE_LOAD_FAILED,  /* it was not what it should be, or could not be read */
	STATE_LOAD_USELESS, /* not needed any more: somebody else was faster, or all have gone */
	STATE_EVENTS
};

struct state_row {
	enum kvd_page_state from;
	enum state_event event;
	enum kvd_page_state to;
	const char *name;
};

uint32_t state_row_count(void);
/* "free-take-open". Static. */
const char *state_row_name(uint32_t row);
/* How often this core used the row. */
uint64_t state_row_hits(const struct core *core, uint32_t row);

/* Changes the page by the table's row, and counts it. The core's own files call it, nobody else. */
void state_change(struct core *core, uint32_t page, enum state_event event);

#endif
