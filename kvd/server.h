/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon: owns everything, starts it in order, turns the loop, stops it in the reverse order.
 */
#ifndef KVD_SERVER_H
#define KVD_SERVER_H

#include "base/list.h"
#include "kvd/core/core.h"
#include "kvd/devmem.h"
#include "kvd/entropy.h"
#include "kvd/loop.h"
#include "kvd/options.h"
#include "kvd/paths.h"
#include "kvd/ration.h"
#include "kvd/status_file.h"
#include "kvd/tiers.h"
#include "kvd/turns.h"
#include "kvd/work.h"
#include <stdbool.h>
#include <stdint.h>

#define SERVER_ADMINS_MAX 8u /* sessions beyond --sessions-max, for kvctl */
#define SERVER_SESSIONS_MAX (KVD_STATUS_SESSIONS + SERVER_ADMINS_MAX)
#define SERVER_STRANGERS_MAX 32u /* connections that have not said HELLO */
#define SERVER_PROCESSES_MAX 1024u

struct peer;

struct server {
	const struct options *options;
	struct paths paths;
	struct core_config config;
	struct core *core;
	struct loop loop;
	struct work work;
	int watch_lane; /* where drivers are asked about processes, or -1 */
	struct devmem devmem;
	struct tiers tiers;
	struct status_file status;
	struct kvd_status figures; /* what the status file will say next */
	struct turns turns;
	struct entropy entropy;
	struct ration ration; /* of log lines about strangers and their refusals */

	int listen_fd;
	int signal_fd;
	struct loop_source listen;
	struct loop_source signal;
	struct loop_source ready; /* of the workers */

	struct list_link peers;
	struct list_link dead_peers;
	struct list_link processes;
	struct list_link dying_processes; /* dead, their devices may not know it */
	struct list_link dead_processes;
	struct peer *by_session[SERVER_SESSIONS_MAX];
	uint32_t peer_count;
	uint32_t process_count;
	uint32_t session_count; /* without admins */
	uint32_t uid_sessions_max;

	uint64_t nonce;
	uint64_t start_ns;
	uint64_t now_ns;	   /* of this turn */
	uint64_t polled_ns;	   /* when epoll was last asked */
	uint64_t status_ns;	   /* when the status file was last written */
	uint64_t listen_resume_ns; /* 0: accepting */
	uint32_t spin_us;
	bool hung; /* a device's lane did not end: nothing of it may be freed */
	bool private_child;
	bool must_reap; /* a peer is marked or has ended */
	bool changed;	/* since the status file was written */
	bool stop;
};

/* Everything up to "clients can connect". 0, or -errno with words in error[size]; then
 * server_fini() frees what there is. */
int server_init(struct server *s, const struct options *o, char *error, size_t size);
void server_fini(struct server *s);

#endif
