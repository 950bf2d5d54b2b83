/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Named points at which a test kills the daemon, to see what its death does to others. They exist
 * only in builds with -Dcrash_points=true. KVD_CRASH_AT=NAME[:N] ends the process by SIGKILL at
 * the N-th passage (default 1). The points are one table, so that a test can walk all of them.
 */
#ifndef KVD_CRASH_H
#define KVD_CRASH_H

#define CRASH_TABLE(X)                                                                             \
	X(hello_checked)  /* the session is open in the core, the welcome not sent */              \
	X(welcome_sent)	  /* the client has its descriptors */                                     \
	X(request_taken)  /* out of the ring, not in the core */                                   \
	X(request_done)	  /* the core has stepped, the doorbell not rung */                        \
	X(reply_put)	  /* in the ring, the core still within its step */                        \
	X(row_written)	  /* a lease row has changed, the doorbell not rung */                     \
	X(slab_ordered)	  /* a worker is to make a slab */                                         \
	X(slab_made)	  /* memory is there, the core does not know */                            \
	X(slab_sent)	  /* the descriptor is at the client */                                    \
	X(slab_destroyed) /* memory is gone, the core does not know */                             \
	X(session_closed) /* the core has closed it, the socket is open */                         \
	X(process_dead)	  /* the pidfd fired, the core does not know */                            \
	X(status_odd)	  /* in the middle of a status update */                                   \
	X(stopping)	  /* SIGTERM came, clients do not know */                                    \
	/* Of the file tier; CRASH_journal_write is the first of them. */                          \
	X(journal_write)    /* a worker is to write records */                                     \
	X(journal_written)  /* it has, and the loop does not know */                               \
	X(checkpoint_begun) /* a half has a new header, or will have soon */                       \
	X(checkpoint_half)  /* some of the blocks have been walked */                              \
	X(checkpoint_end)   /* the END of it is to be written */                                   \
	X(checkpoint_done)  /* it is on the disk */                                                \
	X(slot_filled)	    /* a block is ready for its slot, nothing is written */                \
	X(slot_written)	    /* it is there, the core does not know */

enum crash_point {
#define CRASH_ENUM(name) CRASH_##name,
	CRASH_TABLE(CRASH_ENUM)
#undef CRASH_ENUM
		CRASH_COUNT
};

#ifdef KVD_CRASH_POINTS
#define CRASH_POINT(name) crash_pass(CRASH_##name)
#else
#define CRASH_POINT(name) ((void)0)
#endif

/* Reads $KVD_CRASH_AT. Before any thread. */
void crash_init(void);
void crash_pass(enum crash_point point);
const char *crash_name(enum crash_point point);

#endif
