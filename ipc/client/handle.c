/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handle.c: from kvd_open() to kvd_close().
 *
 * A handle belongs to the process that opened it. Its maps are not inherited by a fork, and an OS
 * page that the kernel wipes in a child is how every call notices: cheaper than asking for the pid.
 */
#include "ipc/client/client.h"
#include "ipc/client/hello.h"
#include "ipc/client/hold.h"
#include "ipc/client/request.h"
#include "ipc/client/slabs.h"
#include <base/bits.h>
#include <base/units.h>
#include <errno.h>
#include <ipc/shm.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#define HANDLE_TIMEOUT_NS (5 * UNITS_NS_PER_S)
#define HANDLE_BYE_NS UNITS_NS_PER_S
#define HANDLE_SPIN_US 20

static int handle_fork_guard(struct kvd *k)
{
	size_t size = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *page =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return -errno;
	k->same_process = page;
	if (madvise(page, size, MADV_WIPEONFORK) < 0)
		return -errno;
	page[0] = 1;
	return 0;
}

/* How long to spin: nothing where the daemon could not run meanwhile. */
static uint64_t handle_spin_ns(void)
{
	const char *text = getenv("KVD_SPIN_US");

	if (text && text[0])
		return BITS_MIN(strtoull(text, NULL, 10), 1000000ull) * UNITS_NS_PER_US;
	return sysconf(_SC_NPROCESSORS_ONLN) <= 2 ? 0 : HANDLE_SPIN_US * UNITS_NS_PER_US;
}

static struct kvd *handle_new(const struct kvd_options *options)
{
	struct kvd *k = calloc(1, sizeof(*k));

	if (!k)
		return NULL;
	k->sock = k->wake_fd = k->bell_to_kvd = k->bell_to_client = -1;
	list_init(&k->requests_free);
	list_init(&k->events);
	list_init(&k->leases);
	list_init(&k->leases_dead);
	k->timeout_ns = options->timeout_ns ? options->timeout_ns : HANDLE_TIMEOUT_NS;
	k->spin_ns = handle_spin_ns();
	slabs_init(k, options->map_ops);
	return k;
}

static void handle_free_leases(struct list_link *head)
{
	while (!list_empty(head))
		hold_free(CONTAINER_OF(head->next, struct kvd_lease, link));
}

static void handle_close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

/* Takes down whatever is there. In a child the maps are the parent's and not here. */
static void handle_free(struct kvd *k)
{
	bool mapped = k->same_process && *k->same_process;

	slabs_fini(k, mapped);
	handle_free_leases(&k->leases);
	handle_free_leases(&k->leases_dead);
	for (uint32_t i = 0; i < k->format_count; i++)
		free(k->formats[i].blocks);
	request_fini(k);
	if (mapped) {
		shm_unmap(k->rings_map, k->rings_bytes);
		shm_unmap((void *)(uintptr_t)k->rows, k->row_count * sizeof(*k->rows));
	}
	if (k->same_process)
		munmap((void *)(uintptr_t)k->same_process, (size_t)sysconf(_SC_PAGESIZE));
	handle_close_fd(k->sock);
	handle_close_fd(k->bell_to_kvd);
	handle_close_fd(k->bell_to_client);
	handle_close_fd(k->wake_fd);
	free(k);
}

int kvd_open(const struct kvd_options *options, struct kvd **out)
{
	static const struct kvd_options defaults;
	const struct kvd_options *o = options ? options : &defaults;
	struct kvd *k = handle_new(o);
	int r;

	if (!k) {
		handle_close_fd(o->socket_fd > 0 ? o->socket_fd : -1);
		return error_set(-ENOMEM, "out of memory");
	}
	k->sock = o->socket_fd > 0 ? o->socket_fd : -1;
	r = handle_fork_guard(k);
	if (r == 0) {
		k->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		r = k->wake_fd < 0 ? -errno : 0;
	}
	if (r == 0)
		r = hello_connect(k, o);
	if (r == 0)
		r = hello_say(k, o);
	if (r == 0 && !k->admin)
		r = request_init(k);
	if (r != 0) {
		handle_free(k);
		return r == KVD_GONE ? -EPIPE : r;
	}
	*out = k;
	return 0;
}

static void handle_say_bye(struct kvd *k)
{
	struct kvd_rep rep;
	struct request *rq = request_new(k, KVD_OP_BYE, REQUEST_LAST, REQUEST_SYNC);

	if (!rq)
		return;
	k->timeout_ns = BITS_MIN(k->timeout_ns, HANDLE_BYE_NS);
	request_send(k, rq);
	(void)request_wait(k, rq, &rep);
}

/* After BYE kvd may destroy a slab at once, which nobody must still have mapped then. */
void kvd_close(struct kvd *k)
{
	if (!k)
		return;
	if (client_enter_ring(k) == 0) {
		slabs_fini(k, true);
		k->slabs_ended = true;
		handle_say_bye(k);
	}
	handle_free(k);
}
