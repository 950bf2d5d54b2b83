/* SPDX-License-Identifier: Apache-2.0 */
/* --help and the manual page, both from the table of options. */
#ifndef ENGINE_MANUAL_H
#define ENGINE_MANUAL_H

#include <stdio.h>

void manual_text(FILE *out);
void manual_roff(FILE *out);

#endif
