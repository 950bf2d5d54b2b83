/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mutants: faults that the simulator must catch. Each is one line of the core done wrong, at the
 * place where the right thing is done. They exist only in the library that is built with
 * KVD_MUTANTS; elsewhere MUTANT() is a constant 0 and nothing of them is left.
 *
 * The same build makes the hash of the index weak (4 bits are left), so that collisions
 * happen all the time and the comparison of tokens is what decides. And it makes short what the
 * simulator's chains and tiers are too small for.
 */
#ifndef KVD_CORE_MUTANT_H
#define KVD_CORE_MUTANT_H

#include <stdint.h>

/* name, what it does wrong */
#define MUTANT_TABLE(M)                                                                            \
	M(SKIP_UNPIN, "a released lease leaves its deepest node pinned")                           \
	M(SKIP_GENERATION, "the generation of a client's handle is not compared")                  \
	M(GENERATION_KEPT, "a freed page keeps its generation")                                    \
	M(FORGET_PROMISE, "a lease that takes its pages stays promised them")                      \
	M(PUBLISH_ORPHAN, "a block is published although its parent is not")                       \
	M(EVICT_INNER, "a node that has children is evicted alone")                                \
	M(EVICT_PINNED, "a pinned node stays in the eviction order")                               \
	M(SKIP_TOKENS, "a hit compares the hash alone")                                            \
	M(SKIP_SPACE, "a format of another namespace is accepted")                                 \
	M(FREE_QUARANTINE, "pages of a broken session are free before its process is dead")        \
	M(FORK_LEAK, "a parent that waits for its last fork is never released")                    \
	M(DOUBLE_QUOTA, "a node that two leases pin is charged to the session twice")              \
	M(LOSE_CALL, "the heir of a builder gets no CALL")                                         \
	M(LOSE_HEIR, "a builder that leaves does not look for an heir")                            \
	M(LATE_READY, "followers are not told that a block is sealed")                             \
	M(STALE_TAG, "a bound magazine page is counted as a magazine page still")                  \
	M(TAIL_OFF_BY_ONE, "a kept tail claims one valid token more")                              \
	M(TAIL_RUN_LONG, "a tail's common run is one token too long")                              \
	M(KEEP_PRIVATE, "a kept page is not freed at release")                                     \
	M(LOSE_WAITER, "a waiting request whose deadline passes gets no reply")                    \
	M(HALF_ADMISSION, "a request is admitted with one page less than it needs")                \
	M(REUSE_TICKET, "a ticket can be claimed twice")                                           \
	M(KEEP_IMPORTER, "who keeps a destroyed slab mapped keeps its session")                    \
	M(TURN_OTHER_DEVICE, "slabs of another device are turned over")                            \
	M(PAY_ELSEWHERE, "a slab is paid from the pool of the device before its own")              \
	M(RESERVE_ELSEWHERE, "what is there is held against the slabs of the device before")       \
	M(FLOOR_ELSEWHERE, "the floors of the device before are kept on a device")                 \
	M(WAKE_ELSEWHERE, "memory that comes free wakes who waits for the device before")          \
	M(USES_OF_LAST, "a hit is counted for the deepest block of the path alone")                \
	M(USES_CARRIED, "the uses of a block that comes back are not carried to its parent")       \
	M(MAIN_TO_SMALL, "the main queue's head counts as a page of the small queue")              \
	M(TRUST_TIER, "a block whose checksum is wrong is published")                              \
	M(LOAD_OUT_OF_ORDER, "a loaded block is published before its parent")                      \
	M(SLOT_UNDER_TRANSFER, "a slot is free again while a transfer uses it")                    \
	M(DROP_UNRECORDED, "the journal is not told that a slot was given up")                     \
	M(FREE_LATE_PAGES, "pages of a late load are free before it is done")                      \
	M(STORE_UNPINNED, "a chain that is stored may be evicted meanwhile")                       \
	M(LOSE_LATE, "followers of a late load are not called")                                    \
	M(KEEP_BAD, "a block that could not be loaded stays in its tier")                          \
	M(GENERATION_REUSED, "a slot that is written anew keeps its generation")                   \
	M(LOAD_UNPAID, "pages to load into are taken without a promise")                           \
	M(WAIT_FOR_LATE, "when all transfers are late, loads wait for one of them")                \
	M(STORE_TWICE, "a haul stores what another one stores already")                            \
	M(CHILD_UNTOLD, "what is stored before its parent names no slot of it")                    \
	M(PARENT_BY_KEY, "the parent of a restored block is found by its key alone")               \
	M(FORGET_GENERATION, "generations that records name are given again")                      \
	M(KEEP_SOURCE, "a bad slot that a store should have read stays in its tier")

#define MUTANT_ENUM(name, text) MUTANT_##name,
enum mutant {
	MUTANT_NONE = 0,
	MUTANT_TABLE(MUTANT_ENUM) MUTANT_COUNT,
};
#undef MUTANT_ENUM

#ifdef KVD_MUTANTS
/* The mutant that runs now, MUTANT_NONE for none. Set it between steps. */
extern int core_mutant;
#define MUTANT(name) (core_mutant == MUTANT_##name)
#define MUTANT_HASH_MASK 0x3ull
#define MUTANT_SHORT(normal, less) (less)
#else
#define MUTANT(name) 0
#define MUTANT_HASH_MASK UINT64_MAX
#define MUTANT_SHORT(normal, less) (normal)
#endif

/* "SKIP_UNPIN" and what it does wrong; NULL outside 1 .. MUTANT_COUNT - 1. Static. */
const char *mutant_name(int mutant);
const char *mutant_text(int mutant);

#endif
