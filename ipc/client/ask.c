/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ask.c: questions that block until their answer is there.
 *
 * The socket carries only answers to questions that were asked on it, one at a time; what has
 * another tag is the late answer to a question that was given up, and is dropped. Questions on the
 * ring wait among the other replies, which become events meanwhile.
 */
#include "ipc/client/ask.h"
#include "ipc/client/request.h"
#include <base/bits.h>
#include <base/units.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

static void ask_close_fds(struct sock_packet *p)
{
	for (uint32_t i = 0; i < p->fd_count; i++)
		close(p->fds[i]);
	p->fd_count = 0;
}

static uint64_t ask_left_ns(uint64_t deadline_ns)
{
	uint64_t now_ns = units_now_ns();

	return now_ns < deadline_ns ? deadline_ns - now_ns : 0;
}

static int ask_timeout(void)
{
	return error_set(-ETIMEDOUT, "the daemon does not answer");
}

static int ask_send(struct kvd *k, const struct kvd_req *req, const void *in, uint64_t deadline_ns)
{
	int r;

	while ((r = sock_send(k->sock, req, in, req->in_bytes, NULL, 0)) == -EAGAIN) {
		struct pollfd pfd = {.fd = k->sock, .events = POLLOUT};
		uint64_t left_ms = ask_left_ns(deadline_ns) / UNITS_NS_PER_MS;
		if (poll(&pfd, 1, (int)BITS_MIN(left_ms, 1000u)) == 0 && left_ms == 0)
			return ask_timeout();
	}
	return r == -EPIPE ? client_gone(k, "the daemon hung up") : r;
}

/* One packet into k->packet: 1, 0 (none yet), KVD_GONE as -EPIPE. */
static int ask_take(struct kvd *k)
{
	int r = sock_recv(k->sock, &k->packet);

	if (r == 1)
		return 1;
	if (r == -EAGAIN || r == -EINTR)
		return 0;
	client_gone(k, r == 0 ? "the daemon hung up" : "the daemon sent a broken packet");
	return -EPIPE;
}

static int ask_receive(struct kvd *k, uint32_t tag, uint64_t deadline_ns)
{
	struct kvd_rep rep;

	for (;;) {
		int r = ask_take(k);
		if (r < 0)
			return KVD_GONE;
		if (r > 0) {
			memcpy(&rep, k->packet.head, sizeof(rep));
			if (rep.tag == tag)
				return 0;
			ask_close_fds(&k->packet);
			continue;
		}
		r = sock_wait_readable(k->sock, ask_left_ns(deadline_ns));
		if (r <= 0)
			return r < 0 ? r : ask_timeout();
	}
}

int ask_socket(struct kvd *k, const struct kvd_req *req, const void *in, struct kvd_rep *out_rep,
	       void *out, size_t out_size, int *out_fds)
{
	uint64_t deadline_ns = units_now_ns() + k->timeout_ns;
	struct kvd_req mine = *req;

	mine.tag = ++k->sock_tag;
	int r = ask_send(k, &mine, in, deadline_ns);
	if (r == 0)
		r = ask_receive(k, mine.tag, deadline_ns);
	if (r != 0)
		return r;
	memcpy(out_rep, k->packet.head, sizeof(*out_rep));
	size_t bytes = BITS_MIN(k->packet.payload_bytes, (size_t)out_rep->out_bytes);
	bytes = BITS_MIN(bytes, out_size);
	out_rep->out_bytes = (uint32_t)bytes;
	if (bytes)
		memcpy(out, k->packet.payload, bytes);
	if (!out_fds) {
		ask_close_fds(&k->packet);
		return 0;
	}
	for (uint32_t i = 0; i < KVD_FDS_MAX; i++)
		out_fds[i] = i < k->packet.fd_count ? k->packet.fds[i] : -1;
	return 0;
}

int ask_drain(struct kvd *k)
{
	int r;

	while ((r = ask_take(k)) > 0)
		ask_close_fds(&k->packet);
	return r < 0 ? KVD_GONE : 0;
}

int kvd_call(struct kvd *k, const struct kvd_req *req, const void *in, struct kvd_rep *rep,
	     void *out, size_t out_size)
{
	int r = client_enter(k);

	if (r != 0)
		return r;
	struct kvd_req mine = *req;
	mine.out_bytes = (uint32_t)BITS_MIN(out_size, (size_t)KVD_SOCK_PAYLOAD_MAX);
	if (mine.in_bytes > KVD_SOCK_PAYLOAD_MAX)
		return error_set(-E2BIG, "a request of %u bytes, at most %u", mine.in_bytes,
				 KVD_SOCK_PAYLOAD_MAX);
	return ask_socket(k, &mine, in, rep, out, out_size, NULL);
}

/* On the ring if there is one; an admin handle has only the socket. */
static int ask_any(struct kvd *k, const struct kvd_req *req, const void *in, struct kvd_rep *rep,
		   void *out, uint32_t out_bytes)
{
	if (k->admin)
		return kvd_call(k, req, in, rep, out, out_bytes);
	struct request *rq = request_new(k, req->op, REQUEST_PLAIN, REQUEST_SYNC);
	if (!rq)
		return -EAGAIN;
	rq->req = *req;
	rq->sync_out = out;
	rq->sync_bytes = out_bytes;
	void *to = req->in_bytes ? request_in(k, rq, req->in_bytes, REQUEST_PLAIN) : NULL;
	if ((req->in_bytes && !to) || !request_out(k, rq, out_bytes, out_bytes)) {
		request_free(k, rq);
		return -EAGAIN;
	}
	if (to)
		memcpy(to, in, req->in_bytes);
	request_send(k, rq);
	return request_wait(k, rq, rep);
}

/* A question about the prefix of some tokens. */
static int ask_tokens(struct kvd *k, uint16_t op, uint32_t format, const uint32_t *tokens,
		      uint32_t token_count, struct kvd_rep *rep, void *out, uint32_t out_bytes)
{
	int r = client_enter(k);

	if (r != 0)
		return r;
	if (!tokens || token_count == 0 || token_count > KVD_REQUEST_TOKENS_MAX)
		return error_set(-EINVAL, "%u tokens, must be 1 to %u", token_count,
				 KVD_REQUEST_TOKENS_MAX);
	struct kvd_req req = {.op = op,
			      .format = format,
			      .n = token_count,
			      .in_bytes = token_count * (uint32_t)sizeof(*tokens)};
	r = ask_any(k, &req, tokens, rep, out, out_bytes);
	return r == 0 ? rep->result : r;
}

int kvd_pin(struct kvd *k, uint32_t format, const uint32_t *tokens, uint32_t token_count,
	    uint32_t *out_tokens)
{
	struct kvd_rep rep;
	int r = ask_tokens(k, KVD_OP_PIN, format, tokens, token_count, &rep, NULL, 0);

	if (r == 0 && out_tokens)
		*out_tokens = rep.at.cached_tokens;
	return r;
}

int kvd_unpin(struct kvd *k, uint32_t format, const uint32_t *tokens, uint32_t token_count)
{
	struct kvd_rep rep;

	return ask_tokens(k, KVD_OP_UNPIN, format, tokens, token_count, &rep, NULL, 0);
}

int kvd_why(struct kvd *k, uint32_t format, const uint32_t *tokens, uint32_t token_count,
	    struct kvd_why *out)
{
	struct kvd_why why = {0};
	struct kvd_rep rep;
	int r = ask_tokens(k, KVD_OP_WHY, format, tokens, token_count, &rep, &why, sizeof(why));

	/* A miss is explained too. */
	if (r != 0 && r != KVD_MISS)
		return r;
	if (rep.out_bytes < sizeof(why))
		return error_set(-EPROTO, "the daemon's answer to WHY is too short");
	why.text[sizeof(why.text) - 1] = '\0';
	*out = why;
	return r;
}

int kvd_stat(struct kvd *k, struct kvd_space_stat *out)
{
	struct kvd_req req = {.op = KVD_OP_STAT};
	struct kvd_space_stat stat = {0};
	struct kvd_rep rep;
	int r = client_enter(k);

	if (r == 0)
		r = ask_any(k, &req, NULL, &rep, &stat, sizeof(stat));
	if (r == 0)
		r = rep.result;
	if (r != 0)
		return r;
	if (rep.out_bytes < sizeof(stat))
		return error_set(-EPROTO, "the daemon's answer to STAT is too short");
	stat.name[sizeof(stat.name) - 1] = '\0';
	*out = stat;
	return 0;
}
