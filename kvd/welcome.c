/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HELLO. Checks come in the order in which a person would want to hear about them: does it speak
 * our language, may this user come, to this namespace, is there room. Each refusal says what to do.
 * A wrong secret and an unknown namespace sound the same to the client, so that names cannot be
 * guessed; the log knows.
 *
 * Then the session is opened in the core, its memory made, and everything sent in one packet. What
 * fails after the core knows the session ends it like any other.
 */
#include "kvd/welcome.h"
#include "base/bits.h"
#include "base/log.h"
#include "base/units.h"
#include "kvd/crash.h"
#include "kvd/peer.h"
#include "kvd/serve.h"
#include "kvd/server.h"
#include <errno.h>
#include <ipc/msg.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define WELCOME_AREA_MIN (64u << 10)
#define WELCOME_AREA_MAX (16u << 20)

static void welcome_send(struct peer *p, int result, const struct kvd_welcome *welcome,
			 const int *fds, uint32_t fd_count)
{
	struct kvd_req req;
	struct kvd_rep rep = {.op = KVD_OP_HELLO, .result = result};

	memcpy(&req, p->packet.head, sizeof(req));
	rep.tag = req.tag;
	/* An older client asks for less, and gets what it knows. */
	rep.out_bytes = (uint32_t)BITS_MAX(BITS_MIN(req.out_bytes, sizeof(*welcome)),
					   KVD_WELCOME_BYTES_MIN);
	int r = sock_send(p->socket.fd, &rep, welcome, rep.out_bytes, fds, fd_count);
	if (r < 0)
		peer_break(p, r, "cannot be sent its welcome");
}

uint64_t welcome_features(const struct server *s)
{
	static const uint64_t of_kind[] = {[KVD_SLAB_HOST] = KVD_FEATURE_HOST_SLABS,
					   [KVD_SLAB_CUDA_IPC] = KVD_FEATURE_CUDA_IPC,
					   [KVD_SLAB_CUDA_VMM] = KVD_FEATURE_CUDA_VMM};

	return of_kind[s->devmem.ops->kind];
}

static struct kvd_welcome welcome_new(const struct server *s)
{
	return (struct kvd_welcome){
		.magic = KVD_ABI_MAGIC,
		.major = KVD_ABI_MAJOR,
		.minor = KVD_ABI_MINOR,
		.features = welcome_features(s),
		.nonce = s->nonce,
		.spin_us = s->spin_us,
	};
}

void welcome_refuse(struct peer *p, int error, const char *message)
{
	struct kvd_welcome welcome = welcome_new(p->server);

	snprintf(welcome.message, sizeof(welcome.message), "%s", message);
	welcome_send(p, error, &welcome, NULL, 0);
	snprintf(p->refusal, sizeof(p->refusal), "refused: %s", message);
	peer_break(p, error, p->refusal);
}

static bool welcome_uid_trusted(uid_t uid)
{
	return uid == 0 || uid == geteuid();
}

static bool welcome_uid_allowed(const struct options *o, uid_t uid)
{
	if (o->uid_count == 0 || welcome_uid_trusted(uid))
		return true;
	for (uint32_t i = 0; i < o->uid_count; i++)
		if (o->uids[i] == uid)
			return true;
	return false;
}

/* Reads the packet into *out. 0, or refused. */
static int welcome_read(struct peer *p, struct kvd_hello *out)
{
	char message[256];
	struct kvd_req req;

	memcpy(&req, p->packet.head, sizeof(req));
	int r = msg_hello(p->packet.payload, p->packet.payload_bytes, out);
	if (req.op != KVD_OP_HELLO || (r < 0 && r != -EBADMSG)) {
		welcome_refuse(p, -EPROTO,
			       "the first message is no HELLO: only libkvd speaks here");
		return -EPROTO;
	}
	if (r == 0)
		return 0;
	snprintf(message, sizeof(message),
		 "this kvd (%s) speaks protocol %u, the client %u: use the libkvd that came with "
		 "this kvd, or update the older of the two",
		 KVD_VERSION, KVD_ABI_MAJOR, out->major);
	welcome_refuse(p, -EPROTO, message);
	return -EPROTO;
}

static uint32_t welcome_sessions_of(const struct server *s, uid_t uid)
{
	uint32_t n = 0;

	LIST_FOR_EACH (l, &s->peers) {
		const struct peer *p = CONTAINER_OF(l, struct peer, link);
		n += p->session >= 0 && !p->admin && p->who.uid == uid;
	}
	return n;
}

/* May this process come in at all, and is there room? 0, or refused. */
static int welcome_admit(struct peer *p, const struct kvd_hello *hello)
{
	const struct server *s = p->server;
	const struct options *o = s->options;
	char message[256] = "";
	int r = 0;

	if (!welcome_uid_allowed(o, p->who.uid)) {
		r = -EACCES;
		snprintf(message, sizeof(message),
			 "user %u may not use this kvd: add --allow-uid %u", p->who.uid,
			 p->who.uid);
	} else if ((hello->flags & KVD_HELLO_ADMIN) && !welcome_uid_trusted(p->who.uid)) {
		r = -EPERM;
		snprintf(message, sizeof(message),
			 "admin requests are for root and the daemon's user (uid %u)", geteuid());
	} else if (!(hello->flags & KVD_HELLO_ADMIN) && s->session_count >= o->sessions_max) {
		r = -EUSERS;
		snprintf(message, sizeof(message),
			 "%u sessions are open, --sessions-max allows no more", s->session_count);
	} else if (!(hello->flags & KVD_HELLO_ADMIN) && !welcome_uid_trusted(p->who.uid) &&
		   welcome_sessions_of(s, p->who.uid) >= s->uid_sessions_max) {
		r = -EUSERS;
		snprintf(message, sizeof(message),
			 "user %u has %u sessions, --uid-sessions-max allows no more", p->who.uid,
			 s->uid_sessions_max);
	}
	if (r < 0)
		welcome_refuse(p, r, message);
	return r;
}

/* The number of the namespace, or refused. An admin that names none needs none. */
static int welcome_space(struct peer *p, const struct kvd_hello *hello)
{
	const char *name = hello->space[0] ? hello->space : "default";
	char safe[KVD_NAME_MAX], message[256];
	int r = core_space_find(p->server->core, name, hello->secret, hello->secret_bytes);

	if (r < 0 && (hello->flags & KVD_HELLO_ADMIN) && !hello->space[0])
		return 0;
	if (r >= 0)
		return r;
	log_safe(name, sizeof(hello->space), safe, sizeof(safe));
	log_debug("welcome", "pid %d uid %u: namespace '%s': %s", p->who.pid, p->who.uid, safe,
		  r == -ENOENT ? "there is none of that name" : "wrong secret");
	snprintf(message, sizeof(message),
		 "namespace '%s': unknown, or not with this secret; see --namespace of the daemon "
		 "and the secret file of the client",
		 safe);
	welcome_refuse(p, -EACCES, message);
	return -EACCES;
}

static int welcome_open(struct peer *p, const struct kvd_hello *hello, uint32_t space,
			uint32_t credits)
{
	struct server *s = p->server;
	struct core_session_args args = {
		.space = space,
		.pid = (uint32_t)p->who.pid,
		.uid = p->who.uid,
		.leases_max = p->leases_max,
		.waiting_max = credits / 2,
		.process = p->who.identity,
		.group = hello->group,
		.admin = p->admin,
		.quiesced = hello->flags & KVD_HELLO_QUIESCED,
		.name = p->name,
	};
	int r = pidwatch_join(s, &p->who, &p->process);
	if (r < 0) {
		welcome_refuse(p, r, "too many processes are watched: try again later");
		return r;
	}
	int session = core_session_open(s->core, &args, s->now_ns);
	if (session < 0) {
		welcome_refuse(p, session,
			       session == -ENOENT ? "there is no such session group any more"
						  : "no session is free: try again later");
		pidwatch_leave(p->process, true);
		p->process = NULL;
		return session;
	}
	/* The core took its word, and so do the maps. */
	if (args.quiesced)
		devmem_process_quiet(&s->devmem, args.process);
	p->session = session;
	s->by_session[session] = p;
	s->session_count += !p->admin;
	s->changed = true;
	return 0;
}

static uint32_t welcome_area(uint32_t wanted)
{
	return (uint32_t)bits_align_up(
		BITS_MIN(BITS_MAX(wanted, WELCOME_AREA_MIN), WELCOME_AREA_MAX), 4096);
}

/* Rings, lease table, doorbells. */
static int welcome_memory(struct peer *p, const struct kvd_hello *hello, uint32_t credits)
{
	uint32_t in = welcome_area(hello->in_area_bytes), out = welcome_area(hello->out_area_bytes);
	int r = shm_create(&p->rings, "kvd-rings", ring_bytes(credits, in, out), SHM_SEAL_SIZE);

	if (r == 0)
		r = shm_create(&p->leases, "kvd-leases",
			       p->leases_max * sizeof(struct kvd_lease_row), SHM_SEAL_READ_ONLY);
	if (r < 0)
		return r;
	ring_init_server(&p->ring, p->rings.map, credits, in, out);
	p->rows = p->leases.map;
	r = ring_bell_new(&p->client_bells[0], &p->ring.bell_to_kvd);
	if (r == 0)
		r = ring_bell_new(&p->ring.bell_to_client, &p->client_bells[1]);
	if (r < 0)
		return r;
	core_session_show(p->server->core, (uint32_t)p->session);
	return loop_add(&p->server->loop, &p->bell, p->ring.bell_to_kvd, EPOLLIN, serve_bell);
}

static void welcome_answer(struct peer *p)
{
	struct kvd_welcome welcome = welcome_new(p->server);
	int fds[4] = {p->rings.fd, p->leases.fd, p->client_bells[0], p->client_bells[1]};

	welcome.device_count = devmem_list(&p->server->devmem, welcome.devices);
	welcome.group = core_session_group(p->server->core, (uint32_t)p->session);
	welcome.session = (uint32_t)p->session;
	welcome.credits = p->ring.credits;
	welcome.leases_max = p->admin ? 0 : p->leases_max;
	welcome.in_area_bytes = p->ring.in_area_bytes;
	welcome.out_area_bytes = p->ring.out_area_bytes;
	CRASH_POINT(hello_checked);
	welcome_send(p, 0, &welcome, fds, p->admin ? 0 : 4);
	peer_close_client_bells(p);
	CRASH_POINT(welcome_sent);
}

static void welcome_log(const struct peer *p, const struct kvd_hello *hello)
{
	log_write(p->admin ? LOG_DEBUG : LOG_INFO, "peer",
		  "session %d: %s, pid %d uid %u: opened in namespace %s, %u credits, %u leases",
		  p->session, p->name, p->who.pid, p->who.uid,
		  hello->space[0] ? hello->space : "default", p->ring.credits, p->leases_max);
}

static void welcome_admitted(struct peer *p, const struct kvd_hello *hello)
{
	int space = welcome_space(p, hello);

	if (space < 0)
		return;
	p->admin = hello->flags & KVD_HELLO_ADMIN;
	p->features = hello->features;
	p->leases_max = BITS_MIN(BITS_MAX(hello->leases_max, 2), KVD_LEASES_MAX);
	log_safe(hello->name, sizeof(hello->name), p->name, sizeof(p->name));
	uint32_t credits = (uint32_t)bits_pow2_up(
		BITS_MIN(BITS_MAX(hello->credits, KVD_CREDITS_MIN), KVD_CREDITS_MAX));
	if (welcome_open(p, hello, (uint32_t)space, credits) < 0)
		return;
	if (!p->admin && welcome_memory(p, hello, credits) < 0) {
		welcome_refuse(p, -ENOMEM, "no memory or descriptors for another session");
		return;
	}
	welcome_log(p, hello);
	welcome_answer(p);
}

void welcome_handle(struct peer *p)
{
	struct kvd_hello hello;

	if (welcome_read(p, &hello) == 0 && welcome_admit(p, &hello) == 0)
		welcome_admitted(p, &hello);
	/* The secret was in there. */
	explicit_bzero(&hello, sizeof(hello));
	explicit_bzero(p->packet.payload, sizeof(hello));
}
