/* SPDX-License-Identifier: Apache-2.0 */
/* See mem_peer.h. The peer's socket is descriptor 3; it ends when that hangs up. */
#include "tests/cudasim/tests/mem_peer.h"
#include "base/bits.h"
#include "base/units.h"
#include "tests/test.h"
#include <errno.h>
#include <fcntl.h>
#include <ipc/sock.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PEER_FD 3
#define PEER_SLOTS 16
#define PEER_HOST_BYTES (256 * UNITS_KIB)
#define PEER_WAIT_NS (60 * UNITS_NS_PER_S)

/* --- in the peer --------------------------------------------------------------------------------
 */

static struct {
	const struct device_ops *ops;
	struct device *dev;
	struct peer_slot {
		struct device_slab slab; /* our own, or */
		struct device_view view; /* another's */
		struct kvd_slab_wire wire;
	} slots[PEER_SLOTS];
	uint32_t slot_count;
	uint8_t *host;
	uint64_t word; /* what put and get copy from and to */
} me;

static uint64_t peer_read(const struct peer_slot *s)
{
	return s->slab.address ? s->slab.address : s->view.read + s->wire.base_offset;
}

static uint64_t peer_write(const struct peer_slot *s)
{
	return s->slab.address ? s->slab.address : s->view.write + s->wire.base_offset;
}

static int peer_copy(uint64_t to, uint64_t from, uint64_t bytes)
{
	uint64_t ticket;
	int r = me.ops->copy_start(me.dev, to, from, bytes, &ticket);

	while (r == 0 && (r = me.ops->copy_poll(me.dev, ticket)) == 0)
		sched_yield();
	return r < 0 ? r : 0;
}

static int peer_alloc(const struct mem_ask *a, struct mem_answer *out)
{
	struct peer_slot *s = &me.slots[out->slot = me.slot_count];
	int r = me.ops->slab_alloc(me.dev, a->bytes, &s->slab);

	if (r == 0)
		r = me.ops->slab_export(me.dev, &s->slab, &s->wire, &out->fd);
	out->wire = s->wire;
	me.slot_count += r == 0;
	return r;
}

static int peer_import(const struct mem_ask *a, int fd, struct mem_answer *out)
{
	struct peer_slot *s = &me.slots[out->slot = me.slot_count];
	int r = me.ops->slab_import(me.dev, &a->wire, fd, &s->view);

	s->wire = a->wire;
	out->view = s->view;
	me.slot_count += r == 0;
	return r;
}

static int peer_queue(const struct mem_ask *a, struct mem_answer *out)
{
	uint64_t at = peer_write(&me.slots[a->slot]), ticket = 0;
	int r = 0;

	for (uint64_t i = 0; i < a->value && r == 0; i++) {
		r = me.ops->copy_start(me.dev, at + UNITS_KIB, at, UNITS_KIB, &ticket);
		out->value = ticket;
	}
	return r;
}

static int peer_pinned(const struct mem_ask *a, struct mem_answer *out)
{
	int r = peer_copy((uintptr_t)me.host, peer_read(&me.slots[a->slot]) + a->offset, a->bytes);

	for (uint64_t i = 0; i < a->bytes; i++)
		out->value += me.host[i];
	return r;
}

static int peer_pin(const struct mem_ask *a)
{
	if (!a->flag)
		return me.ops->pin(me.dev, me.host + a->offset, a->bytes);
	me.ops->unpin(me.dev, me.host + a->offset);
	return 0;
}

static int peer_obey(const struct mem_ask *a, int fd, struct mem_answer *out)
{
	struct peer_slot *s = &me.slots[a->slot];

	switch ((enum mem_op)a->op) {
	case MEM_FIND:
		me.ops = device_find(a->name, out->words, sizeof(out->words));
		return me.ops ? 0 : -ENODEV;
	case MEM_COUNT:
		return me.ops->count(out->words, sizeof(out->words));
	case MEM_DESCRIBE:
		return me.ops->describe(a->index, &out->info, out->words, sizeof(out->words));
	case MEM_OPEN:
		return me.ops->open(a->index, &me.dev, out->words, sizeof(out->words));
	case MEM_ALLOC:
		return peer_alloc(a, out);
	case MEM_FREE:
		me.ops->slab_free(me.dev, &s->slab);
		return 0;
	case MEM_IMPORT:
		return peer_import(a, fd, out);
	case MEM_UNMAP:
		me.ops->slab_unmap(me.dev, &s->view);
		return 0;
	case MEM_PUT:
		me.word = a->value;
		return peer_copy((a->flag ? peer_read(s) : peer_write(s)) + a->offset,
				 (uintptr_t)&me.word, sizeof(me.word));
	case MEM_GET:
		out->r = peer_copy((uintptr_t)&me.word, peer_read(s) + a->offset, sizeof(me.word));
		out->value = me.word;
		return out->r;
	case MEM_FILL:
		return me.ops->fill(me.dev, peer_write(s) + a->offset, (uint8_t)a->value, a->bytes);
	case MEM_PIN:
		return peer_pin(a);
	case MEM_PINNED:
		return peer_pinned(a, out);
	case MEM_QUEUE:
		return peer_queue(a, out);
	case MEM_POLL:
		return me.ops->copy_poll(me.dev, a->value);
	case MEM_GONE:
		return me.ops->process_gone(me.dev, (uint32_t)a->value);
	case MEM_CLOSE:
		me.ops->close(me.dev);
		me.dev = NULL;
		return 0;
	}
	return -EINVAL;
}

static void peer_serve(const struct sock_packet *p)
{
	static const uint8_t head[64];
	struct mem_ask a;
	struct mem_answer answer = {.fd = -1};

	memcpy(&a, p->payload, sizeof(a));
	answer.r = peer_obey(&a, p->fds[0], &answer);
	if (answer.r < 0 && me.dev && !answer.words[0])
		snprintf(answer.words, sizeof(answer.words), "%s", me.ops->failure(me.dev));
	(void)sock_send(PEER_FD, head, &answer, sizeof(answer), &answer.fd, answer.fd >= 0);
	if (p->fd_count)
		close(p->fds[0]);
}

int mem_peer_main(void)
{
	static struct sock_packet p;
	int fd = memfd_create("peer", MFD_CLOEXEC);
	int r = 1;

	if (fd < 0 || ftruncate(fd, PEER_HOST_BYTES) < 0)
		return 1;
	me.host = mmap(NULL, PEER_HOST_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (me.host == MAP_FAILED)
		return 1;
	while (r != 0) {
		(void)sock_wait_readable(PEER_FD, PEER_WAIT_NS);
		r = sock_recv(PEER_FD, &p);
		if (r == 1)
			peer_serve(&p);
		else if (r != -EAGAIN && r < 0)
			return 1;
	}
	if (me.dev)
		me.ops->close(me.dev);
	return 0;
}

/* --- the conductor ------------------------------------------------------------------------------
 */

static void peer_exec(int sock, const char *const settings[])
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 0; settings && settings[i]; i++)
		putenv(strdup(settings[i]));
	if (sock == PEER_FD)
		(void)fcntl(sock, F_SETFD, 0);
	else
		dup2(sock, PEER_FD);
	execl("/proc/self/exe", "peer", "peer", NULL);
	_exit(127);
}

struct mem_peer mem_peer_start(const char *kind, const char *const settings[])
{
	struct mem_ask find = {.op = MEM_FIND};
	struct mem_peer p;
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	p.sock = pair[0];
	p.pid = fork();
	assert_true(p.pid >= 0);
	if (p.pid == 0)
		peer_exec(pair[1], settings);
	close(pair[1]);
	snprintf(find.name, sizeof(find.name), "%s", kind);
	mem_peer_must(&p, &find, -1);
	return p;
}

struct mem_peer mem_peer_open(const char *kind, const char *const settings[])
{
	struct mem_peer p = mem_peer_start(kind, settings);

	mem_peer_must(&p, &(struct mem_ask){.op = MEM_OPEN}, -1);
	return p;
}

struct mem_answer mem_peer_ask(struct mem_peer *p, const struct mem_ask *ask, int fd)
{
	static const uint8_t head[64];
	static struct sock_packet packet;
	struct mem_answer answer;
	int r;

	assert_int_equal(sock_send(p->sock, head, ask, sizeof(*ask), &fd, fd >= 0), 0);
	assert_int_equal(sock_wait_readable(p->sock, PEER_WAIT_NS), 1);
	while ((r = sock_recv(p->sock, &packet)) == -EAGAIN)
		continue;
	if (r != 1)
		fail_msg("a peer has died");
	memcpy(&answer, packet.payload, sizeof(answer));
	answer.fd = packet.fds[0];
	return answer;
}

struct mem_answer mem_peer_must(struct mem_peer *p, const struct mem_ask *ask, int fd)
{
	struct mem_answer answer = mem_peer_ask(p, ask, fd);

	if (answer.r < 0)
		fail_msg("operation %u: %d: %s", ask->op, answer.r, answer.words);
	return answer;
}

int mem_peer_end(struct mem_peer *p)
{
	int status;

	close(p->sock);
	assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void mem_peer_kill(struct mem_peer *p)
{
	kill(p->pid, SIGKILL);
	assert_int_equal(mem_peer_end(p), 128 + SIGKILL);
}
