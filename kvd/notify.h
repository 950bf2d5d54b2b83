/* SPDX-License-Identifier: Apache-2.0 */
/* Tells a service manager how we are. */
#ifndef KVD_NOTIFY_H
#define KVD_NOTIFY_H

/* One datagram of the sd_notify protocol, as "READY=1\nSTATUS=..."; nothing if nobody listens. */
void notify_send(const char *text);

#endif
