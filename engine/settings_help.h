/* SPDX-License-Identifier: Apache-2.0 */
/* --help and the manual page, both from the table of options. */
#ifndef ENGINE_SETTINGS_HELP_H
#define ENGINE_SETTINGS_HELP_H

#include <stdio.h>

void settings_help_text(FILE *out);
void settings_help_roff(FILE *out);

#endif
