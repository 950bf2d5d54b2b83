/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_msg.c: the first byte chooses: a request and its channel, a HELLO, or a FORMAT. What passes
 * must have the sizes that it promises.
 */
#include <base/assert.h>
#include <ipc/msg.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Bytes that a reader of the message's arrays would touch. */
static uint64_t fuzz_touched(const struct kvd_req *req)
{
	uint64_t tokens = (uint64_t)req->n * 4;

	switch (req->op) {
	case KVD_OP_ACQUIRE:
	case KVD_OP_PREFETCH:
		return tokens + (uint64_t)req->m * sizeof(struct kvd_extra);
	case KVD_OP_SEAL:
		return tokens + (uint64_t)req->arg32 * sizeof(struct kvd_handle);
	case KVD_OP_RETURN:
		return (uint64_t)req->n * sizeof(struct kvd_handle);
	case KVD_OP_EXTEND:
	case KVD_OP_RELEASE:
	case KVD_OP_PIN:
	case KVD_OP_UNPIN:
	case KVD_OP_WHY:
		return tokens;
	default:
		return 0;
	}
}

static void fuzz_request(const uint8_t *data, size_t size)
{
	struct kvd_req req = {0};

	memcpy(&req, data, size < sizeof(req) ? size : sizeof(req));
	for (uint32_t channel = MSG_RING; channel <= MSG_ADMIN; channel *= 2) {
		if (msg_check(&req, channel) != 0)
			continue;
		ASSERT(fuzz_touched(&req) <= req.in_bytes);
		ASSERT(req.n <= KVD_REQUEST_TOKENS_MAX && req.op < KVD_OP_COUNT);
		ASSERT(channel == MSG_RING || req.in_bytes <= KVD_SOCK_PAYLOAD_MAX);
		ASSERT(strcmp(msg_op_name(req.op), "?") != 0);
	}
}

static void fuzz_hello(const uint8_t *data, size_t size)
{
	struct kvd_hello hello;

	if (msg_hello(data, size, &hello) != 0)
		return;
	ASSERT(strlen(hello.name) < KVD_NAME_MAX && strlen(hello.space) < KVD_NAME_MAX);
	ASSERT(hello.secret_bytes <= sizeof(hello.secret));
}

static void fuzz_format(const uint8_t *data, size_t size)
{
	static char description[KVD_DESCRIPTION_MAX];
	struct kvd_format_wire wire;

	if (msg_format(data, size, &wire, description) != 0)
		return;
	ASSERT(strlen(description) < KVD_DESCRIPTION_MAX);
	ASSERT(strlen(wire.layout) < sizeof(wire.layout));
	ASSERT(wire.part_count >= 1 && wire.part_count <= KVD_PARTS_MAX);
	for (uint32_t i = 0; i < KVD_PARTS_MAX; i++)
		ASSERT((wire.parts[i].page_bytes != 0) == (i < wire.part_count));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	switch (data[0] % 3) {
	case 0:
		fuzz_request(data + 1, size - 1);
		break;
	case 1:
		fuzz_hello(data + 1, size - 1);
		break;
	default:
		fuzz_format(data + 1, size - 1);
	}
	return 0;
}
