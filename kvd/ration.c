/* SPDX-License-Identifier: Apache-2.0 */
/*
 * So many lines a second, then silence until the next one, which also says how many are missing.
 * One thread.
 */
#include "kvd/ration.h"
#include "base/units.h"

bool ration_take(struct ration *r, uint64_t now_ns, uint32_t *out_dropped)
{
	uint64_t second = now_ns / UNITS_NS_PER_S;

	if (second != r->second) {
		r->second = second;
		r->used = 0;
	}
	if (r->used >= RATION_PER_SECOND) {
		r->dropped++;
		return false;
	}
	r->used++;
	*out_dropped = r->dropped;
	r->dropped = 0;
	return true;
}
