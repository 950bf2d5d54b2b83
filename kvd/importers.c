/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A short list without order. The number of a session is used again after its end, the identity of
 * a process never: what broken sessions leave behind is known by their process alone, once. So the
 * list is never longer than there are sessions and watched processes.
 */
#include "kvd/importers.h"
#include "base/bits.h"
#include <errno.h>
#include <stdlib.h>

#define IMPORTERS_ORPHAN UINT32_MAX
#define IMPORTERS_FIRST 4u

struct importer {
	uint64_t process;
	uint32_t session;
};

int importers_add(struct importers *s, uint32_t session, uint64_t process)
{
	for (uint32_t i = 0; i < s->count; i++)
		if (s->list[i].session == session)
			return 0;
	if (s->count == s->max) {
		uint32_t max = BITS_MAX(2 * s->max, IMPORTERS_FIRST);
		struct importer *grown = reallocarray(s->list, max, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		s->list = grown;
		s->max = max;
	}
	s->list[s->count++] = (struct importer){.process = process, .session = session};
	return 0;
}

void importers_drop_session(struct importers *s, uint32_t session)
{
	for (uint32_t i = s->count; i-- > 0;)
		if (s->list[i].session == session)
			s->list[i] = s->list[--s->count];
}

static bool importers_has_orphan(const struct importers *s, uint64_t process)
{
	for (uint32_t i = 0; i < s->count; i++)
		if (s->list[i].session == IMPORTERS_ORPHAN && s->list[i].process == process)
			return true;
	return false;
}

void importers_orphan_session(struct importers *s, uint32_t session)
{
	for (uint32_t i = s->count; i-- > 0;) {
		if (s->list[i].session != session)
			continue;
		if (importers_has_orphan(s, s->list[i].process))
			s->list[i] = s->list[--s->count];
		else
			s->list[i].session = IMPORTERS_ORPHAN;
	}
}

void importers_drop_orphan(struct importers *s, uint64_t process)
{
	for (uint32_t i = s->count; i-- > 0;)
		if (s->list[i].session == IMPORTERS_ORPHAN && s->list[i].process == process)
			s->list[i] = s->list[--s->count];
}

void importers_drop_process(struct importers *s, uint64_t process)
{
	for (uint32_t i = s->count; i-- > 0;)
		if (s->list[i].process == process)
			s->list[i] = s->list[--s->count];
}

void importers_fini(struct importers *s)
{
	free(s->list);
	*s = (struct importers){0};
}
