/* SPDX-License-Identifier: Apache-2.0 */
/* check_users.h: the part of the check that is about sessions, leases, groups and waiting. */
#ifndef KVD_CORE_CHECK_USERS_H
#define KVD_CORE_CHECK_USERS_H

#include "kvd/core/check.h"

void check_users_leases(struct check *c);
void check_users_sessions(struct check *c);
void check_users_spaces(struct check *c);
void check_users_waiting(struct check *c);

#endif
