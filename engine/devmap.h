/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How slabs on this engine's GPU become addresses: the map operations that an engine on a GPU
 * gives to kvd_open(). Belongs to the thread of the connection; outlives every handle it was given
 * to.
 */
#ifndef ENGINE_DEVMAP_H
#define ENGINE_DEVMAP_H

#include <kvd.h>

struct devmap;

/* For the GPU with this uuid, whatever kind of memory kvd will turn out to have. NULL: no memory.
 */
struct devmap *devmap_new(const uint8_t uuid[16]);
/* Everything is unmapped. NULL is fine. */
void devmap_free(struct devmap *m);
const struct kvd_map_ops *devmap_ops(const struct devmap *m);
/* Forgets how the last import ended. */
void devmap_forget(struct devmap *m);
/* If it is an import since then that failed with this result: why. Else NULL. */
const char *devmap_why(const struct devmap *m, int result);
/* kvd has memory of this kind there: finds the module and the GPU in it, so that the first slab
 * brings no surprise. 0, or -errno with words in error[size]. */
int devmap_open(struct devmap *m, uint32_t kind, char *error, size_t size);

/*
 * Which of kvd's devices is this engine's: the host's for a zero uuid. Its number, or -EXDEV with
 * words that say what to do.
 */
int devmap_choose(const struct kvd_device *devices, uint32_t count, const uint8_t uuid[16],
		  char *error, size_t size);

#endif
