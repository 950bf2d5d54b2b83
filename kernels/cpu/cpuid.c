/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processor features. The compiler's own __builtin_cpu_supports() already checks that the kernel
 * saves the vector registers; only the tile registers need a request of their own, because Linux
 * gives their 8 KiB of state per thread to processes that ask for it. The permission belongs to the
 * process and holds for every thread, so asking again is harmless. Thread-safe.
 */
#include "kernels/cpu/cpuid.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CPUID_ARCH_REQ_XCOMP_PERM 0x1023
#define CPUID_XFEATURE_XTILEDATA 18
#define CPUID_7_EDX_AMX_BF16 (1u << 22)
#define CPUID_7_EDX_AMX_TILE (1u << 24)

bool cpuid_has_avx2(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

bool cpuid_has_avx512bf16(void)
{
	return cpuid_has_avx2() && __builtin_cpu_supports("bmi2") &&
	       __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
	       __builtin_cpu_supports("avx512bf16");
}

bool cpuid_has_amx_bf16(void)
{
	const unsigned int need = CPUID_7_EDX_AMX_BF16 | CPUID_7_EDX_AMX_TILE;
	unsigned int a, b, c, d;

	if (!cpuid_has_avx512bf16() || !__get_cpuid_count(7, 0, &a, &b, &c, &d))
		return false;
	if ((d & need) != need)
		return false;
	return syscall(SYS_arch_prctl, CPUID_ARCH_REQ_XCOMP_PERM, CPUID_XFEATURE_XTILEDATA) == 0;
}
#else
bool cpuid_has_avx2(void)
{
	return false;
}

bool cpuid_has_avx512bf16(void)
{
	return false;
}

bool cpuid_has_amx_bf16(void)
{
	return false;
}
#endif
