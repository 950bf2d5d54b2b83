/* SPDX-License-Identifier: Apache-2.0 */
/* Each op: one message that is right, and each field that makes it wrong. */
#include "tests/test.h"
#include <errno.h>
#include <ipc/msg.h>

struct msg_case {
	struct kvd_req req;
	uint32_t channel;
	int result;
};

static const struct msg_case msg_cases[] = {
	{{.op = 0}, MSG_RING, -EPROTO},
	{{.op = KVD_OP_COUNT}, MSG_RING, -EPROTO},
	{{.op = 0xffff}, MSG_SOCKET, -EPROTO},
	{{.op = KVD_OP_ACQUIRE, .n = 3, .in_bytes = 12}, MSG_RING, 0},
	{{.op = KVD_OP_ACQUIRE, .n = 3, .m = 1, .in_bytes = 36}, MSG_RING, 0},
	{{.op = KVD_OP_ACQUIRE, .n = 3, .in_bytes = 12}, MSG_SOCKET, -EPERM},
	{{.op = KVD_OP_ACQUIRE, .n = 3, .in_bytes = 11}, MSG_RING, -EPROTO},
	{{.op = KVD_OP_ACQUIRE, .n = 0, .in_bytes = 0}, MSG_RING, -EPROTO},
	{{.op = KVD_OP_ACQUIRE, .n = 3, .m = 9, .in_bytes = 12 + 9 * 24}, MSG_RING, -E2BIG},
	{{.op = KVD_OP_ACQUIRE, .n = KVD_REQUEST_TOKENS_MAX, .in_bytes = 4u << 20}, MSG_RING, 0},
	{{.op = KVD_OP_ACQUIRE, .n = KVD_REQUEST_TOKENS_MAX + 1}, MSG_RING, -E2BIG},
	{{.op = KVD_OP_ACQUIRE, .n = 3, .in_bytes = 12, .flags = 2}, MSG_RING, -EPROTO},
	{{.op = KVD_OP_ACQUIRE, .n = 3, .in_bytes = 12, .arg32 = UINT32_MAX}, MSG_RING, -E2BIG},
	{{.op = KVD_OP_ACQUIRE, .n = 0x40000000, .in_bytes = 0}, MSG_RING, -E2BIG},
	{{.op = KVD_OP_EXTEND, .flags = 3, .first = 4, .m = 9}, MSG_RING, 0},
	{{.op = KVD_OP_EXTEND, .first = UINT32_MAX, .m = 9}, MSG_RING, -E2BIG},
	{{.op = KVD_OP_EXTEND, .m = UINT32_MAX}, MSG_RING, -E2BIG},
	{{.op = KVD_OP_SEAL, .n = 2, .m = 1, .arg32 = 3, .in_bytes = 32}, MSG_RING, 0},
	{{.op = KVD_OP_SEAL, .n = 2, .m = 1, .arg32 = 3, .in_bytes = 24}, MSG_RING, -EPROTO},
	{{.op = KVD_OP_SEAL, .m = 1, .arg32 = 0x20000000, .in_bytes = 0}, MSG_RING, -E2BIG},
	{{.op = KVD_OP_FORK, .m = 5, .arg32 = 1}, MSG_RING, 0},
	{{.op = KVD_OP_FORK, .m = 129}, MSG_RING, -E2BIG},
	{{.op = KVD_OP_RELEASE, .flags = KVD_RELEASE_KEEP_TAIL, .m = 5}, MSG_RING, 0},
	{{.op = KVD_OP_RELEASE, .flags = 2}, MSG_RING, -EPROTO},
	{{.op = KVD_OP_TOPUP, .n = 4}, MSG_RING, 0},
	{{.op = KVD_OP_TOPUP, .n = 0}, MSG_RING, -EPROTO},
	{{.op = KVD_OP_TOPUP, .n = 4, .in_bytes = 4}, MSG_RING, -EPROTO},
	{{.op = KVD_OP_RETURN, .n = 2, .in_bytes = 16}, MSG_RING, 0},
	{{.op = KVD_OP_RETURN, .n = 2, .in_bytes = 8}, MSG_RING, -EPROTO},
	{{.op = KVD_OP_CLAIM, .in_bytes = 16}, MSG_RING, 0},
	{{.op = KVD_OP_CLAIM, .in_bytes = 15}, MSG_RING, -EPROTO},
	{{.op = KVD_OP_WHY, .n = 1, .in_bytes = 4}, MSG_RING, 0},
	{{.op = KVD_OP_WHY, .n = 1, .in_bytes = 4}, MSG_ADMIN, 0},
	{{.op = KVD_OP_WHY, .n = 20000, .in_bytes = 80000}, MSG_ADMIN, -E2BIG},
	{{.op = KVD_OP_LIST, .arg32 = KVD_LIST_SLABS}, MSG_ADMIN, 0},
	{{.op = KVD_OP_LIST, .arg32 = 0}, MSG_ADMIN, -EPROTO},
	{{.op = KVD_OP_LIST, .arg32 = 6}, MSG_ADMIN, -E2BIG},
	{{.op = KVD_OP_LIST, .arg32 = 1}, MSG_SOCKET, -EPERM},
	{{.op = KVD_OP_LIST, .arg32 = 1}, MSG_RING, -EPERM},
	{{.op = KVD_OP_EVICT}, MSG_SOCKET, -EPERM},
	{{.op = KVD_OP_EVICT, .flags = KVD_EVICT_TIERS}, MSG_ADMIN, 0},
	{{.op = KVD_OP_CHECK}, MSG_RING, -EPERM},
	{{.op = KVD_OP_DRAIN, .arg32 = 1}, MSG_ADMIN, 0},
	{{.op = KVD_OP_DRAIN, .arg32 = 2}, MSG_ADMIN, -E2BIG},
	{{.op = KVD_OP_VERIFY, .arg32 = KVD_TIER_FILE, .arg64 = UINT64_MAX}, MSG_ADMIN, 0},
	{{.op = KVD_OP_VERIFY, .arg32 = KVD_TIER_DRAM, .deadline_ms = 1000}, MSG_ADMIN, 0},
	{{.op = KVD_OP_VERIFY, .arg32 = 0}, MSG_ADMIN, -EPROTO},
	{{.op = KVD_OP_VERIFY, .arg32 = KVD_TIER_FILE + 1}, MSG_ADMIN, -E2BIG},
	{{.op = KVD_OP_VERIFY, .arg32 = KVD_TIER_FILE, .flags = 1}, MSG_ADMIN, -EPROTO},
	{{.op = KVD_OP_VERIFY, .arg32 = KVD_TIER_FILE, .in_bytes = 4}, MSG_ADMIN, -EPROTO},
	{{.op = KVD_OP_VERIFY, .arg32 = KVD_TIER_FILE}, MSG_SOCKET, -EPERM},
	{{.op = KVD_OP_VERIFY, .arg32 = KVD_TIER_FILE}, MSG_RING, -EPERM},
	{{.op = KVD_OP_SLAB, .arg32 = 77}, MSG_SOCKET, 0},
	{{.op = KVD_OP_SLAB, .arg32 = 77, .out_bytes = 70000}, MSG_SOCKET, -E2BIG},
	{{.op = KVD_OP_SLAB}, MSG_RING, -EPERM},
	{{.op = KVD_OP_HELLO, .in_bytes = 248}, MSG_SOCKET, 0},
	{{.op = KVD_OP_HELLO, .in_bytes = 247}, MSG_SOCKET, -EPROTO},
	{{.op = KVD_OP_FORMAT, .in_bytes = 576}, MSG_SOCKET, 0},
	{{.op = KVD_OP_BYE}, MSG_RING, 0},
	{{.op = KVD_OP_BYE}, MSG_SOCKET, -EPERM},
};

static void msg_checks_every_field(void **state)
{
	for (size_t i = 0; i < sizeof(msg_cases) / sizeof(msg_cases[0]); i++) {
		int r = msg_check(&msg_cases[i].req, msg_cases[i].channel);
		if (r != msg_cases[i].result)
			fail_msg("case %zu: op %u gives %d", i, msg_cases[i].req.op, r);
	}
}

static void msg_has_a_rule_for_each_op(void **state)
{
	for (uint16_t op = 1; op < KVD_OP_COUNT; op++)
		assert_string_not_equal(msg_op_name(op), "?");
	assert_string_equal(msg_op_name(KVD_OP_ACQUIRE), "ACQUIRE");
	assert_string_equal(msg_op_name(0), "?");
	assert_string_equal(msg_op_name(KVD_OP_COUNT), "?");
}

static void msg_hello_is_checked(void **state)
{
	struct kvd_hello good = {.magic = KVD_ABI_MAGIC, .major = KVD_ABI_MAJOR}, h, out;

	memset(good.name, 'n', sizeof(good.name));
	assert_int_equal(msg_hello(&good, sizeof(good), &out), 0);
	assert_int_equal(strlen(out.name), KVD_NAME_MAX - 1);
	assert_int_equal(msg_hello(&good, sizeof(good) - 1, &out), -EPROTO);
	assert_int_equal(msg_hello(&good, 0, &out), -EPROTO);
	h = good;
	h.magic++;
	assert_int_equal(msg_hello(&h, sizeof(h), &out), -EPROTO);
	h = good;
	h.major++;
	assert_int_equal(msg_hello(&h, sizeof(h), &out), -EBADMSG);
	h = good;
	h.secret_bytes = 65;
	assert_int_equal(msg_hello(&h, sizeof(h), &out), -EPROTO);
	h = good;
	h.flags = 1u << 31;
	assert_int_equal(msg_hello(&h, sizeof(h), &out), -EPROTO);
}

struct format_bytes {
	struct kvd_format_wire wire;
	char text[KVD_DESCRIPTION_MAX + 1];
};

static struct format_bytes format_good(void)
{
	struct format_bytes f = {.wire = {.page_tokens = 64,
					  .part_count = 2,
					  .layout = "test",
					  .description_bytes = 4}};

	memcpy(f.text, "abcd", 4);
	for (int i = 0; i < 3; i++)
		f.wire.parts[i] = (struct kvd_part_wire){.page_bytes = 4096, .align = 64};
	return f;
}

static void msg_format_is_checked(void **state)
{
	static char description[KVD_DESCRIPTION_MAX];
	struct format_bytes f = format_good();
	struct kvd_format_wire out;
	size_t size = sizeof(f.wire) + 4;

	assert_int_equal(msg_format(&f, size, &out, description), 0);
	assert_string_equal(description, "abcd");
	assert_int_equal(out.parts[1].page_bytes, 4096);
	assert_int_equal(out.parts[2].page_bytes, 0);
	assert_int_equal(msg_format(&f, size - 1, &out, description), -EPROTO);
	assert_int_equal(msg_format(&f, size + 1, &out, description), -EPROTO);
	assert_int_equal(msg_format(&f, 10, &out, description), -EPROTO);
	f.wire.description_bytes = KVD_DESCRIPTION_MAX + 1;
	assert_int_equal(
		msg_format(&f, sizeof(f.wire) + KVD_DESCRIPTION_MAX + 1, &out, description),
		-EPROTO);
	const uint32_t tokens[] = {0, 8, 48, 256};
	for (size_t i = 0; i < 4; i++) {
		f = format_good();
		f.wire.page_tokens = tokens[i];
		assert_int_equal(msg_format(&f, size, &out, description), -EPROTO);
	}
	const uint32_t parts[] = {0, KVD_PARTS_MAX + 1, UINT32_MAX};
	for (size_t i = 0; i < 3; i++) {
		f = format_good();
		f.wire.part_count = parts[i];
		assert_int_equal(msg_format(&f, size, &out, description), -EPROTO);
	}
	f = format_good();
	f.wire.parts[1].page_bytes = UINT64_MAX;
	assert_int_equal(msg_format(&f, size, &out, description), -EPROTO);
	f = format_good();
	f.wire.parts[0].align = 48;
	assert_int_equal(msg_format(&f, size, &out, description), -EPROTO);
	f = format_good();
	memset(f.wire.layout, 'x', sizeof(f.wire.layout));
	assert_int_equal(msg_format(&f, size, &out, description), 0);
	assert_int_equal(strlen(out.layout), sizeof(out.layout) - 1);
}

TEST_MAIN(msg, cmocka_unit_test(msg_checks_every_field),
	  cmocka_unit_test(msg_has_a_rule_for_each_op), cmocka_unit_test(msg_hello_is_checked),
	  cmocka_unit_test(msg_format_is_checked))
