/* SPDX-License-Identifier: Apache-2.0 */
/* --help and the manual page, both made from the table of options. */
#ifndef KVD_USAGE_H
#define KVD_USAGE_H

#include <stdio.h>

void usage_help(FILE *out);
/* roff for kvd(8). */
void usage_man(FILE *out);

#endif
