/* SPDX-License-Identifier: Apache-2.0 */
/* The first message of a connection: who may come in, and what it gets. */
#ifndef KVD_WELCOME_H
#define KVD_WELCOME_H

#include <stdint.h>

struct peer;
struct server;

/* p->packet is the first packet. Welcomes the peer or refuses it with words, and then marks it. */
void welcome_handle(struct peer *p);
/* What a client must have named to get slabs of this kvd. */
uint64_t welcome_features(const struct server *s);
/* Refuses one from whom nothing was read. */
void welcome_refuse(struct peer *p, int error, const char *message);

#endif
