/* SPDX-License-Identifier: Apache-2.0 */
/* Shared memory without names: memfds, sealed so that nobody can shrink what others map. */
#ifndef IPC_SHM_H
#define IPC_SHM_H

#include <stddef.h>
#include <stdint.h>

enum shm_seal {
	SHM_SEAL_SIZE,	    /* no shrinking, no growing; everybody who has it may write */
	SHM_SEAL_READ_ONLY, /* also F_SEAL_FUTURE_WRITE: only maps made before the seal can write */
};

struct shm {
	int fd;
	size_t bytes;
	void *map; /* read and write, of the process that made it */
};

/* Makes a memfd of `bytes` (rounded up to OS pages), maps it shared, then seals it. 0 or -errno. */
int shm_create(struct shm *shm, const char *name, size_t bytes, enum shm_seal seal);
/*
 * Maps a memfd that came from elsewhere, after checking with fstat and F_GET_SEALS that it has at
 * least `bytes` and cannot shrink. MADV_DONTFORK and DONTDUMP. -EPROTO: it lacks that.
 */
int shm_map(int fd, size_t bytes, int writable, void **out);
void shm_unmap(void *map, size_t bytes);
/* Unmaps and closes; a zeroed struct is fine. */
void shm_fini(struct shm *shm);

#endif
