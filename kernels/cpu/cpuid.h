/* SPDX-License-Identifier: Apache-2.0 */
/* What this processor and its kernel let a program use. Each asks once and remembers. */
#ifndef KERNELS_CPU_CPUID_H
#define KERNELS_CPU_CPUID_H

#include <stdbool.h>

bool cpuid_has_avx2(void);	 /* and FMA */
bool cpuid_has_avx512bf16(void); /* and F, BW, VL, DQ */
bool cpuid_has_amx_bf16(void);	 /* and all of avx512bf16; asks the kernel for the tile state */

#endif
