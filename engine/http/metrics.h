/* SPDX-License-Identifier: Apache-2.0 */
/* Prometheus' text format. */
#ifndef ENGINE_HTTP_METRICS_H
#define ENGINE_HTTP_METRICS_H

#include "engine/http/buffer.h"

struct http;

void metrics_write(struct http *h, struct buffer *out);

#endif
