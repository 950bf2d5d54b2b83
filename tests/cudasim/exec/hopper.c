/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sm_90a: products of a warpgroup that run on their own, and barriers in shared memory.
 *
 * A warp computes its sixteen rows by itself; its products wait in a list, oldest first. The first
 * one under way that writes an accumulator holds the accumulator's value, and the kernel's copy is
 * NaN until the wait; the next in line takes over what it leaves.
 */
#include "tests/cudasim/exec/hopper.h"
#include "tests/cudasim/exec/block.h"
#include "tests/cudasim/exec/matrix.h"

#include <stdlib.h>
#include <string.h>

#define GROUPS_MAX 16u
#define COLUMNS_MAX (8 * GROUPS_MAX)
#define WARPS (BLOCK_THREADS_MAX / SIM_WARP)
#define WARPGROUP_WARPS 4u

struct product {
	struct product *next;
	struct sim_product lanes[SIM_WARP];
	uint32_t registers[SIM_WARP][4];
	uint32_t batch;
	struct sim_place place;
	bool gathered; /* a and b are read */
	bool holds;    /* its accumulators' values are here */
	float a[16][16];
	float b[16][COLUMNS_MAX];
	float held[SIM_WARP][GROUPS_MAX][4];
};

/* A warp's products under way. */
static struct queue {
	struct product *first;
	uint32_t batch; /* the open one */
	uint32_t made;
	bool begun;
} queues[WARPS];

static struct queue *queue_of(const struct block_thread *t)
{
	return &queues[t->index / SIM_WARP];
}

static void queue_clear(struct queue *q)
{
	while (q->first) {
		struct product *p = q->first;

		q->first = p->next;
		free(p);
	}
	*q = (struct queue){0};
}

void hopper_reset(void)
{
	for (uint32_t i = 0; i < WARPS; i++)
		if (queues[i].first || queues[i].made)
			queue_clear(&queues[i]);
}

const char *hopper_check_end(uint32_t warps)
{
	for (uint32_t i = 0; i < warps; i++)
		if (queues[i].made != queues[i / WARPGROUP_WARPS * WARPGROUP_WARPS].made)
			return "a product of a warpgroup was made by some of its warps only";
	return NULL;
}

/* Eight elements; bits 4 to 6 of their address are turned by bits 7 to 9. */
static void read_chunk(const unsigned char *at, float to[8], struct sim_place place)
{
	uintptr_t offset = (uintptr_t)at - (uintptr_t)sim_block.smem;
	const unsigned char *from = sim_block.smem + (offset ^ (offset >> 7 & 7) << 4);
	uint16_t x[8];

	memory_check_smem(from, sizeof(x), sizeof(x), "operand of a product", place);
	if (!memory_fenced(from))
		sim_fault(cudaErrorLaunchFailure, place,
			  "operand of a product: copied here, but kv_fence_async did not follow");
	memcpy(x, from, sizeof(x));
	for (uint32_t i = 0; i < 8; i++)
		to[i] = matrix_bf16_lo(x[i]);
}

/* Element `along` of line `line`. */
static const unsigned char *element(const struct sim_operand *o, uint32_t line, uint32_t along)
{
	return o->at + line / 8 * (size_t)o->step_bytes + line % 8 * 128 +
	       along / 64 * (size_t)o->column_bytes + along % 64 * 2;
}

static void gather_a(struct product *p, uint32_t warp)
{
	const struct sim_operand *a = &p->lanes[0].a;

	for (uint32_t row = 0; row < 16; row++)
		for (uint32_t k = 0; k < 16; k += 8)
			read_chunk(element(a, warp % WARPGROUP_WARPS * 16 + row, k), &p->a[row][k],
				   p->place);
}

static void gather_b(struct product *p)
{
	const struct sim_product *m = &p->lanes[0];
	float x[8];

	for (uint32_t n = 0; n < 8 * m->groups; n++) {
		for (uint32_t k = 0; k < 16 && !m->b_turned; k += 8) {
			read_chunk(element(&m->b, n, k), x, p->place);
			for (uint32_t i = 0; i < 8; i++)
				p->b[k + i][n] = x[i];
		}
		for (uint32_t k = 0; k < 16 && m->b_turned && n % 8 == 0; k++)
			read_chunk(element(&m->b, k, n), &p->b[k][n], p->place);
	}
}

static void gather_registers(struct product *p)
{
	for (uint32_t lane = 0; lane < SIM_WARP; lane++)
		for (uint32_t i = 0; i < 4; i++) {
			float *to = &p->a[lane / 4 + i % 2 * 8][lane % 4 * 2 + i / 2 * 8];

			to[0] = matrix_bf16_lo(p->registers[lane][i]);
			to[1] = matrix_bf16_hi(p->registers[lane][i]);
		}
}

static void gather(struct product *p, uint32_t warp)
{
	const struct sim_product *m = &p->lanes[0];

	if (m->a_registers)
		gather_registers(p);
	else
		gather_a(p, warp);
	gather_b(p);
	p->gathered = true;
}

/* The product takes its accumulators' values out of the kernel's sight. */
static void hold(struct product *p)
{
	for (uint32_t lane = 0; lane < SIM_WARP; lane++) {
		const struct sim_product *m = &p->lanes[lane];

		memcpy(p->held[lane], m->d, m->groups * sizeof(*m->d));
		memset(m->d, BLOCK_POISON, m->groups * sizeof(*m->d));
	}
	p->holds = true;
}

static void multiply(const struct product *p, float d[16][COLUMNS_MAX])
{
	uint32_t columns = 8 * p->lanes[0].groups;

	for (uint32_t row = 0; row < 16; row++)
		for (uint32_t k = 0; k < 16; k++)
			for (uint32_t n = 0; n < columns; n++)
				d[row][n] += p->a[row][k] * p->b[k][n];
}

/* Where register i of group `group` of a lane lies in the warp's rows. */
static float *cell(float d[16][COLUMNS_MAX], uint32_t lane, uint32_t group, uint32_t i)
{
	return &d[lane / 4 + i / 2 * 8][group * 8 + lane % 4 * 2 + i % 2];
}

static void complete(struct product *p, uint32_t warp)
{
	float d[16][COLUMNS_MAX];
	uint32_t groups = p->lanes[0].groups;

	if (!p->gathered)
		gather(p, warp);
	for (uint32_t lane = 0; lane < SIM_WARP; lane++)
		for (uint32_t g = 0; g < groups; g++)
			for (uint32_t i = 0; i < 4; i++)
				*cell(d, lane, g, i) = p->lanes[lane].add ? p->held[lane][g][i] : 0;
	multiply(p, d);
	for (uint32_t lane = 0; lane < SIM_WARP; lane++)
		for (uint32_t g = 0; g < groups; g++)
			for (uint32_t i = 0; i < 4; i++)
				p->lanes[lane].d[g][i] = *cell(d, lane, g, i);
}

/* The oldest product that writes the same accumulators goes on from what this one left. */
static void hand_over(const struct product *done, struct product *rest)
{
	for (; rest; rest = rest->next)
		if (rest->lanes[0].d == done->lanes[0].d) {
			hold(rest);
			return;
		}
}

static void begin_op(struct block_warp *w, uint32_t mask)
{
	(void)mask;
	queue_of(w->lanes)->begun = true;
}

void sim_wgmma_begin(struct sim_place place)
{
	warp_meet(0xffffffffu, begin_op, NULL, NULL, place);
}

static struct product *product_new(const struct block_warp *w)
{
	struct product *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	for (uint32_t lane = 0; lane < SIM_WARP; lane++) {
		p->lanes[lane] = *(const struct sim_product *)w->lanes[lane].in;
		if (p->lanes[lane].a_registers)
			memcpy(p->registers[lane], p->lanes[lane].a_registers,
			       sizeof(p->registers[lane]));
	}
	return p;
}

static void issue_op(struct block_warp *w, uint32_t mask)
{
	struct sim_place place = block_current()->place;
	struct queue *q = queue_of(w->lanes);
	struct product *p = product_new(w), **end = &q->first;
	bool first_of_its_kind = true;

	(void)mask;
	if (!q->begun)
		sim_fault(cudaErrorLaunchFailure, place, "kv_wgmma_begin is missing");
	if (!p)
		sim_fault(cudaErrorMemoryAllocation, place, "no memory for a product");
	p->batch = q->batch;
	p->place = place;
	for (; *end; end = &(*end)->next)
		if ((*end)->lanes[0].d == p->lanes[0].d)
			first_of_its_kind = false;
	*end = p;
	q->made++;
	if (first_of_its_kind)
		hold(p);
	if (block_random() >> 63)
		gather(p, w->lanes->index / SIM_WARP);
}

void sim_wgmma(const struct sim_product *product, struct sim_place place)
{
	warp_meet(0xffffffffu, issue_op, product, NULL, place);
}

static void commit_op(struct block_warp *w, uint32_t mask)
{
	struct queue *q = queue_of(w->lanes);

	(void)mask;
	q->batch++;
	q->begun = false;
}

void sim_wgmma_commit(struct sim_place place)
{
	warp_meet(0xffffffffu, commit_op, NULL, NULL, place);
}

static void wait_op(struct block_warp *w, uint32_t mask)
{
	struct queue *q = queue_of(w->lanes);
	uint32_t left = *(const uint32_t *)w->lanes[0].in;

	(void)mask;
	while (q->first && q->first->batch + left < q->batch) {
		struct product *p = q->first;

		complete(p, w->lanes->index / SIM_WARP);
		q->first = p->next;
		hand_over(p, q->first);
		free(p);
	}
}

void sim_wgmma_wait(uint32_t batches_left, struct sim_place place)
{
	warp_meet(0xffffffffu, wait_op, &batches_left, NULL, place);
}

void sim_fence_async(void)
{
	block_current()->fence_epoch++;
}

/* An mbarrier's word: arrivals of a phase, those that it still waits for, its parity, and a mark.
 */
#define MBARRIER_COUNT_MAX ((1u << 20) - 1)
#define MBARRIER_MARK 0x2d5u

struct mbarrier {
	uint64_t count : 20;
	uint64_t pending : 20;
	uint64_t parity : 1;
	uint64_t mark : 23;
};
_Static_assert(sizeof(struct mbarrier) == sizeof(uint64_t), "one word");

static struct mbarrier mbarrier_load(const uint64_t *bar, struct sim_place place)
{
	struct mbarrier b;

	memory_check_smem(bar, sizeof(*bar), sizeof(*bar), "mbarrier", place);
	memcpy(&b, bar, sizeof(b));
	if (b.mark != MBARRIER_MARK)
		sim_fault(cudaErrorLaunchFailure, place, "an mbarrier that nobody initialised");
	return b;
}

void sim_mbarrier_init(uint64_t *bar, uint32_t count, struct sim_place place)
{
	struct mbarrier b = {count, count, 0, MBARRIER_MARK};

	memory_check_smem(bar, sizeof(*bar), sizeof(*bar), "mbarrier", place);
	if (count == 0 || count > MBARRIER_COUNT_MAX)
		sim_fault(cudaErrorLaunchFailure, place, "an mbarrier of %u arrivals", count);
	memcpy(bar, &b, sizeof(b));
}

void sim_mbarrier_arrive(uint64_t *bar, struct sim_place place)
{
	struct mbarrier b = mbarrier_load(bar, place);

	if (--b.pending == 0) {
		b.pending = b.count;
		b.parity ^= 1;
	}
	memcpy(bar, &b, sizeof(b));
	block_progress();
}

bool sim_mbarrier_test(uint64_t *bar, uint32_t parity, struct sim_place place)
{
	if (mbarrier_load(bar, place).parity != (parity & 1))
		return true;
	sim_yield();
	return false;
}
