/* SPDX-License-Identifier: Apache-2.0 */
/* The field tables of the records in kvd_abi.h, and how one field becomes text. */
#include "tools/kvctl/fields.h"

#include <base/bits.h>
#include <base/log.h>
#include <base/units.h>
#include <kvd_abi.h>
#include <stdio.h>
#include <string.h>

#define SESSION(key, title, kind)                                                                  \
	{                                                                                          \
#key, title, offsetof(struct kvd_session_stat, key), kind, 0                       \
	}
#define SPACE(key, title, kind)                                                                    \
	{                                                                                          \
#key, title, offsetof(struct kvd_space_stat, key), kind, 0                         \
	}
#define PREFIX(key, title, kind)                                                                   \
	{                                                                                          \
#key, title, offsetof(struct kvd_prefix_stat, key), kind, 0                        \
	}
#define SLAB(key, title, kind)                                                                     \
	{                                                                                          \
#key, title, offsetof(struct kvd_slab_stat, key), kind, 0                          \
	}
#define SLAB_STATE(state) (offsetof(struct kvd_slab_stat, pages_by_state) + 4 * (state))
#define FORMAT(key, title, kind)                                                                   \
	{                                                                                          \
#key, title, offsetof(struct kvd_format_stat, key), kind, 0                        \
	}
#define DEVICE(key, title, kind)                                                                   \
	{                                                                                          \
#key, title, offsetof(struct kvd_device_stat, key), kind, 0                        \
	}
#define AREA(key, title, kind)                                                                     \
	{                                                                                          \
#key, title, offsetof(struct kvd_area_stat, key), kind, 0                          \
	}

const struct field fields_session[] = {
	SESSION(session, "ID", FIELD_U32),
	{"name", "NAME", offsetof(struct kvd_session_stat, name), FIELD_TEXT, KVD_NAME_MAX},
	SESSION(pid, "PID", FIELD_U32),
	SESSION(uid, NULL, FIELD_U32),
	SESSION(space, "SPACE", FIELD_U32),
	SESSION(group, NULL, FIELD_U64),
	SESSION(since_ns, "AGE", FIELD_AGE),
	SESSION(last_request_ns, "IDLE", FIELD_AGE),
	SESSION(leases, "LEASES", FIELD_U32),
	SESSION(open_pages, "OPEN", FIELD_U32),
	SESSION(pinned_pages, "PINNED", FIELD_U32),
	SESSION(magazine_pages, "MAGAZINE", FIELD_U32),
	SESSION(waiting_requests, "WAITING", FIELD_U32),
	SESSION(stalled, "STALLED", FIELD_U32),
	SESSION(requests, "REQUESTS", FIELD_U64),
	SESSION(prompt_tokens, "PROMPT", FIELD_U64),
	SESSION(cached_tokens, "CACHED", FIELD_U64),
	SESSION(sealed_blocks, "SEALED", FIELD_U64),
	{0},
};

const struct field fields_space[] = {
	SPACE(space, "ID", FIELD_U32),
	{"name", "NAME", offsetof(struct kvd_space_stat, name), FIELD_TEXT, KVD_NAME_MAX},
	SPACE(sessions, "SESSIONS", FIELD_U32),
	SPACE(nodes, "NODES", FIELD_U64),
	SPACE(pages, "PAGES", FIELD_U64),
	SPACE(bytes, "SIZE", FIELD_BYTES),
	SPACE(floor_bytes, "FLOOR", FIELD_BYTES),
	SPACE(ceiling_bytes, "CEILING", FIELD_BYTES),
	SPACE(prompt_tokens, "PROMPT", FIELD_U64),
	SPACE(cached_tokens, "CACHED", FIELD_U64),
	SPACE(evicted_pages, "EVICTED", FIELD_U64),
	SPACE(refused_requests, "REFUSED", FIELD_U64),
	{0},
};

const struct field fields_prefix[] = {
	PREFIX(key, "KEY", FIELD_DIGEST),	 PREFIX(space, "SPACE", FIELD_U32),
	PREFIX(format, "FORMAT", FIELD_U32),	 PREFIX(blocks, "BLOCKS", FIELD_U32),
	PREFIX(tokens, "TOKENS", FIELD_U32),	 PREFIX(bytes, "SIZE", FIELD_BYTES),
	PREFIX(pins, "LEAF-PINS", FIELD_U32),	 PREFIX(shared_pins, "ROOT-PINS", FIELD_U32),
	PREFIX(hits, "HITS", FIELD_U32),	 PREFIX(flags, "FLAGS", FIELD_U32),
	PREFIX(last_used_ns, "IDLE", FIELD_AGE), {0},
};

const struct field fields_slab[] = {
	SLAB(slab, "ID", FIELD_U32),
	SLAB(space, "SPACE", FIELD_U32),
	SLAB(device, "DEVICE", FIELD_U32),
	SLAB(state, "STATE", FIELD_U32),
	SLAB(first_page, "FIRST", FIELD_U32),
	SLAB(page_count, "PAGES", FIELD_U32),
	SLAB(stride_bytes, "STRIDE", FIELD_BYTES),
	SLAB(slab_bytes, "SIZE", FIELD_BYTES),
	{"free_pages", "FREE", SLAB_STATE(KVD_PAGE_FREE), FIELD_U32, 0},
	{"open_pages", "OPEN", SLAB_STATE(KVD_PAGE_OPEN), FIELD_U32, 0},
	{"sealed_pages", "SEALED", SLAB_STATE(KVD_PAGE_SEALED), FIELD_U32, 0},
	{"quarantine_pages", "QUARANTINE", SLAB_STATE(KVD_PAGE_QUARANTINE), FIELD_U32, 0},
	{0},
};

const struct field fields_format[] = {
	FORMAT(format, "ID", FIELD_U32),
	FORMAT(identity, "IDENTITY", FIELD_DIGEST),
	FORMAT(space, "SPACE", FIELD_U32),
	FORMAT(page_tokens, "TOKENS", FIELD_U32),
	FORMAT(part_count, "PARTS", FIELD_U32),
	FORMAT(block_bytes, "BLOCK", FIELD_BYTES),
	FORMAT(prefill_tokens_per_s, "PREFILL/S", FIELD_U64),
	{"layout", "LAYOUT", offsetof(struct kvd_format_stat, layout), FIELD_TEXT, 32},
	{"description", "DESCRIPTION", offsetof(struct kvd_format_stat, description), FIELD_TEXT,
	 128},
	{0},
};

const struct field fields_device[] = {
	DEVICE(device, "ID", FIELD_U32),
	DEVICE(pool_bytes, "POOL", FIELD_BYTES),
	DEVICE(slab_bytes, "SLABS", FIELD_BYTES),
	DEVICE(used_bytes, "USED", FIELD_BYTES),
	DEVICE(promised_pages, "PROMISED", FIELD_U64),
	DEVICE(evictable_pages, "EVICTABLE", FIELD_U64),
	DEVICE(waiting_requests, "WAITING", FIELD_U32),
	{0},
};

const struct field fields_area[] = {
	AREA(tier, "TIER", FIELD_TIER),
	AREA(area, NULL, FIELD_U32),
	AREA(state, "STATE", FIELD_STATE),
	AREA(used_bytes, "USED", FIELD_BYTES),
	AREA(bytes, "SIZE", FIELD_BYTES),
	AREA(blocks, "BLOCKS", FIELD_U64),
	AREA(hit_blocks, "HITS", FIELD_U64),
	AREA(loads, "LOADS", FIELD_U64),
	AREA(stores, "STORES", FIELD_U64),
	AREA(loaded_bytes, NULL, FIELD_BYTES),
	AREA(stored_bytes, NULL, FIELD_BYTES),
	AREA(load_bytes_per_s, "LOADING", FIELD_RATE),
	AREA(load_peak_bytes_per_s, "PEAK", FIELD_RATE),
	AREA(store_bytes_per_s, "STORING", FIELD_RATE),
	AREA(store_peak_bytes_per_s, "PEAK", FIELD_RATE),
	AREA(queue, "QUEUE", FIELD_U32),
	AREA(dropped_blocks, "DROPPED", FIELD_U64),
	AREA(errors, "ERRORS", FIELD_U64),
	AREA(bad_blocks, "BAD", FIELD_U64),
	{"engine", "ENGINE", offsetof(struct kvd_area_stat, engine), FIELD_TEXT, 16},
	{"path", "PATH", offsetof(struct kvd_area_stat, path), FIELD_TEXT, 104},
	{0},
};

const char *fields_tier(uint32_t tier)
{
	static const char *const names[] = {[KVD_TIER_DRAM] = "dram", [KVD_TIER_FILE] = "file"};

	return tier < ARRAY_LEN(names) && names[tier] ? names[tier] : "?";
}

uint64_t fields_number(const struct field *f, const void *record)
{
	const char *at = (const char *)record + f->offset;
	uint32_t small;
	uint64_t large;

	if (f->kind == FIELD_U32 || f->kind == FIELD_TIER || f->kind == FIELD_STATE) {
		memcpy(&small, at, sizeof(small));
		return small;
	}
	memcpy(&large, at, sizeof(large));
	return large;
}

static void fields_age(uint64_t then_ns, char *out, size_t size)
{
	uint64_t now_ns = units_now_ns();
	uint64_t s = now_ns > then_ns ? (now_ns - then_ns) / UNITS_NS_PER_S : 0;

	if (then_ns == 0)
		snprintf(out, size, "-");
	else if (s < 120)
		snprintf(out, size, "%" PRIu64 "s", s);
	else if (s < 7200)
		snprintf(out, size, "%" PRIu64 "m", s / 60);
	else
		snprintf(out, size, "%" PRIu64 "h", s / 3600);
}

const char *fields_text(const struct field *f, const void *record, char *out, size_t size)
{
	const char *at = (const char *)record + f->offset;
	char rate[32];

	switch (f->kind) {
	case FIELD_TEXT:
		log_safe(at, f->width, out, size);
		break;
	case FIELD_DIGEST:
		for (size_t i = 0; i < 8; i++)
			snprintf(out + 2 * i, size - 2 * i, "%02x", (uint8_t)at[i]);
		break;
	case FIELD_BYTES:
		units_format_bytes(fields_number(f, record), out, size);
		break;
	case FIELD_RATE:
		units_format_bytes(fields_number(f, record), rate, sizeof(rate));
		snprintf(out, size, "%s/s", rate);
		break;
	case FIELD_TIER:
		snprintf(out, size, "%s", fields_tier((uint32_t)fields_number(f, record)));
		break;
	case FIELD_STATE:
		snprintf(out, size, "%s",
			 fields_number(f, record) == KVD_AREA_OK ? "ok" : "degraded");
		break;
	case FIELD_AGE:
		fields_age(fields_number(f, record), out, size);
		break;
	default:
		snprintf(out, size, "%" PRIu64, fields_number(f, record));
	}
	return out;
}
