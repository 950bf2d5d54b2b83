/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A core with a patient shell around it: requests go in, replies, rows and orders are kept. Slabs
 * are made and destroyed at once unless `slow` is set. Every request is followed by core_check().
 */
#ifndef CORE_HARNESS_H
#define CORE_HARNESS_H

#include "kvd/core/core.h"
#include "kvd/core/machine.h"
#include "tests/test.h"

#define HARNESS_PAGE_BYTES 4096u
#define HARNESS_TOKENS_MAX 131072u
#define HARNESS_ORDERS_MAX 64u
#define HARNESS_ROWS_MAX 64u
#define HARNESS_REPLIES_MAX 64u
#define HARNESS_TRANSFERS_MAX 256u
#define HARNESS_RECORDS_MAX 1024u

struct harness_reply {
	bool came;
	struct kvd_rep rep;
	struct kvd_handle handles[1024];
	uint8_t bytes[8192];
};

/* What the journal was told, with memory of its own. */
struct harness_record {
	struct core_record record;
	uint32_t tokens[128];
	uint32_t extras[KVD_EXTRAS_PER_BLOCK * 5];
};

struct harness {
	struct core *core;
	uint64_t now_ns;
	uint32_t tag;
	bool slow;
	const void *payload;
	uint8_t payloads[HARNESS_REPLIES_MAX][HARNESS_TOKENS_MAX * 4];
	struct harness_reply replies[HARNESS_REPLIES_MAX]; /* by tag */
	struct core_order orders[HARNESS_ORDERS_MAX];
	uint32_t order_count;
	struct core_transfer transfers[HARNESS_TRANSFERS_MAX]; /* that have not ended */
	uint32_t transfer_count;
	struct harness_record records[HARNESS_RECORDS_MAX];
	uint32_t record_count;
	struct kvd_lease_row rows[16][HARNESS_ROWS_MAX];
	struct kvd_session_row session_rows[16];
	uint32_t expelled;
};

/*
 * pages: of the pool, of HARNESS_PAGE_BYTES; slabs of `slab_pages`. One device, and one namespace,
 * "default".
 */
struct harness *harness_new(uint32_t pages, uint32_t slab_pages);
/* The same with limits of one's own; pool_bytes, pages_max and the rest must be set. */
struct harness *harness_with(const struct core_config *config);
struct core_config harness_config(uint32_t pages, uint32_t slab_pages);
void harness_free(struct harness *h);

uint32_t harness_space(struct harness *h, const char *name);
/* process 0: one of its own. */
uint32_t harness_session(struct harness *h, uint32_t space, uint64_t process, uint64_t group);
uint32_t harness_admin(struct harness *h);
uint32_t harness_format(struct harness *h, uint32_t session, uint32_t id, uint32_t page_tokens,
			uint32_t parts, uint64_t page_bytes);
/* The same with a device for each part. */
uint32_t harness_format_on(struct harness *h, uint32_t session, uint32_t id, uint32_t page_tokens,
			   uint32_t parts, uint64_t page_bytes, const uint32_t *devices);

/* Sends; the reply, if any came, is in replies[tag]. Returns the tag. */
uint32_t harness_send(struct harness *h, uint32_t session, struct kvd_req req, const void *in);
/* Sends, and demands a reply at once. */
struct harness_reply *harness_call(struct harness *h, uint32_t session, struct kvd_req req,
				   const void *in);
struct harness_reply *harness_acquire(struct harness *h, uint32_t session, uint32_t format,
				      const uint32_t *tokens, uint32_t n, uint32_t decode_blocks);
int harness_seal(struct harness *h, uint32_t session, uint64_t lease, uint32_t first,
		 uint32_t count);
int harness_release(struct harness *h, uint32_t session, uint64_t lease);
/* ACQUIRE, SEAL of all full blocks, RELEASE: the prefix is cached. */
void harness_cache(struct harness *h, uint32_t session, uint32_t format, const uint32_t *tokens,
		   uint32_t n);
const struct kvd_lease_row *harness_row(const struct harness *h, uint32_t session, uint64_t lease);

/* Lets time pass and the core come to rest. */
void harness_time(struct harness *h, uint64_t ms);
/* Ends the orders that `slow` kept back. */
void harness_orders(struct harness *h, int make_result);
/* Ends the i-th transfer of those that have not ended. */
void harness_transfer(struct harness *h, uint32_t i, int result);
/* Ends transfers, and those that begin by that, until there are none. Returns how many. */
uint32_t harness_transfers(struct harness *h, int result);
void harness_close(struct harness *h, uint32_t session, enum core_session_end how);
void harness_check(struct harness *h);
uint64_t harness_pages(const struct harness *h, enum kvd_page_state state);
/* tokens[i] = seed * 1000003 + i */
void harness_tokens(uint32_t seed, uint32_t n, uint32_t *out);

#endif
