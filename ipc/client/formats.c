/* SPDX-License-Identifier: Apache-2.0 */
/*
 * formats.c: registers what this process's pages mean. The library keeps of it what it needs to
 * read replies: tokens a page and parts a block.
 */
#include "ipc/client/ask.h"
#include "ipc/client/request.h"
#include <base/bits.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

struct formats_packet {
	struct kvd_format_wire wire;
	char description[KVD_DESCRIPTION_MAX];
};

static int formats_fill(const struct kvd_format_args *args, struct formats_packet *out)
{
	size_t description = args->description ? strlen(args->description) + 1 : 0;

	if (args->part_count < 1 || args->part_count > KVD_PARTS_MAX)
		return error_set(-EINVAL, "a format has 1 to %u parts", KVD_PARTS_MAX);
	if (!bits_is_pow2(args->page_tokens) || args->page_tokens < 16 || args->page_tokens > 128)
		return error_set(-EINVAL, "a page has 16, 32, 64 or 128 tokens");
	if (description > sizeof(out->description) || !args->layout ||
	    strlen(args->layout) >= sizeof(out->wire.layout))
		return error_set(-EINVAL, "layout or description is missing or too long");
	*out = (struct formats_packet){.wire = {.page_tokens = args->page_tokens,
						.part_count = args->part_count,
						.description_bytes = (uint32_t)description}};
	memcpy(out->wire.identity, args->identity, sizeof(out->wire.identity));
	memcpy(out->wire.parts, args->parts, args->part_count * sizeof(args->parts[0]));
	snprintf(out->wire.layout, sizeof(out->wire.layout), "%s", args->layout);
	if (description)
		memcpy(out->description, args->description, description);
	return 0;
}

static int formats_keep(struct kvd *k, const struct kvd_format_args *args, uint32_t id)
{
	if (client_format(k, id))
		return 0;
	if (k->format_count == ARRAY_LEN(k->formats))
		return error_set(-ENOSPC, "a handle knows at most %zu formats",
				 ARRAY_LEN(k->formats));
	k->formats[k->format_count++] = (struct format){
		.id = id, .page_tokens = args->page_tokens, .part_count = args->part_count};
	return 0;
}

int kvd_format(struct kvd *k, const struct kvd_format_args *args, uint32_t *out_format)
{
	struct formats_packet packet;
	struct kvd_rep rep;
	int r = client_enter(k);

	if (r == 0)
		r = formats_fill(args, &packet);
	if (r != 0)
		return r;
	struct kvd_req req = {.op = KVD_OP_FORMAT};
	req.in_bytes = (uint32_t)sizeof(packet.wire) + packet.wire.description_bytes;
	r = ask_socket(k, &req, &packet, &rep, NULL, 0, NULL);
	if (r == 0)
		r = rep.result;
	if (r == -EEXIST)
		return error_set(r, "the format's identity is known with other sizes");
	if (r == 0)
		r = formats_keep(k, args, (uint32_t)rep.aux);
	if (r == 0)
		*out_format = (uint32_t)rep.aux;
	return r;
}

int kvd_rate(struct kvd *k, uint32_t format, uint64_t tokens_per_s)
{
	int r = client_enter_ring(k);

	if (r != 0)
		return r;
	struct request *rq = request_new(k, KVD_OP_RATE, REQUEST_PLAIN, REQUEST_QUIET);
	if (!rq)
		return -EAGAIN;
	rq->req.format = format;
	rq->req.arg64 = tokens_per_s;
	request_send(k, rq);
	return 0;
}
