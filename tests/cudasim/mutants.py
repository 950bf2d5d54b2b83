#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each mutant of the CUDA code (base/mutant.h) must be seen by the test that is named for it, and
the same test must pass without it.

mutants.py TEST=PROGRAM[,ARGUMENT]..."""
import os
import subprocess
import sys

TIMEOUT_SECONDS = 120
# A fault that somebody could make, and who sees it.
MUTANTS = (
    ("attn_no_wait", "attn"),               # keys are used before their copy was waited for
    ("attn_no_barrier", "attn"),            # or before other threads' copies were
    ("attn_causal_by_tile", "attn"),        # a row sees what the last row of its tile sees
    ("attn_fold_unweighted", "attn"),       # splits are added as if their maxima were equal
    ("norm_no_barrier", "ops_kernels"),     # warps' sums are read before they are there
    ("rope_stores_queries", "ops_kernels"), # a query-only row writes into a sealed page
    ("gemm_unpinned", "ops_step"),          # the library chooses by the number of rows
    ("step_not_awaited", "ops_step"),       # results, and so SEAL, before the step's event
    ("step_batch_overwritten", "ops_step"), # the next batch while kernels still read this one
    ("step_before_its_batch", "ops_step"),  # kernels before their batch was copied
    ("step_results_early", "ops_step"),     # results are copied before they are computed
    ("step_drawn_by_host", "ops_step"),     # a draw is read on the host before it is there
    ("step_staging_reused", "ops_step"),    # a staging buffer is written while it is copied
    ("ipc_stale_import", "mem_ipc"),        # an import outlives its last use
    ("vmm_views_alike", "mem_vmm"),         # what is for reading can be written
)


def passes(command, mutant):
    env = {**os.environ, "KVD_MUTANT": mutant}
    try:
        done = subprocess.run(command, env=env, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, timeout=TIMEOUT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def main():
    tests = {}
    for argument in sys.argv[1:]:
        name, command = argument.split("=", 1)
        tests[name] = command.split(",")
    bad = [f"{name} fails without a mutant" for name, command in tests.items()
           if not passes(command, "none")]
    for mutant, name in MUTANTS:
        seen = not passes(tests[name], mutant)
        print(f"{mutant:24} {name:12} {'seen' if seen else 'NOT SEEN'}", flush=True)
        if not seen:
            bad.append(f"{mutant} is not seen by {name}")
    print(f"{len(MUTANTS)} mutants, {len(bad)} faults")
    for line in bad:
        print(line)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
