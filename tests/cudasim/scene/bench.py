#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every operation of a device's table has a row in `kvbench ops`, with a figure.

bench.py KVBENCH DEVICE"""
import json
import subprocess
import sys

CASES = {"limit product", "limit page copy", "embed", "rmsnorm", "gemm qkv", "gemm gate up, swiglu",
         "rope and store", "attention, prefill", "attention, decode", "gather", "sample, argmax",
         "sample, top-p"}


def main():
    kvbench, device = sys.argv[1:]
    out = subprocess.run([kvbench, "ops", "--json", "--device", device, "--rows", "64",
                          "--repeat", "1"], capture_output=True, text=True, check=False)
    rows = [json.loads(line) for line in out.stdout.splitlines()]
    print(out.stdout + out.stderr)
    good = out.returncode == 0 and {row["case"] for row in rows} == CASES and all(
        row["bench"] == "ops" and row["value"] > 0 for row in rows)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
