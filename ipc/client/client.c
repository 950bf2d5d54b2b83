/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.c: what every call asks first: is this handle mine, and is the daemon there?
 *
 * When the daemon is gone, calls say so and nothing else changes: slabs stay mapped until
 * kvd_close(), because kernels that were started may still read them. client_gone() only takes
 * note, so that it may be called from within a reply; kvd_wait() ends what was in flight.
 */
#include "ipc/client/client.h"
#include <errno.h>

int client_enter(const struct kvd *k)
{
	if (!k)
		return error_set(-EINVAL, "no handle");
	if (!*k->same_process)
		return error_set(-ECHILD, "the handle belongs to the process before fork()");
	return k->gone ? KVD_GONE : 0;
}

int client_enter_ring(const struct kvd *k)
{
	int r = client_enter(k);

	if (r == 0 && k->admin)
		return error_set(-EOPNOTSUPP, "an admin handle has no sequences");
	return r;
}

int client_gone(struct kvd *k, const char *reason)
{
	if (!k->gone)
		error_set(KVD_GONE, "kvd is gone: %s", reason ? reason : "session ended");
	k->gone = true;
	return KVD_GONE;
}

struct format *client_format(struct kvd *k, uint32_t id)
{
	for (uint32_t i = 0; i < k->format_count; i++)
		if (k->formats[i].id == id)
			return &k->formats[i];
	return NULL;
}
