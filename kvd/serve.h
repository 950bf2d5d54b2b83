/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of a peer, from its ring or its socket, into the core. */
#ifndef KVD_SERVE_H
#define KVD_SERVE_H

#include "kvd/loop.h"
#include <stdbool.h>
#include <stdint.h>

struct peer;

#define SERVE_REQUESTS_PER_TURN 64u
#define SERVE_TOKENS_PER_TURN (256u << 10)
#define SERVE_TURN_NS 500000ull

/* One turn's share of the ring. How many requests were taken; 0: there was none. */
uint32_t serve_ring(struct peer *p);
/* p->packet is a request by socket. */
void serve_packet(struct peer *p);
/* The doorbell's source: empties it; the ring is looked at in every turn anyway. */
void serve_bell(struct loop_source *source, uint32_t events);

#endif
