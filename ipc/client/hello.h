/* SPDX-License-Identifier: Apache-2.0 */
/* The first words with the daemon: who are you, here is your memory. */
#ifndef IPC_CLIENT_HELLO_H
#define IPC_CLIENT_HELLO_H

#include "ipc/client/client.h"

/* Makes sure that k->sock is connected. 0 or -errno, with words. */
int hello_connect(struct kvd *k, const struct kvd_options *o);
/* HELLO, and maps what the welcome brings. 0, -errno, KVD_GONE. */
int hello_say(struct kvd *k, const struct kvd_options *o);

#endif
