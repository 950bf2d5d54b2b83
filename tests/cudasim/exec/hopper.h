/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulator's side of kernels/cuda/hopper.cuh, which says what each function means.
 *
 * A product reads its operands at its issue or at the wait that covers it, as the seed says; from
 * its issue to that wait its accumulators are NaN. Reported beside what exec.h names: operands that
 * are not in shared memory; a copy's bytes whose thread has not called kv_fence_async since they
 * landed; a batch without kv_wgmma_begin; a product that only some warps of the warpgroup make; an
 * mbarrier that nobody initialised.
 */
#ifndef CUDASIM_EXEC_HOPPER_H
#define CUDASIM_EXEC_HOPPER_H

#include "tests/cudasim/exec/exec.h"

#ifdef __cplusplus
extern "C" {
#endif

/* In lines of 128 bytes, swizzled by the bits of the address. */
struct sim_operand {
	const unsigned char *at;
	uint32_t column_bytes; /* from 64 elements along a line to the next 64 */
	uint32_t step_bytes;   /* from 8 lines to the next 8 */
};

/* One thread's part of a product of 64 rows, `groups` * 8 columns and 16 summed elements. */
struct sim_product {
	float (*d)[4]; /* `groups` of them */
	uint32_t groups;
	const uint32_t *a_registers; /* NULL: a lies in shared memory */
	struct sim_operand a;
	struct sim_operand b;
	bool b_turned; /* a line of b is one summed element's */
	bool add;
};

void sim_wgmma_begin(struct sim_place place);
void sim_wgmma(const struct sim_product *product, struct sim_place place);
void sim_wgmma_commit(struct sim_place place);
void sim_wgmma_wait(uint32_t batches_left, struct sim_place place);
void sim_fence_async(void);

void sim_mbarrier_init(uint64_t *bar, uint32_t count, struct sim_place place);
void sim_mbarrier_arrive(uint64_t *bar, struct sim_place place);
/* Lets others run when the phase has not ended. */
bool sim_mbarrier_test(uint64_t *bar, uint32_t parity, struct sim_place place);

#ifdef __cplusplus
}

struct kv_operand : sim_operand {
};

KV_DEVICE kv_operand kv_operand_of(const void *at, uint32_t column_bytes, uint32_t step_bytes)
{
	kv_operand o;

	o.at = static_cast<const unsigned char *>(at);
	o.column_bytes = column_bytes;
	o.step_bytes = step_bytes;
	return o;
}

KV_DEVICE kv_operand kv_operand_skip(kv_operand o, uint32_t bytes)
{
	o.at += bytes;
	return o;
}

KV_DEVICE void kv_wgmma_begin(SIM_PLACE)
{
	sim_wgmma_begin(SIM_HERE);
}

KV_DEVICE void kv_wgmma_commit(SIM_PLACE)
{
	sim_wgmma_commit(SIM_HERE);
}

template <int N> KV_DEVICE void kv_wgmma_wait(SIM_PLACE)
{
	sim_wgmma_wait(N, SIM_HERE);
}

template <int N> KV_DEVICE void kv_wgmma_hold(float (*)[4])
{
}

KV_DEVICE void kv_wgmma_64x64(float (*d)[4], kv_operand a, kv_operand b, bool add, SIM_PLACE)
{
	const sim_product product = {d, 8, nullptr, a, b, false, add};

	sim_wgmma(&product, SIM_HERE);
}

KV_DEVICE void kv_wgmma_64x64_turned(float (*d)[4], const uint32_t a[4], kv_operand b, SIM_PLACE)
{
	const sim_product product = {d, 8, a, {}, b, true, true};

	sim_wgmma(&product, SIM_HERE);
}

KV_DEVICE void kv_wgmma_64x128_turned(float (*d)[4], const uint32_t a[4], kv_operand b, SIM_PLACE)
{
	const sim_product product = {d, 16, a, {}, b, true, true};

	sim_wgmma(&product, SIM_HERE);
}

KV_DEVICE void kv_fence_async()
{
	sim_fence_async();
}

KV_DEVICE void kv_mbarrier_init(uint64_t *bar, uint32_t count, SIM_PLACE)
{
	sim_mbarrier_init(bar, count, SIM_HERE);
}

KV_DEVICE void kv_mbarrier_arrive(uint64_t *bar, SIM_PLACE)
{
	sim_mbarrier_arrive(bar, SIM_HERE);
}

KV_DEVICE bool kv_mbarrier_test(uint64_t *bar, uint32_t parity, SIM_PLACE)
{
	return sim_mbarrier_test(bar, parity, SIM_HERE);
}

KV_DEVICE void kv_mbarrier_wait(uint64_t *bar, uint32_t parity, SIM_PLACE)
{
	while (!sim_mbarrier_test(bar, parity, SIM_HERE))
		;
}

/* Registers are not counted here. */
template <int N> KV_DEVICE void kv_registers_raise()
{
}

template <int N> KV_DEVICE void kv_registers_drop()
{
}

#endif
#endif
