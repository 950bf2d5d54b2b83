#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the simulator's headers with a toolkit's: every number that both have a name for.

    values.py COMPILER INCLUDE_DIR

Exits 77 where there is no toolkit (CUDA_HOME, /usr/local/cuda).
"""
import os
import re
import subprocess
import sys
import tempfile

HEADERS = ["cuda.h", "cuda_runtime_api.h"]


def names_of(include):
    found = []
    for header in HEADERS:
        with open(os.path.join(include, header), encoding="utf-8") as f:
            text = f.read()
        found += re.findall(r"^\t((?:cuda|CU_|CUDA_)\w+) = ", text, re.M)
        found += re.findall(r"^#define (cuda\w+) (?:0x|\(\(int\))", text, re.M)
        found += ["cuda" + n for n in re.findall(r"X\((Success|Error\w+), \d+,", text)]
    return sorted(set(found))


def values(compiler, include, names):
    lines = ["#include <stdio.h>"] + [f"#include <{h}>" for h in HEADERS] + ["int main(void) {"]
    lines += [f'printf("{n} %lld\\n", (long long){n});' for n in names] + ["}"]
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "values.c")
        with open(source, "w", encoding="utf-8") as f:
            f.write("\n".join(lines))
        subprocess.run([compiler, "-I", include, "-o", folder + "/values", source], check=True)
        return subprocess.run([folder + "/values"], capture_output=True, text=True,
                              check=True).stdout.splitlines()


def main():
    compiler, include = sys.argv[1:3]
    toolkit = os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "include")
    if not os.path.isfile(os.path.join(toolkit, "cuda_runtime_api.h")):
        print(f"skipped: no CUDA toolkit in {toolkit}")
        return 77
    names = names_of(include)
    ours = values(compiler, include, names)
    theirs = values(compiler, toolkit, names)
    different = [(a, b) for a, b in zip(ours, theirs) if a != b]
    for a, b in different:
        print(f"here {a}, in the toolkit {b}")
    print(f"{len(names)} names, {len(different)} differ")
    return 1 if different or len(names) < 150 else 0


if __name__ == "__main__":
    sys.exit(main())
