/* SPDX-License-Identifier: Apache-2.0 */
/* --help and the manual page, both made from the table of options. */
#ifndef KVD_HELP_H
#define KVD_HELP_H

#include <stdio.h>

void help_text(FILE *out);
/* roff for kvd(8). */
void help_man(FILE *out);

#endif
