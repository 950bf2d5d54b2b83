/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hello.c: finds the socket, says HELLO, maps what comes with the welcome, registers formats.
 *
 * Only "nobody is there" (ENOENT, ECONNREFUSED) makes the next path be tried: a daemon that
 * refuses has decided. What the welcome says is checked before anything is mapped by it.
 */
#include "ipc/client/hello.h"
#include "ipc/client/ask.h"
#include <base/bits.h>
#include <base/log.h>
#include <base/units.h>
#include <errno.h>
#include <fcntl.h>
#include <ipc/shm.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HELLO_PATH_BYTES 256
#define HELLO_RETRY_MS 5
#define HELLO_CREDITS 256u
#define HELLO_LEASES 1024u
#define HELLO_IN_BYTES (8u << 20)
#define HELLO_OUT_BYTES (4u << 20)

/* A full backlog is a daemon that is busy: it is asked again until the time is over. */
static int hello_connect_path(struct kvd *k, const char *path, uint64_t deadline_ns)
{
	int r;

	while ((r = sock_connect(path, &k->sock)) == -EAGAIN && units_now_ns() < deadline_ns)
		poll(NULL, 0, HELLO_RETRY_MS);
	return r == -EAGAIN ? -ETIMEDOUT : r;
}

static bool hello_nobody(int r)
{
	return r == -ENOENT || r == -ECONNREFUSED || r == -ENOTDIR;
}

static int hello_connect_any(struct kvd *k, uint64_t deadline_ns, char *path, size_t size)
{
	int r = -ENOENT;

	for (uint32_t nth = 0;; nth++) {
		char candidate[HELLO_PATH_BYTES];
		int found = sock_candidate_path(nth, candidate, sizeof(candidate));
		if (found == -ENOENT)
			return r;
		/* A folder that is not to be trusted is passed over. */
		if (found < 0)
			continue;
		int now = hello_connect_path(k, candidate, deadline_ns);
		/* The first path is the one to name when nobody is anywhere. */
		if (nth == 0 || !hello_nobody(now)) {
			r = now;
			snprintf(path, size, "%s", candidate);
		}
		if (!hello_nobody(now))
			return now;
	}
}

int hello_connect(struct kvd *k, const struct kvd_options *o)
{
	uint64_t deadline_ns = units_now_ns() + k->timeout_ns;
	char path[HELLO_PATH_BYTES] = "";
	int r;

	if (k->sock >= 0) {
		int flags = fcntl(k->sock, F_GETFD);
		return flags < 0 || fcntl(k->sock, F_SETFD, flags | FD_CLOEXEC) < 0 ? -errno : 0;
	}
	if (o->socket_path) {
		snprintf(path, sizeof(path), "%s", o->socket_path);
		r = hello_connect_path(k, o->socket_path, deadline_ns);
	} else {
		r = hello_connect_any(k, deadline_ns, path, sizeof(path));
	}
	if (hello_nobody(r))
		return error_set(r,
				 "no kvd answers at %s: start one there, or name its socket "
				 "with --socket or KVD_SOCKET",
				 path);
	if (r == -EACCES)
		return error_set(r, "no right to connect to %s: ask for the group of the socket",
				 path);
	return r < 0 ? error_set(r, "cannot connect to %s: %s", path, strerrordesc_np(-r)) : 0;
}

int kvd_socket_path(const char *socket_path, char *out, size_t size)
{
	if (!socket_path)
		return sock_default_path(0, out, size);
	int length = snprintf(out, size, "%s", socket_path);
	return length < 0 || (size_t)length >= size ? -ENAMETOOLONG : 0;
}

static uint32_t hello_or(uint32_t value, uint32_t otherwise)
{
	return value ? value : otherwise;
}

/* Whoever brings map operations answers for what they can map. */
static uint64_t hello_features(const struct kvd_options *o)
{
	uint64_t gpu = KVD_FEATURE_CUDA_IPC | KVD_FEATURE_CUDA_VMM;

	return KVD_FEATURE_HOST_SLABS | (o->map_ops ? gpu : 0);
}

static int hello_fill(const struct kvd_options *o, struct kvd_hello *out)
{
	uint32_t credits = hello_or(o->credits, HELLO_CREDITS);

	credits = BITS_MAX(BITS_MIN(credits, KVD_CREDITS_MAX), KVD_CREDITS_MIN);
	*out = (struct kvd_hello){
		.magic = KVD_ABI_MAGIC,
		.major = KVD_ABI_MAJOR,
		.minor = KVD_ABI_MINOR,
		.features = hello_features(o),
		.flags = o->hello_flags,
		.credits = (uint32_t)bits_pow2_up(credits),
		.leases_max = BITS_MIN(hello_or(o->leases_max, HELLO_LEASES), KVD_LEASES_MAX),
		.in_area_bytes = hello_or(o->in_area_bytes, HELLO_IN_BYTES),
		.out_area_bytes = hello_or(o->out_area_bytes, HELLO_OUT_BYTES),
		.secret_bytes = (uint32_t)o->secret_bytes,
	};
	if (o->secret_bytes > sizeof(out->secret) || (o->secret_bytes && !o->secret))
		return error_set(-EINVAL, "a secret has at most %zu bytes", sizeof(out->secret));
	if (o->space && strlen(o->space) >= sizeof(out->space))
		return error_set(-EINVAL, "the name of a namespace has at most %zu bytes",
				 sizeof(out->space) - 1);
	if (o->secret_bytes)
		memcpy(out->secret, o->secret, o->secret_bytes);
	snprintf(out->space, sizeof(out->space), "%s", o->space ? o->space : "");
	snprintf(out->name, sizeof(out->name), "%s",
		 o->name ? o->name : program_invocation_short_name);
	return 0;
}

/* The words and the result of a refusal. */
static int hello_refused(int32_t result, struct kvd_welcome *w, size_t bytes)
{
	char text[sizeof(w->message)] = "";

	if (bytes >= KVD_WELCOME_BYTES_MIN)
		log_safe(w->message, sizeof(w->message), text, sizeof(text));
	if (result == -EBADMSG ||
	    (bytes >= KVD_WELCOME_BYTES_MIN && w->major && w->major != KVD_ABI_MAJOR))
		return error_set(-EPROTO, "kvd speaks another version: %s",
				 text[0] ? text : "update the older side");
	if (result >= 0)
		return error_set(-EPROTO, "kvd's welcome makes no sense");
	return error_set(result, "kvd refuses: %s", text[0] ? text : strerrordesc_np(-result));
}

static bool hello_welcome_ok(const struct kvd_welcome *w, size_t bytes)
{
	return bytes >= KVD_WELCOME_BYTES_MIN && w->magic == KVD_ABI_MAGIC &&
	       w->major == KVD_ABI_MAJOR && w->nonce != 0;
}

static int hello_map(struct kvd *k, const struct kvd_welcome *w, const int *fds)
{
	void *map;

	if (w->leases_max < 2 || w->leases_max > KVD_LEASES_MAX || w->credits > KVD_CREDITS_MAX)
		return -EPROTO;
	size_t bytes = ring_bytes(w->credits, w->in_area_bytes, w->out_area_bytes);
	int r = shm_map(fds[KVD_FD_RINGS], bytes, 1, &map);
	if (r < 0)
		return r;
	k->rings_map = map;
	k->rings_bytes = bytes;
	r = ring_init_client(&k->ring, map, bytes, w);
	if (r < 0)
		return r;
	r = shm_map(fds[KVD_FD_LEASES], w->leases_max * sizeof(struct kvd_lease_row), 0, &map);
	if (r < 0)
		return r;
	k->rows = map;
	k->row_count = w->leases_max;
	return 0;
}

/* Keeps the bells, closes the rest: maps outlive their descriptors. */
static int hello_take(struct kvd *k, const struct kvd_welcome *w, int *fds)
{
	int r = 0;

	for (uint32_t i = 0; i < KVD_FDS_MAX; i++)
		if (fds[i] < 0)
			r = -EPROTO;
	if (r == 0)
		r = hello_map(k, w, fds);
	if (r < 0)
		return error_set(r, "cannot map what kvd sent: %s", strerrordesc_np(-r));
	k->bell_to_kvd = fds[KVD_FD_TO_KVD];
	k->bell_to_client = fds[KVD_FD_TO_CLIENT];
	fds[KVD_FD_TO_KVD] = fds[KVD_FD_TO_CLIENT] = -1;
	k->ring.bell_to_kvd = k->bell_to_kvd;
	k->ring.bell_to_client = k->bell_to_client;
	/* Its own end of each: the daemon's is another open file. */
	(void)fcntl(k->bell_to_client, F_SETFL, O_NONBLOCK);
	(void)fcntl(k->bell_to_kvd, F_SETFL, O_NONBLOCK);
	return 0;
}

/* A kvd of minor 0 says nothing of devices, and has the host. */
static void hello_devices(struct kvd *k, const struct kvd_welcome *w, size_t bytes)
{
	k->device_count = 1;
	k->devices[0] = (struct kvd_device){.kind = KVD_SLAB_HOST, .name = "host"};
	if (bytes < sizeof(*w) || w->device_count == 0 || w->device_count > KVD_DEVICES_MAX)
		return;
	k->device_count = w->device_count;
	for (uint32_t i = 0; i < w->device_count; i++) {
		struct kvd_device *d = &k->devices[i];
		*d = w->devices[i];
		log_safe(w->devices[i].name, sizeof(d->name), d->name, sizeof(d->name));
	}
}

uint32_t kvd_devices(const struct kvd *k, struct kvd_device *out, uint32_t max)
{
	memcpy(out, k->devices, BITS_MIN(max, k->device_count) * sizeof(*out));
	return k->device_count;
}

static void hello_daemon_pid(struct kvd *k)
{
	struct ucred cred;
	socklen_t size = sizeof(cred);

	if (getsockopt(k->sock, SOL_SOCKET, SO_PEERCRED, &cred, &size) == 0)
		k->daemon_pid = (uint32_t)cred.pid;
}

int hello_say(struct kvd *k, const struct kvd_options *o)
{
	struct kvd_req req = {.op = KVD_OP_HELLO,
			      .in_bytes = sizeof(struct kvd_hello),
			      .out_bytes = sizeof(struct kvd_welcome)};
	struct kvd_welcome w = {0};
	struct kvd_hello hello;
	struct kvd_rep rep;
	int fds[KVD_FDS_MAX];

	k->admin = o->hello_flags & KVD_HELLO_ADMIN;
	int r = hello_fill(o, &hello);
	if (r == 0)
		r = ask_socket(k, &req, &hello, &rep, &w, sizeof(w), fds);
	explicit_bzero(hello.secret, sizeof(hello.secret));
	if (r != 0)
		return r;
	if (rep.result != 0 || !hello_welcome_ok(&w, rep.out_bytes))
		r = hello_refused(rep.result, &w, rep.out_bytes);
	else if (!k->admin)
		r = hello_take(k, &w, fds);
	for (uint32_t i = 0; i < KVD_FDS_MAX; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	k->nonce = w.nonce;
	k->group = w.group;
	k->session = w.session;
	hello_devices(k, &w, rep.out_bytes);
	hello_daemon_pid(k);
	return r;
}
