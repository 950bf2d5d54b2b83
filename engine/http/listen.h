/* SPDX-License-Identifier: Apache-2.0 */
/* The listening socket. */
#ifndef ENGINE_HTTP_LISTEN_H
#define ENGINE_HTTP_LISTEN_H

#include <stddef.h>
#include <stdint.h>

/* Returns the socket, or -errno with a sentence in error[size]. port 0: a free one, in *out_port.
 */
int listen_open(const char *host, uint16_t port, uint16_t *out_port, char *error, size_t size);

#endif
