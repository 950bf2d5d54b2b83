/* SPDX-License-Identifier: Apache-2.0 */
/* Who got a slab and has not given it back: sessions, and what is left of them, processes. */
#ifndef KVD_IMPORTERS_H
#define KVD_IMPORTERS_H

#include <stdbool.h>
#include <stdint.h>

struct importer;

struct importers {
	struct importer *list;
	uint32_t count;
	uint32_t max;
};

/* Once for each session, however often. 0 or -ENOMEM. */
int importers_add(struct importers *s, uint32_t session, uint64_t process);
void importers_drop_session(struct importers *s, uint32_t session);
/* The session is no more, but its process may still have the slab mapped. */
void importers_orphan_session(struct importers *s, uint32_t session);
/* It says that its ended sessions left nothing mapped; those that live stay. */
void importers_drop_orphan(struct importers *s, uint64_t process);
/* It is dead. */
void importers_drop_process(struct importers *s, uint64_t process);
void importers_fini(struct importers *s);

#endif
