#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`kvbench` measures on a device: every operation of its table has a row with a figure and a limit,
and so have products, attention, prefill and decode.

bench.py KVBENCH DEVICE TINY_MODEL"""
import json
import os
import subprocess
import sys
import tempfile

LIMITS = {"limit arithmetic", "limit memory"}
OPERATIONS = {"embed", "rmsnorm", "gemm qkv", "gemm gate up, swiglu", "rope and store",
              "attention, prefill", "attention, decode", "gather", "sample, argmax",
              "sample, top-p", "page copy"}
FP16 = {"gemm qkv, fp16"}    # GPUs alone have such products
ONE_CASE = (("gemm", "n576 k576 m8"), ("gemm", "n3072 k576 m32"),
            ("attention", "hd128 16/8 decode 2048"), ("prefill", "pp128"), ("decode", "tg128"))


def rows_of(kvbench, *args):
    """The rows; none if the program says that it failed."""
    out = subprocess.run([kvbench, "--json", "--repeat", "1", *args], capture_output=True,
                         text=True, check=False)
    print(" ".join(args), "\n" + out.stdout + out.stderr, flush=True)
    return [json.loads(line) for line in out.stdout.splitlines()] if out.returncode == 0 else []


def right(rows, bench, cases, limited):
    """Each case once, with a figure; beside it a limit, of which the fraction is right."""
    return (sorted(row["case"] for row in rows) == sorted(cases) and
            all(row["bench"] == bench and row["value"] > 0 for row in rows) and
            all(row["limit"] > 0 and abs(row["fraction"] * row["limit"] / row["value"] - 1) < 1e-3
                for row in rows if row["case"] in limited))


def measure(kvbench, device, model):
    on = ("--device", device, "--rows", "64")
    operations = OPERATIONS | (FP16 if device.startswith("cuda") else set())
    good = right(rows_of(kvbench, "ops", *on), "ops", LIMITS | operations, operations)
    for bench, case in ONE_CASE:
        good &= right(rows_of(kvbench, bench, "--case", case, "--model", model, *on), bench,
                      {case}, {case})
    return good


def main():
    kvbench, device, tiny_model = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="kvd-bench-") as folder:
        model = os.path.join(folder, "model.gguf")
        subprocess.run([tiny_model, "--gpu", model], check=True)
        return 0 if measure(kvbench, device, model) else 1


if __name__ == "__main__":
    sys.exit(main())
