/* SPDX-License-Identifier: Apache-2.0 */
/* Small requests. The core's thread only. */
#include "kvd/core/admin.h"

#include "kvd/core/call.h"
#include "kvd/core/evict.h"
#include "kvd/core/format.h"
#include "kvd/core/rest.h"
#include "kvd/core/session.h"
#include "kvd/core/space.h"
#include "kvd/core/turnover.h"
#include "kvd/core/wait.h"

#include <errno.h>
#include <string.h>

int admin_format(struct core *core, struct call *call)
{
	const struct kvd_format_wire *wire = (const void *)core->in;
	const char *description = (const char *)core->in + sizeof(*wire);
	uint32_t bytes = call->req->in_bytes;
	uint32_t format;

	if (bytes < sizeof(*wire) || bytes > sizeof(*wire) + KVD_DESCRIPTION_MAX)
		return -EPROTO;
	int rc = call_payload(core, call, bytes);
	if (rc < 0)
		return rc;
	if (wire->description_bytes != bytes - sizeof(*wire) || wire->reserved)
		return -EPROTO;
	if (wire->description_bytes > 0 && description[wire->description_bytes - 1] != '\0')
		return -EPROTO;
	rc = format_add(core, core->sessions[call->session].space, wire,
			wire->description_bytes ? description : NULL, &format);
	if (rc == 0)
		call->rep.aux = format;
	return rc;
}

int admin_rate(struct core *core, struct call *call)
{
	if (!format_valid(core, call->req->format, core->sessions[call->session].space))
		return -EINVAL;
	core->formats[call->req->format].rate_tokens_per_s = call->req->arg64;
	return 0;
}

int admin_stat(struct core *core, struct call *call)
{
	struct kvd_space_stat *stat = (struct kvd_space_stat *)(void *)core->handles;

	if (call->req->out_bytes < sizeof(*stat))
		return -EINVAL;
	space_stat(core, core->sessions[call->session].space, stat);
	call->rep.out_bytes = sizeof(*stat);
	call->payload = stat;
	return 0;
}

int admin_cancel(struct core *core, struct call *call)
{
	return wait_cancel(core, call->session, call->req->arg32);
}

int admin_slab_gone(struct core *core, struct call *call)
{
	return turnover_gone(core, call->session, call->req->arg32);
}

int admin_evict(struct core *core, struct call *call)
{
	const struct kvd_req *req = call->req;
	uint64_t pages_max = BITS_MIN(req->arg64, (uint64_t)CORE_STEP_MAX);
	bool all = req->flags & KVD_EVICT_ALL_SPACES;

	if (!all && req->lease >= core->space_count)
		return -EINVAL;
	for (uint32_t s = 0; s < core->space_count; s++) {
		if (!all && s != req->lease)
			continue;
		call->rep.aux += evict_pages(core, s, pages_max - call->rep.aux);
		if (req->flags & KVD_EVICT_TIERS)
			call->rep.aux += rest_forget_cold(core, s, pages_max - call->rep.aux);
	}
	return 0;
}

int admin_check(struct core *core, struct call *call)
{
	char *text = (char *)core->handles;
	size_t size = BITS_MIN(call->req->out_bytes, 1024u);
	char none[1];
	int rc = core_check(core, size ? text : none, size ? size : sizeof(none));

	if (rc < 0 && size > 0) {
		call->rep.out_bytes = (uint32_t)strlen(text) + 1;
		call->payload = text;
	}
	return rc;
}

int admin_drain(struct core *core, struct call *call)
{
	core->draining = call->req->arg32 != 0;
	for (uint32_t s = 0; s < core->cfg.sessions_max; s++) {
		core->sessions[s].row.draining = core->draining;
		session_show_row(core, s);
	}
	if (core->draining)
		wait_drain(core);
	return 0;
}
