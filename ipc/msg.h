/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoding of untrusted messages: one table says, for each op, which channel it may use, which
 * flags exist, and how its payload's size follows from n, m and arg32. What passes msg_check() has
 * in-range counts and a payload of exactly the size that its fields say; nothing else is promised.
 * Fuzzed: tests/fuzz/fuzz_msg.c.
 */
#ifndef IPC_MSG_H
#define IPC_MSG_H

#include <kvd_abi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum msg_channel { MSG_RING = 1, MSG_SOCKET = 2, MSG_ADMIN = 4 };

/* 0; -EPROTO: unknown op, flag, or a size that contradicts the fields; -EPERM: wrong channel;
 * -E2BIG: over a limit. `channel`: where it came from, MSG_ADMIN if that session is one. */
int msg_check(const struct kvd_req *req, uint32_t channel);
/* Checks a HELLO's payload of `bytes`; copies it out, with text terminated. 0, -EPROTO, -EBADMSG
 * (another major version). */
int msg_hello(const void *payload, size_t bytes, struct kvd_hello *out);
/* Checks and copies a FORMAT payload; description gets KVD_DESCRIPTION_MAX bytes, terminated. */
int msg_format(const void *payload, size_t bytes, struct kvd_format_wire *out, char *description);
/* "ACQUIRE", or "?" */
const char *msg_op_name(uint16_t op);

#endif
