/* SPDX-License-Identifier: Apache-2.0 */
/* --help and the manual page, both made from the table of options. */
#ifndef KVD_MANUAL_H
#define KVD_MANUAL_H

#include <stdio.h>

void manual_help(FILE *out);
/* roff for kvd(8). */
void manual_roff(FILE *out);

#endif
