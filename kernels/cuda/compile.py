#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles one .cu and keeps what ptxas says of it. Any warning fails, and so does a spill, but for
those that were measured and found to pay (SPILLS). ptxas only tells of spills (-v): asked to warn of
them it would refuse those as well.

compile.py REPORT NVCC ARGUMENT..."""
import re
import subprocess
import sys

# Kernel (a part of its mangled name) and architecture, whose spills pay, with the figure that says so.
SPILLS = {}

KERNEL = re.compile(r"Compiling entry function '(\w+)' for '(sm_\w+)'")
SPILLED = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")


def spills(report):
    """[(kernel, architecture, what ptxas says)] that are not allowed."""
    found, kernel, arch = [], "", ""
    for line in report.splitlines():
        at = KERNEL.search(line)
        if at:
            kernel, arch = at.groups()
        spilled = SPILLED.search(line)
        if spilled and spilled.groups() != ("0", "0") and not any(
                part in kernel and on == arch for part, on in SPILLS):
            found.append((kernel, arch, spilled.group(0)))
    return found


def main():
    path, *command = sys.argv[1:]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    with open(path, "w", encoding="utf-8") as f:
        f.write(done.stdout)
    bad = spills(done.stdout)
    warned = "warning" in done.stdout.lower()
    if done.returncode != 0 or bad or warned:
        print(done.stdout, file=sys.stderr)
    for kernel, arch, words in bad:
        print(f"{kernel} on {arch}: {words}", file=sys.stderr)
    return done.returncode or bool(bad) or warned


if __name__ == "__main__":
    sys.exit(main())
