/* SPDX-License-Identifier: Apache-2.0 */
/* A device's UUID as people know it: GPU-8d2f...-..., what nvidia-smi -L prints. */
#ifndef BASE_UUID_H
#define BASE_UUID_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define UUID_BYTES 16
#define UUID_TEXT 41 /* with the NUL */

static inline const char *uuid_format(const uint8_t uuid[UUID_BYTES], char out[UUID_TEXT])
{
	int n = snprintf(out, UUID_TEXT, "GPU-");

	for (int i = 0; i < UUID_BYTES; i++) {
		bool dash = i == 4 || i == 6 || i == 8 || i == 10;
		n += snprintf(out + n, (size_t)(UUID_TEXT - n), "%s%02x", dash ? "-" : "", uuid[i]);
	}
	return out;
}

/* Zero is the host's: it has none. */
static inline bool uuid_is_zero(const uint8_t uuid[UUID_BYTES])
{
	static const uint8_t zero[UUID_BYTES];

	return memcmp(uuid, zero, UUID_BYTES) == 0;
}

#endif
