#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What nvcc made of the kernels: a table of registers and shared memory, from the reports that
kernels/cuda/compile.py kept. Every .cu must be there, for every architecture, without a warning.
Exits 77 where no toolkit is.

nvcc.py FOLDER [REPORT]..."""
import glob
import os
import re
import subprocess
import sys

ARCHITECTURES = ("sm_80", "sm_90a")
KERNEL = re.compile(r"Compiling entry function '(\w+)' for '(sm_\w+)'")
SPILLED = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?")


def rows(path):
    """(architecture, mangled kernel, registers, static shared bytes, spilled bytes)"""
    kernel, arch, spilled = "", "", 0
    with open(path, encoding="utf-8") as f:
        for line in f:
            if at := KERNEL.search(line):
                kernel, arch = at.groups()
            elif at := SPILLED.search(line):
                spilled = int(at.group(1)) + int(at.group(2))
            elif at := USED.search(line):
                yield arch, kernel, int(at.group(1)), int(at.group(2) or 0), spilled


def warnings(path):
    with open(path, encoding="utf-8") as f:
        return sum("warning" in line.lower() for line in f)


def plain(kernel):
    try:
        name = subprocess.run(["c++filt", kernel], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return kernel
    return re.sub(r"\(anonymous namespace\)::|\(.*", "", name.strip())[:60]


def main():
    folder, *reports = sys.argv[1:]
    if not reports:
        print("CUDA: no nvcc with its toolkit on this machine; the kernels run in the simulator alone")
        return 77
    bad, kernels, total, warned = [], set(), 0, 0
    sources = {os.path.basename(path) for path in glob.glob(os.path.join(folder, "*.cu"))}
    bad += [f"{name} is not compiled"
            for name in sources - {os.path.basename(path)[:-len(".report")] for path in reports}]
    print(f"{'kernel':60} {'arch':7} registers  shared  spilled")
    for path in sorted(reports):
        seen = set()
        for arch, kernel, registers, shared, spilled in rows(path):
            seen.add(arch)
            kernels.add((path, kernel))
            total += spilled
            print(f"{plain(kernel):60} {arch:7} {registers:9} {shared:7} {spilled:8}")
        warned += warnings(path)
        bad += [f"{path}: nothing for {arch}" for arch in ARCHITECTURES if arch not in seen]
    print(f"CUDA: {len(reports)} files, {len(kernels)} kernels, each for {' and '.join(ARCHITECTURES)}, "
          f"{warned} warnings, {total} bytes spilled")
    for line in bad:
        print(line)
    return 1 if bad or warned else 0


if __name__ == "__main__":
    sys.exit(main())
