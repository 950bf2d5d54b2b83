/* SPDX-License-Identifier: Apache-2.0 */
/* The one epoll set. Everything that can wake the daemon is a source in it. */
#ifndef KVD_LOOP_H
#define KVD_LOOP_H

#include <stdint.h>
#include <sys/epoll.h>

#define LOOP_BATCH 64

struct loop {
	int fd;
	int batch_count;
	struct epoll_event batch[LOOP_BATCH];
};

/*
 * Embedded in what it belongs to, which must outlive the turn in which the source is removed: the
 * batch of events may name it once more (`fd` is -1 then and the event is dropped).
 */
struct loop_source {
	int fd;
	/* events: EPOLLIN, EPOLLHUP, ... */
	void (*ready)(struct loop_source *source, uint32_t events);
};

int loop_init(struct loop *l);
void loop_fini(struct loop *l);
/* 0 or -errno. fd stays the caller's. */
int loop_add(struct loop *l, struct loop_source *source, int fd, uint32_t events,
	     void (*ready)(struct loop_source *source, uint32_t events));
void loop_change(struct loop *l, struct loop_source *source, uint32_t events);
/* A source that was never added is fine. */
void loop_remove(struct loop *l, struct loop_source *source);
/* Waits at most timeout_ns (UINT64_MAX: for ever) for a batch of events. Their number. */
int loop_wait(struct loop *l, uint64_t timeout_ns);
/* Calls those of the batch who are ready. Apart from waiting, so that the caller can look at the
 * clock in between. */
void loop_dispatch(struct loop *l);

#endif
