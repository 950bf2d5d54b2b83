/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A random engine: few prefixes, shared by all clients with the same universe, so that hits,
 * follows, forks and kept tails all happen; everything that is read is verified. A full pool is an
 * answer like another: it lets go of something and goes on.
 */
#include "base/units.h"
#include "tests/e2e/prf_lease.h"
#include "tests/test.h"

#define PRF_BASES 5
#define PRF_HELD_MAX 6
#define PRF_EPOCH_NS (30 * UNITS_NS_PER_MS)

struct random_run {
	struct prf_client *c;
	uint64_t state;
	uint32_t wrong;
	uint32_t named;
};

static uint32_t random_below(struct random_run *r, uint32_t n)
{
	return (uint32_t)(test_random(&r->state) % n);
}

/* One of the leases that are held, or NULL. */
static struct prf_lease *random_held(struct random_run *r)
{
	struct prf_lease *held[PRF_LEASES_MAX];
	uint32_t n = 0;

	for (int i = 0; i < PRF_LEASES_MAX; i++)
		if (r->c->leases[i].lease)
			held[n++] = &r->c->leases[i];
	return n ? held[random_below(r, n)] : NULL;
}

static uint32_t random_held_count(const struct prf_client *c)
{
	uint32_t n = 0;

	for (int i = 0; i < PRF_LEASES_MAX; i++)
		n += c->leases[i].lease != NULL;
	return n;
}

static void random_check(struct random_run *r, struct prf_lease *l)
{
	uint32_t wrong;

	(void)prf_verify(r->c, l, &wrong);
	r->wrong += wrong;
}

static void random_release(struct random_run *r)
{
	struct prf_lease *l = random_held(r);

	if (!l)
		return;
	random_check(r, l);
	if (!r->c->gone)
		(void)prf_release(r->c, l, random_below(r, 2));
}

static struct prf_lease *random_place(struct random_run *r)
{
	char name[16];

	snprintf(name, sizeof(name), "r%u", r->named++);
	return prf_place_for(r->c, name);
}

/* All clients move on to new prefixes at the same time, or soon everything would be cached and
 * nothing be built at the same time. */
static uint32_t random_base(struct random_run *r)
{
	uint64_t epoch = units_now_ns() / PRF_EPOCH_NS;

	return (uint32_t)(epoch % 100000) * 10 + random_below(r, PRF_BASES);
}

static void random_acquire(struct random_run *r)
{
	struct prf_lease *l = random_place(r);
	char text[96];

	snprintf(text, sizeof(text), "%u:%u+%u:%u", random_base(r), 1 + random_below(r, 12) * 13,
		 100 + random_below(r, 3), random_below(r, 40));
	if (prf_acquire(r->c, l, text, random_below(r, 2), 200, 0) != 0)
		return;
	if (prf_run(r->c, l) == 0)
		random_check(r, l);
	else if (!r->c->gone)
		(void)prf_release(r->c, l, false);
}

static void random_decode(struct random_run *r)
{
	struct prf_lease *l = random_held(r);
	char text[32];

	snprintf(text, sizeof(text), "%u:%u", 200 + random_below(r, 2), 1 + random_below(r, 30));
	if (l && l->next == l->seq.count && prf_decode(r->c, l, text) == 0)
		random_check(r, l);
}

static void random_fork(struct random_run *r)
{
	struct prf_lease *parent = random_held(r);
	struct prf_lease *l = random_place(r);

	if (parent && parent->next == parent->seq.count && prf_fork(r->c, parent, l) == 0 &&
	    prf_run(r->c, l) == 0)
		random_check(r, l);
}

int prf_random(struct prf_client *c, uint64_t seed, uint32_t steps)
{
	struct random_run r = {.c = c, .state = seed};

	for (uint32_t i = 0; i < steps && !c->gone; i++) {
		uint32_t what = random_below(&r, 10);
		if (random_held_count(c) >= PRF_HELD_MAX || what >= 8)
			random_release(&r);
		else if (what < 5)
			random_acquire(&r);
		else if (what < 7)
			random_decode(&r);
		else
			random_fork(&r);
	}
	while (!c->gone && random_held(&r))
		random_release(&r);
	return c->gone ? -1 : (int)r.wrong;
}
