/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine's limits, by loops that do nothing else: independent chains of one instruction on
 * registers for FLOP/s, a plain sweep and memcpy over memory for bytes. The operands are ordinary
 * numbers, because a tile unit fed with zeros runs faster than any real product. All threads run
 * the same sample at once, on the kernels' own team.
 */
#include "tools/kvbench/limits.h"

#include <base/bits.h>
#include <base/units.h>
#include <kernels/cpu/cpuid.h>
#include <kernels/cpu/team.h>
#include <string.h>
#include <sys/mman.h>

#define LIMITS_SAMPLES 9 /* at least */
#define LIMITS_NS (200 * UNITS_NS_PER_MS)
#define LIMITS_ROUNDS 20000u
#define LIMITS_BYTES UNITS_GIB /* of all threads together: beyond any cache */

/* One sample on one thread: how much it did. memory[bytes] is its own; NULL if it wants none. */
typedef double limits_fn(char *memory, size_t bytes);

struct limits_job {
	limits_fn *fn;
	char *memory;
	double done[TEAM_THREADS_MAX];
};

static void limits_thread(void *arg, uint32_t index, uint32_t count)
{
	struct limits_job *j = arg;
	size_t bytes = LIMITS_BYTES / count / 128 * 128;

	j->done[index] = j->fn(j->memory ? j->memory + index * bytes : NULL, bytes);
}

static double limits_sample(struct team *t, struct limits_job *job)
{
	uint64_t start_ns = units_now_ns();
	double done = 0;

	team_run(t, limits_thread, job);
	for (uint32_t i = 0; i < team_threads(t); i++)
		done += job->done[i];
	return done * 1e9 / (double)(units_now_ns() - start_ns);
}

/* The best sample, or 0 when there is no memory for it. */
static double limits_measure(limits_fn *fn, uint32_t threads, bool wants_memory)
{
	static struct limits_job job;
	struct team *t;
	double best = 0;

	if (team_new(threads, &t) != 0)
		return 0;
	job.fn = fn;
	job.memory = NULL;
	if (wants_memory) {
		job.memory = mmap(NULL, LIMITS_BYTES, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		if (job.memory == MAP_FAILED) {
			team_free(t);
			return 0;
		}
		memset(job.memory, 1, LIMITS_BYTES);
	}
	uint64_t start_ns = units_now_ns();

	/* Short samples, but for so long that others on this machine cannot spoil all of them. */
	for (int i = 0; i < LIMITS_SAMPLES || units_now_ns() - start_ns < LIMITS_NS; i++) {
		double rate = limits_sample(t, &job);

		best = BITS_MAX(best, rate);
	}
	if (job.memory)
		munmap(job.memory, LIMITS_BYTES);
	team_free(t);
	return best;
}

/* Eight independent chains in a, b constant: the compiler keeps all in registers. */
typedef float limits_floats __attribute__((vector_size(16)));

static double limits_plain(char *memory, size_t bytes)
{
	limits_floats a[8], b = {0.5f, 0.5f, 0.5f, 0.5f};

	(void)memory;
	(void)bytes;
	for (int i = 0; i < 8; i++)
		a[i] = b;
	for (uint32_t n = 0; n < LIMITS_ROUNDS; n++)
		for (int i = 0; i < 8; i++) {
			a[i] = a[i] * b + b;
			__asm__ volatile("" : "+x"(a[i]));
		}
	return LIMITS_ROUNDS * 8.0 * 4 * 2;
}

#if defined(__x86_64__)
/* Twelve chains of `instruction`; the result is of no interest, and the upper halves are left. */
#define LIMITS_OP(instruction, reg, to) instruction " %%" reg "14, %%" reg "15, %%" reg to "\n"
#define LIMITS_CHAINS(instruction, reg)                                                            \
	do {                                                                                       \
		for (uint32_t n = 0; n < LIMITS_ROUNDS; n++)                                       \
			__asm__ volatile(                                                          \
				LIMITS_OP(instruction, reg, "0") LIMITS_OP(                        \
					instruction, reg, "1") LIMITS_OP(instruction, reg, "2")    \
					LIMITS_OP(instruction, reg, "3") LIMITS_OP(                \
						instruction, reg, "4") LIMITS_OP(instruction, reg, \
										 "5")              \
						LIMITS_OP(instruction, reg, "6") LIMITS_OP(        \
							instruction, reg,                          \
							"7") LIMITS_OP(instruction, reg, "8")      \
							LIMITS_OP(instruction, reg, "9")           \
								LIMITS_OP(instruction, reg, "10")  \
									LIMITS_OP(instruction,     \
										  reg, "11")::     \
										: "xmm0", "xmm1",  \
										  "xmm2", "xmm3",  \
										  "xmm4", "xmm5",  \
										  "xmm6", "xmm7",  \
										  "xmm8", "xmm9",  \
										  "xmm10",         \
										  "xmm11");        \
		__asm__ volatile("vzeroupper" ::);                                                 \
	} while (0)

static double limits_fma256(char *memory, size_t bytes)
{
	(void)memory;
	(void)bytes;
	LIMITS_CHAINS("vfmadd231ps", "ymm");
	return LIMITS_ROUNDS * 12.0 * 8 * 2;
}

static double limits_fma512(char *memory, size_t bytes)
{
	(void)memory;
	(void)bytes;
	LIMITS_CHAINS("vfmadd231ps", "zmm");
	return LIMITS_ROUNDS * 12.0 * 16 * 2;
}

static double limits_dpbf16(char *memory, size_t bytes)
{
	(void)memory;
	(void)bytes;
	LIMITS_CHAINS("vdpbf16ps", "zmm");
	return LIMITS_ROUNDS * 12.0 * 32 * 2;
}

static double limits_vnni512(char *memory, size_t bytes)
{
	(void)memory;
	(void)bytes;
	LIMITS_CHAINS("vpdpbusd", "zmm");
	return LIMITS_ROUNDS * 12.0 * 64 * 2;
}

/* Eight full tiles, four sums; operands from `values`. */
static void limits_tiles(const void *values)
{
	struct {
		uint8_t palette, start_row, reserved[14];
		uint16_t row_bytes[16];
		uint8_t rows[16];
	} config = {.palette = 1};

	for (int i = 0; i < 8; i++) {
		config.row_bytes[i] = 64;
		config.rows[i] = 16;
	}
	__asm__ volatile("ldtilecfg %0\n"
			 "tileloadd (%1,%2,1), %%tmm4\n"
			 "tileloadd (%1,%2,1), %%tmm5\n"
			 "tileloadd (%1,%2,1), %%tmm6\n"
			 "tileloadd (%1,%2,1), %%tmm7\n" ::"m"(config),
			 "r"(values), "r"(64ul)
			 : "memory");
}

#define LIMITS_TILE_DOTS(instruction)                                                              \
	for (uint32_t n = 0; n < LIMITS_ROUNDS; n++)                                               \
	__asm__ volatile(instruction " %%tmm6, %%tmm4, %%tmm0\n" instruction                       \
				     " %%tmm7, %%tmm4, %%tmm1\n" instruction                       \
				     " %%tmm6, %%tmm5, %%tmm2\n" instruction                       \
				     " %%tmm7, %%tmm5, %%tmm3\n" ::)

static double limits_tile_bf16(char *memory, size_t bytes)
{
	uint16_t values[16][32];

	(void)memory;
	(void)bytes;
	for (uint32_t i = 0; i < 512; i++)
		values[i / 32][i % 32] = (uint16_t)(0x3c00 + i * 7919 % 997);
	limits_tiles(values);
	LIMITS_TILE_DOTS("tdpbf16ps");
	__asm__ volatile("tilerelease" ::);
	return LIMITS_ROUNDS * 4.0 * 16 * 16 * 32 * 2;
}
#endif

static limits_fn *limits_best_bf16(void)
{
#if defined(__x86_64__)
	if (cpuid_has_amx_bf16())
		return limits_tile_bf16;
	if (cpuid_has_avx512bf16())
		return limits_dpbf16;
	if (cpuid_has_avx2())
		return limits_fma256;
#endif
	return limits_plain;
}

static limits_fn *limits_best_f32(void)
{
#if defined(__x86_64__)
	if (cpuid_has_avx512bf16())
		return limits_fma512;
	if (cpuid_has_avx2())
		return limits_fma256;
#endif
	return limits_plain;
}

static limits_fn *limits_best_int8(void)
{
#if defined(__x86_64__)
	if (cpuid_has_avx512bf16() && __builtin_cpu_supports("avx512vnni"))
		return limits_vnni512;
#endif
	return limits_best_f32();
}

static double limits_read(char *memory, size_t bytes)
{
	const limits_floats *p = (const limits_floats *)memory;
	limits_floats sum[8] = {0};

	for (size_t i = 0; i < bytes / sizeof(*p); i += 8)
		for (size_t l = 0; l < 8; l++)
			sum[l] += p[i + l];
	for (size_t l = 0; l < 8; l++)
		__asm__ volatile("" ::"x"(sum[l]));
	return (double)bytes;
}

static double limits_copy(char *memory, size_t bytes)
{
	memcpy(memory, memory + bytes / 2, bytes / 2);
	__asm__ volatile("" ::"r"(memory) : "memory");
	return (double)(bytes / 2);
}

double limits_bf16_flops(uint32_t threads)
{
	return limits_measure(limits_best_bf16(), threads, false);
}

double limits_f32_flops(uint32_t threads)
{
	return limits_measure(limits_best_f32(), threads, false);
}

double limits_int8_ops(uint32_t threads)
{
	return limits_measure(limits_best_int8(), threads, false);
}

double limits_read_bytes_per_s(uint32_t threads)
{
	return limits_measure(limits_read, threads, true);
}

double limits_copy_bytes_per_s(uint32_t threads)
{
	return limits_measure(limits_copy, threads, true);
}
