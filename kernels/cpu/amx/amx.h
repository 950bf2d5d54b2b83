/* SPDX-License-Identifier: Apache-2.0 */
/* Inner kernels for AMX bf16 tiles; what tiles do not help is the AVX-512 kernel. */
#ifndef KERNELS_CPU_AMX_AMX_H
#define KERNELS_CPU_AMX_AMX_H

#include <kernels/cpu/isa.h>

extern const struct isa amx_isa;

#endif
