/* SPDX-License-Identifier: Apache-2.0 */
/* Random bytes for the core, fetched from the kernel in batches. One thread. */
#ifndef KVD_ENTROPY_H
#define KVD_ENTROPY_H

#include <stddef.h>
#include <stdint.h>

#define ENTROPY_BATCH_BYTES 4096u

struct entropy {
	size_t left; /* bytes at the end that were not handed out */
	uint8_t bytes[ENTROPY_BATCH_BYTES];
};

/* size <= ENTROPY_BATCH_BYTES; valid until the next call; never handed out twice. */
const uint8_t *entropy_take(struct entropy *e, size_t size);

#endif
