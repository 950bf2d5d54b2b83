/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thin layer over epoll, level triggered. A source that is removed while a batch is handled gets
 * fd -1 and its event of this batch is dropped; who embeds it frees itself only after the turn.
 * One thread.
 */
#include "kvd/loop.h"
#include "base/units.h"
#include <errno.h>
#include <unistd.h>

int loop_init(struct loop *l)
{
	l->fd = epoll_create1(EPOLL_CLOEXEC);
	return l->fd < 0 ? -errno : 0;
}

void loop_fini(struct loop *l)
{
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
}

int loop_add(struct loop *l, struct loop_source *source, int fd, uint32_t events,
	     void (*ready)(struct loop_source *source, uint32_t events))
{
	struct epoll_event ev = {.events = events, .data.ptr = source};

	if (epoll_ctl(l->fd, EPOLL_CTL_ADD, fd, &ev) < 0)
		return -errno;
	source->fd = fd;
	source->ready = ready;
	return 0;
}

void loop_change(struct loop *l, struct loop_source *source, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = source};

	if (source->ready && source->fd >= 0)
		(void)epoll_ctl(l->fd, EPOLL_CTL_MOD, source->fd, &ev);
}

void loop_remove(struct loop *l, struct loop_source *source)
{
	if (source->ready && source->fd >= 0)
		(void)epoll_ctl(l->fd, EPOLL_CTL_DEL, source->fd, NULL);
	source->fd = -1;
}

int loop_wait(struct loop *l, uint64_t timeout_ns)
{
	struct timespec ts = {.tv_sec = (time_t)(timeout_ns / UNITS_NS_PER_S),
			      .tv_nsec = (long)(timeout_ns % UNITS_NS_PER_S)};
	int n = epoll_pwait2(l->fd, l->batch, LOOP_BATCH, timeout_ns == UINT64_MAX ? NULL : &ts,
			     NULL);

	l->batch_count = n < 0 ? 0 : n;
	return l->batch_count;
}

void loop_dispatch(struct loop *l)
{
	for (int i = 0; i < l->batch_count; i++) {
		struct loop_source *source = l->batch[i].data.ptr;
		if (source->fd >= 0)
			source->ready(source, l->batch[i].events);
	}
	l->batch_count = 0;
}
