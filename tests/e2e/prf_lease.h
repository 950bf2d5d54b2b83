/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine does with leases, done by the test client: acquire, compute, follow, decode. */
#ifndef TESTS_E2E_PRF_LEASE_H
#define TESTS_E2E_PRF_LEASE_H

#include "tests/e2e/prf.h"
#include "tests/e2e/prf_gpu.h"
#include <kvd.h>
#include <stdbool.h>

#define PRF_LEASES_MAX 32

struct prf_lease {
	char name[16];
	struct kvd_lease *lease; /* NULL: the place is free */
	struct prf_sequence seq; /* prompt and decoded tokens */
	uint32_t next;		 /* first token that this lease still has to write */
	bool answered;
	int result;
	struct kvd_rep_full full;
};

struct prf_client {
	struct kvd *k;
	uint32_t format;
	struct prf_page page;
	struct prf_gpu *gpu; /* NULL: pages are host memory */
	struct prf_lease leases[PRF_LEASES_MAX];
	bool gone;
	uint32_t patience_ms; /* before TAKE */
	uint32_t dawdle_us;   /* per block, as if there were something to compute */
	uint32_t kept;	      /* SEALs that lost a race */
	bool topup_answered;
	int topup_result;
};

/* Takes events for at most timeout_ms. False when the daemon is gone. */
bool prf_pump(struct prf_client *c, uint32_t timeout_ms);
struct prf_lease *prf_find(struct prf_client *c, const char *name);
struct prf_lease *prf_place_for(struct prf_client *c, const char *name);

/* All return a result of kvd.h: 0, an outcome, or -errno. */
int prf_acquire(struct prf_client *c, struct prf_lease *l, const char *text, uint32_t decode_blocks,
		uint32_t deadline_ms, uint32_t flags);
int prf_extend(struct prf_client *c, struct prf_lease *l, uint32_t flags);
/* Writes and seals at most `blocks` blocks of the prompt. */
int prf_compute(struct prf_client *c, struct prf_lease *l, uint32_t blocks);
/* Until the whole prompt is in place: computes, follows, answers calls, takes over. */
int prf_run(struct prf_client *c, struct prf_lease *l);
/* Appends the text's tokens one by one, on magazine pages where the lease has none. */
int prf_decode(struct prf_client *c, struct prf_lease *l, const char *text);
int prf_fork(struct prf_client *c, struct prf_lease *parent, struct prf_lease *l);
int prf_release(struct prf_client *c, struct prf_lease *l, bool keep_tail);
int prf_topup(struct prf_client *c, uint32_t blocks);
/* Tokens of the lease that are in place; *out_wrong of them have wrong bytes. */
uint32_t prf_verify(struct prf_client *c, struct prf_lease *l, uint32_t *out_wrong);

/* `steps` random acts, verifying all that is read. The number of wrong tokens, or -1 when the
 * daemon is gone. */
int prf_random(struct prf_client *c, uint64_t seed, uint32_t steps);

#endif
