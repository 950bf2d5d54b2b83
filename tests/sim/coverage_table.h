/* SPDX-License-Identifier: Apache-2.0 */
/* Which answers a full run must have seen. Included by coverage.c alone. */
#ifndef SIM_COVERAGE_TABLE_H
#define SIM_COVERAGE_TABLE_H

#include <errno.h>
#include <kvd_abi.h>
#include <stdint.h>

struct coverage_required {
	uint16_t op;
	int16_t result;
};

static const struct coverage_required coverage_required[] = {
	{KVD_OP_FORMAT, 0},
	{KVD_OP_ACQUIRE, 0},
	{KVD_OP_ACQUIRE, KVD_FULL},
	{KVD_OP_ACQUIRE, KVD_BUSY},
	{KVD_OP_ACQUIRE, KVD_DRAINING},
	{KVD_OP_ACQUIRE, -ECANCELED},
	{KVD_OP_EXTEND, 0},
	{KVD_OP_SEAL, 0},
	{KVD_OP_SEAL, KVD_KEPT},
	{KVD_OP_SEAL, KVD_STALE},
	{KVD_OP_FORK, 0},
	{KVD_OP_RELEASE, 0},
	{KVD_OP_TOPUP, 0},
	{KVD_OP_TOPUP, KVD_FULL},
	{KVD_OP_RETURN, 0},
	{KVD_OP_HANDOFF, 0},
	{KVD_OP_CLAIM, 0},
	{KVD_OP_CLAIM, KVD_MISS},
	{KVD_OP_PIN, 0},
	{KVD_OP_PIN, KVD_MISS},
	{KVD_OP_UNPIN, 0},
	{KVD_OP_EVICT, 0},
	{KVD_OP_CANCEL, 0},
	{KVD_OP_STAT, 0},
	{KVD_OP_WHY, 0},
	{KVD_OP_LIST, 0},
	{KVD_OP_CHECK, 0},
	{KVD_OP_RATE, 0},
	{KVD_OP_SLAB_GONE, 0},
	{KVD_OP_DRAIN, 0},
};

#endif
