#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""probe_says.py PROBE FILE: runs a probe of tools/gpu-check in the simulator, whose rules are known,
and compares what it finds with FILE. Figures may be any number, but must be there."""
import re
import subprocess
import sys


def main():
    probe, file = sys.argv[1:]
    run = subprocess.run([probe], capture_output=True, text=True, check=False)
    got = [re.sub(r"^(figure .*: )-?[\d.e+-]+", r"\1#", line) for line in run.stdout.splitlines()]
    with open(file, encoding="utf-8") as f:
        want = f.read().splitlines()
    if run.returncode == 0 and got == want:
        return 0
    print(run.stderr, f"exit status {run.returncode}", "--- said", *got, "--- should say", *want,
          sep="\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
