/* SPDX-License-Identifier: Apache-2.0 */
/* Counting what requests experienced, into struct engine_stats. No locks: the step loop's own. */
#ifndef ENGINE_STATS_H
#define ENGINE_STATS_H

#include <engine/engine.h>

void stats_observe(struct engine_histogram *h, uint64_t ns);
/* A request ended: counts it and its times. */
void stats_done(struct engine_stats *s, const struct engine_done *d);

#endif
