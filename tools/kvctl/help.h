/* SPDX-License-Identifier: Apache-2.0 */
/* Help and man page from the command tables. */
#ifndef TOOLS_KVCTL_HELP_H
#define TOOLS_KVCTL_HELP_H

#include "tools/kvctl/kvctl.h"

void help_program(void);
void help_command(const struct kvctl_command *c);
/* kvctl(1), as roff. */
void help_man(void);

#endif
