/* SPDX-License-Identifier: Apache-2.0 */
/* Values that JSON cannot hold as they are: bytes that are not UTF-8, numbers that are not finite.
 */
#ifndef ENGINE_HTTP_JSONOUT_H
#define ENGINE_HTTP_JSONOUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* True if text[bytes] is UTF-8. */
bool jsonout_is_utf8(const char *text, size_t bytes);
/* A string with U+FFFD for every byte that is not part of a UTF-8 character. NULL: no memory. */
json_t *jsonout_text(const char *text, size_t bytes);
/* A log-probability: -inf and NaN become -9999, as other servers write them. */
json_t *jsonout_logprob(float v);
/* [104, 105]. */
json_t *jsonout_bytes(const char *text, size_t bytes);
/* How many characters valid UTF-8 holds. */
size_t jsonout_chars(const char *text, size_t bytes);

#endif
