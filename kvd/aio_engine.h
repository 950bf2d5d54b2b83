/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What aio.c wants of an engine: system calls are begun, perhaps cancelled, and come back once.
 * An engine knows nothing of queues, deadlines or short I/O. Tests bring engines of their own.
 */
#ifndef KVD_AIO_ENGINE_H
#define KVD_AIO_ENGINE_H

#include "base/list.h"
#include "kvd/aio.h"

/* One system call. Between begin() and reap() it belongs to the engine. */
struct aio_io {
	struct list_link link; /* the engine's */
	int fd;
	bool write;
	uint64_t offset;
	const struct iovec *vecs;
	uint32_t vec_count;
	int result; /* of the call: bytes, or -errno */
};

/* All are called by one thread. */
struct aio_engine {
	const char *name;
	/*
	 * At most depth calls will be under way at once. 0; or -errno, and `why` says in words
	 * what is wrong.
	 */
	int (*open)(void **out, uint32_t depth, char *why, size_t size);
	/* Nothing is under way. */
	void (*close)(void *engine);
	/* Readable when reap() has something. */
	int (*fd)(const void *engine);
	/* aio_register(); may be NULL. */
	int (*adopt)(void *engine, const int *fds, uint32_t count);
	/* Takes the call; it need not go out before flush(). */
	void (*begin)(void *engine, struct aio_io *io);
	/* 0; or -errno: some calls have not gone out, and it is to be called again. */
	int (*flush)(void *engine);
	/* Asks for what was begun to end early. It comes back by reap(), if need be much later. */
	void (*cancel)(void *engine, struct aio_io *io);
	/* The next that came back, or NULL. */
	struct aio_io *(*reap)(void *engine);
};

extern const struct aio_engine aio_uring_engine;
extern const struct aio_engine aio_threads_engine;

/* aio_new() with an engine given. */
int aio_new_with(struct aio **out, const struct aio_engine *engine, uint32_t depth, char *why,
		 size_t size);

#endif
