/* SPDX-License-Identifier: Apache-2.0 */
/*
 * msg.c: is this message one that can mean something?
 *
 * One row an op. The size of a payload always follows from the counts in the 64 bytes, so one
 * comparison settles that nothing will be read beyond it; counts have maxima, so that no product of
 * them can wrap in 64 bits. What the numbers refer to (leases, pages, formats) is the core's.
 *
 * Pure functions, any thread.
 */
#include "ipc/msg.h"
#include <base/bits.h>
#include <base/bytes.h>
#include <errno.h>
#include <string.h>

#define MSG_TICKET_BYTES 16u
#define MSG_PAGE_TOKENS_MIN 16u
#define MSG_PAGE_TOKENS_MAX 128u
#define MSG_BLOCKS_MAX (KVD_REQUEST_TOKENS_MAX / MSG_PAGE_TOKENS_MIN)
#define MSG_PAGE_BYTES_MAX (1ull << 32)

/* How in_bytes follows from the fields. */
enum msg_size {
	MSG_SIZE_NONE,
	MSG_SIZE_TOKENS,	 /* u32[n] */
	MSG_SIZE_TOKENS_EXTRAS,	 /* u32[n], kvd_extra[m] */
	MSG_SIZE_TOKENS_HANDLES, /* u32[n], kvd_handle[arg32] */
	MSG_SIZE_HANDLES,	 /* kvd_handle[n] */
	MSG_SIZE_TICKET,
	MSG_SIZE_HELLO,
	MSG_SIZE_FORMAT,
};

struct msg_rule {
	const char *name;
	uint32_t channels;
	uint16_t flags;
	enum msg_size size;
	uint32_t n_min;
	uint32_t n_max;
	uint32_t m_max;
	uint32_t arg32_min;
	uint32_t arg32_max;
};

#define MSG_ANY UINT32_MAX
#define MSG_TOKENS KVD_REQUEST_TOKENS_MAX

static const struct msg_rule rules[KVD_OP_COUNT] = {
	[KVD_OP_HELLO] = {"HELLO", MSG_SOCKET, 0, MSG_SIZE_HELLO, 0, 0, 0, 0, 0},
	[KVD_OP_FORMAT] = {"FORMAT", MSG_SOCKET, 0, MSG_SIZE_FORMAT, 0, 0, 0, 0, 0},
	[KVD_OP_ACQUIRE] = {"ACQUIRE", MSG_RING, KVD_ACQUIRE_NO_HIT, MSG_SIZE_TOKENS_EXTRAS, 1,
			    MSG_TOKENS, MSG_ANY, 0, MSG_BLOCKS_MAX},
	[KVD_OP_EXTEND] = {"EXTEND", MSG_RING, KVD_EXTEND_TAKE | KVD_EXTEND_CALL, MSG_SIZE_TOKENS,
			   0, MSG_TOKENS, MSG_BLOCKS_MAX, 0, MSG_ANY},
	[KVD_OP_SEAL] = {"SEAL", MSG_RING, 0, MSG_SIZE_TOKENS_HANDLES, 0, MSG_TOKENS,
			 MSG_BLOCKS_MAX, 0, MSG_BLOCKS_MAX *KVD_PARTS_MAX},
	[KVD_OP_FORK] = {"FORK", MSG_RING, 0, MSG_SIZE_NONE, 0, 0, MSG_PAGE_TOKENS_MAX, 0,
			 MSG_BLOCKS_MAX},
	[KVD_OP_RELEASE] = {"RELEASE", MSG_RING, KVD_RELEASE_KEEP_TAIL, MSG_SIZE_TOKENS, 0,
			    MSG_TOKENS, MSG_PAGE_TOKENS_MAX, 0, 0},
	[KVD_OP_TOPUP] = {"TOPUP", MSG_RING, 0, MSG_SIZE_NONE, 1, MSG_BLOCKS_MAX, 0, 0, 0},
	[KVD_OP_RETURN] = {"RETURN", MSG_RING, 0, MSG_SIZE_HANDLES, 1,
			   MSG_BLOCKS_MAX *KVD_PARTS_MAX, 0, 0, 0},
	[KVD_OP_HANDOFF] = {"HANDOFF", MSG_RING, 0, MSG_SIZE_NONE, 0, 0, 0, 0, MSG_ANY},
	[KVD_OP_CLAIM] = {"CLAIM", MSG_RING, 0, MSG_SIZE_TICKET, 0, 0, 0, 0, 0},
	[KVD_OP_PREFETCH] = {"PREFETCH", MSG_RING, KVD_ACQUIRE_NO_HIT, MSG_SIZE_TOKENS_EXTRAS, 1,
			     MSG_TOKENS, MSG_ANY, 0, MSG_BLOCKS_MAX},
	[KVD_OP_PIN] = {"PIN", MSG_RING | MSG_ADMIN, 0, MSG_SIZE_TOKENS, 1, MSG_TOKENS, 0, 0, 0},
	[KVD_OP_UNPIN] = {"UNPIN", MSG_RING | MSG_ADMIN, 0, MSG_SIZE_TOKENS, 1, MSG_TOKENS, 0, 0,
			  0},
	[KVD_OP_EVICT] = {"EVICT", MSG_ADMIN, KVD_EVICT_ALL_SPACES | KVD_EVICT_TIERS, MSG_SIZE_NONE,
			  0, 0, 0, 0, 0},
	[KVD_OP_CANCEL] = {"CANCEL", MSG_RING, 0, MSG_SIZE_NONE, 0, 0, 0, 0, MSG_ANY},
	[KVD_OP_STAT] = {"STAT", MSG_RING | MSG_SOCKET | MSG_ADMIN, 0, MSG_SIZE_NONE, 0, 0, 0, 0,
			 0},
	[KVD_OP_WHY] = {"WHY", MSG_RING | MSG_SOCKET | MSG_ADMIN, 0, MSG_SIZE_TOKENS, 1, MSG_TOKENS,
			0, 0, 0},
	[KVD_OP_LIST] = {"LIST", MSG_ADMIN, 0, MSG_SIZE_NONE, 0, 0, 0, KVD_LIST_SESSIONS,
			 KVD_LIST_SPACES},
	[KVD_OP_CHECK] = {"CHECK", MSG_ADMIN, 0, MSG_SIZE_NONE, 0, 0, 0, 0, 0},
	[KVD_OP_RATE] = {"RATE", MSG_RING, 0, MSG_SIZE_NONE, 0, 0, 0, 0, 0},
	[KVD_OP_SLAB] = {"SLAB", MSG_SOCKET, 0, MSG_SIZE_NONE, 0, 0, 0, 0, MSG_ANY},
	[KVD_OP_SLAB_GONE] = {"SLAB_GONE", MSG_RING, 0, MSG_SIZE_NONE, 0, 0, 0, 0, MSG_ANY},
	[KVD_OP_BYE] = {"BYE", MSG_RING, 0, MSG_SIZE_NONE, 0, 0, 0, 0, 0},
	[KVD_OP_DRAIN] = {"DRAIN", MSG_ADMIN, 0, MSG_SIZE_NONE, 0, 0, 0, 0, 1},
	[KVD_OP_VERIFY] = {"VERIFY", MSG_ADMIN, 0, MSG_SIZE_NONE, 0, 0, 0, KVD_TIER_DRAM,
			   KVD_TIER_FILE},
};

static bool msg_size_ok(const struct msg_rule *rule, const struct kvd_req *req)
{
	uint64_t tokens = (uint64_t)req->n * sizeof(uint32_t);

	switch (rule->size) {
	case MSG_SIZE_NONE:
		return req->in_bytes == 0;
	case MSG_SIZE_TOKENS:
		return req->in_bytes == tokens;
	case MSG_SIZE_TOKENS_EXTRAS:
		return req->in_bytes == tokens + (uint64_t)req->m * sizeof(struct kvd_extra);
	case MSG_SIZE_TOKENS_HANDLES:
		return req->in_bytes == tokens + (uint64_t)req->arg32 * sizeof(struct kvd_handle);
	case MSG_SIZE_HANDLES:
		return req->in_bytes == (uint64_t)req->n * sizeof(struct kvd_handle);
	case MSG_SIZE_TICKET:
		return req->in_bytes == MSG_TICKET_BYTES;
	case MSG_SIZE_HELLO:
		return req->in_bytes >= sizeof(struct kvd_hello);
	case MSG_SIZE_FORMAT:
		return req->in_bytes >= sizeof(struct kvd_format_wire);
	}
	return false;
}

/* The maximum of m, which for extras follows from n: so many a block, at the smallest block. */
static uint32_t msg_m_max(const struct msg_rule *rule, const struct kvd_req *req)
{
	if (rule->size != MSG_SIZE_TOKENS_EXTRAS)
		return rule->m_max;
	return (uint32_t)bits_div_ceil(req->n, MSG_PAGE_TOKENS_MIN) * KVD_EXTRAS_PER_BLOCK;
}

static bool msg_counts_ok(const struct msg_rule *rule, const struct kvd_req *req)
{
	return req->n <= rule->n_max && req->m <= msg_m_max(rule, req) &&
	       req->arg32 <= rule->arg32_max && req->first <= MSG_BLOCKS_MAX;
}

int msg_check(const struct kvd_req *req, uint32_t channel)
{
	if (req->op >= KVD_OP_COUNT || !rules[req->op].name)
		return -EPROTO;
	const struct msg_rule *rule = &rules[req->op];
	if (!(rule->channels & channel))
		return -EPERM;
	if (req->flags & ~rule->flags)
		return -EPROTO;
	if (!msg_counts_ok(rule, req))
		return -E2BIG;
	if (channel != MSG_RING &&
	    (req->in_bytes > KVD_SOCK_PAYLOAD_MAX || req->out_bytes > KVD_SOCK_PAYLOAD_MAX))
		return -E2BIG;
	if (req->n < rule->n_min || req->arg32 < rule->arg32_min || !msg_size_ok(rule, req))
		return -EPROTO;
	return 0;
}

static void msg_terminate(char *text, size_t size)
{
	text[size - 1] = '\0';
}

int msg_hello(const void *payload, size_t bytes, struct kvd_hello *out)
{
	struct bytes b = bytes_over(payload, bytes);
	const uint8_t *at = bytes_take(&b, sizeof(*out));

	if (!at)
		return -EPROTO;
	memcpy(out, at, sizeof(*out));
	msg_terminate(out->space, sizeof(out->space));
	msg_terminate(out->name, sizeof(out->name));
	if (out->magic != KVD_ABI_MAGIC)
		return -EPROTO;
	if (out->major != KVD_ABI_MAJOR)
		return -EBADMSG;
	if (out->secret_bytes > sizeof(out->secret) ||
	    (out->flags & ~(uint32_t)(KVD_HELLO_ADMIN | KVD_HELLO_QUIESCED)))
		return -EPROTO;
	return 0;
}

static bool msg_parts_ok(const struct kvd_format_wire *f)
{
	if (f->part_count < 1 || f->part_count > KVD_PARTS_MAX)
		return false;
	for (uint32_t i = 0; i < f->part_count; i++) {
		const struct kvd_part_wire *p = &f->parts[i];
		if (p->page_bytes == 0 || p->page_bytes > MSG_PAGE_BYTES_MAX ||
		    !bits_is_pow2(p->align) || p->align > 4096)
			return false;
	}
	return true;
}

int msg_format(const void *payload, size_t bytes, struct kvd_format_wire *out, char *description)
{
	struct bytes b = bytes_over(payload, bytes);
	const uint8_t *at = bytes_take(&b, sizeof(*out));

	if (!at)
		return -EPROTO;
	memcpy(out, at, sizeof(*out));
	msg_terminate(out->layout, sizeof(out->layout));
	if (out->description_bytes > KVD_DESCRIPTION_MAX ||
	    bytes_left(&b) != out->description_bytes)
		return -EPROTO;
	if (!bits_is_pow2(out->page_tokens) || out->page_tokens < MSG_PAGE_TOKENS_MIN ||
	    out->page_tokens > MSG_PAGE_TOKENS_MAX || !msg_parts_ok(out))
		return -EPROTO;
	memset(&out->parts[out->part_count], 0,
	       (KVD_PARTS_MAX - out->part_count) * sizeof(out->parts[0]));
	memset(description, 0, KVD_DESCRIPTION_MAX);
	if (out->description_bytes)
		memcpy(description, bytes_take(&b, out->description_bytes), out->description_bytes);
	msg_terminate(description, KVD_DESCRIPTION_MAX);
	return 0;
}

const char *msg_op_name(uint16_t op)
{
	return op < KVD_OP_COUNT && rules[op].name ? rules[op].name : "?";
}
