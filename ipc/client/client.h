/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handle, as the files of the library share it. Everything here belongs to the one thread that
 * uses the handle, but for `wake_wanted` and `wake_fd`, which kvd_wake() touches from any thread.
 */
#ifndef IPC_CLIENT_CLIENT_H
#define IPC_CLIENT_CLIENT_H

#include "ipc/client/area.h"
#include "ipc/client/error.h"
#include <base/list.h>
#include <ipc/ring.h>
#include <ipc/sock.h>
#include <kvd.h>

/* What is left to RELEASE, RETURN, CANCEL and SEAL when everything else is used up. */
#define CLIENT_CREDITS_KEPT 16u
#define CLIENT_BYTES_KEPT (64u << 10)

struct request;
struct slab;

struct format {
	uint32_t id;
	uint32_t page_tokens;
	uint32_t part_count;
	/* The magazine: blocks of part_count handles each, a stack. */
	struct kvd_handle *blocks;
	uint32_t block_count;
	uint32_t block_max;
	uint32_t block_owed; /* on their way by TOPUP, or bound to a lease: may still come here */
};

struct kvd {
	const uint8_t *same_process; /* an OS page that a fork wipes: 1 here, 0 in a child */
	bool gone;
	bool gone_told; /* KVD_EV_GONE was delivered */
	bool admin;	/* no rings, no lease table */
	int sock;
	uint32_t sock_tag;
	struct sock_packet packet; /* the last that came over the socket */
	uint64_t timeout_ns;
	uint64_t spin_ns;
	uint64_t looked_ns; /* when the socket was looked at last */
	struct kvd_map_ops map_ops;
	bool guard;
	bool poison;

	uint64_t nonce;
	uint64_t group;
	uint32_t session;
	uint32_t daemon_pid;
	struct kvd_device devices[KVD_DEVICES_MAX];
	uint32_t device_count;

	struct ring_side ring;
	void *rings_map;
	size_t rings_bytes;
	const struct kvd_lease_row *rows;
	uint32_t row_count;
	struct kvd_session_row row_seen;
	int bell_to_kvd;
	int bell_to_client;
	int wake_fd;
	int wake_wanted;

	struct request *requests; /* one a credit */
	uint32_t request_count;
	uint32_t requests_used;
	struct list_link requests_free;
	struct list_link events; /* requests whose event waits for kvd_wait() */
	struct area in;
	struct area in_kept;
	struct area out;

	struct format formats[64];
	uint32_t format_count;
	struct list_link leases;
	struct list_link leases_dead; /* freed by the next kvd_wait() */

	struct slab *slabs; /* sorted by first_page */
	uint32_t slab_count;
	uint32_t slab_max;
	uint32_t slab_hit;   /* the last one that was found */
	bool slab_gone_sent; /* and not answered yet */
	bool slabs_ended;    /* kvd_close() is under way: none is mapped any more */

	uint64_t requests_sent;
	uint64_t waits;
};

/* What each call begins with: 0, -EINVAL (no handle), -ECHILD, KVD_GONE. */
int client_enter(const struct kvd *k);
/* The same for calls that need rings: -EOPNOTSUPP on an admin handle. */
int client_enter_ring(const struct kvd *k);
/* Ends the connection; the first reason stays in kvd_last_error(). Memory stays mapped. KVD_GONE.
 */
int client_gone(struct kvd *k, const char *reason);
/* NULL: not registered by this handle. */
struct format *client_format(struct kvd *k, uint32_t id);

#endif
