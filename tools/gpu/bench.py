#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs one bench of kvbench on the GPU; its rows are figures, beside their part of the limit."""
import argparse
import json
import os
import subprocess
import sys

import scene
from processes import StartError  # scene made its folder known


def model_of(args):
    return args.model or scene.write_model(args.build, args.work)


def say(line):
    """One row, as a figure. What is no row is the program's own words."""
    try:
        row = json.loads(line)
    except ValueError:
        print(line, flush=True)
        return
    of = f", {100 * row['fraction']:.1f} % of the limit" if row["fraction"] else ""
    print(f"figure {row['bench']} {row['case']}: {row['value']:.4g} {row['unit']}{of}", flush=True)


def run(args):
    argv = [os.path.join(args.build, "tools", "kvbench", "kvbench"), "--json", "--device",
            args.device, args.bench]
    if args.bench in ("prefill", "decode"):
        argv += ["--model", model_of(args)]
    modules = args.modules or scene.link_modules(args.build, os.path.join(args.work, "modules"))
    env = {**os.environ, "KVD_MODULE_DIR": os.path.abspath(modules)}
    with subprocess.Popen(argv + args.option, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, env=env) as process:
        last = ""
        for line in process.stdout:
            last = line.strip()
            say(last)
    if process.returncode:
        print(f"failed: {last or 'exit status %d' % process.returncode}", flush=True)
    return 1 if process.returncode else 0


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bench", choices=["ops", "gemm", "attention", "prefill", "decode"])
    parser.add_argument("--build", required=True, help="the build folder")
    parser.add_argument("--work", required=True, help="for the model and links")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--modules", help="their folder; default: the build's for a real GPU")
    parser.add_argument("--model", help="a GGUF file; default: one that is written here")
    parser.add_argument("--option", metavar="ARG", action="append", default=[],
                        help="one more argument of kvbench, as --option=--repeat=1")
    return parser.parse_args()


def main():
    args = parse()
    os.makedirs(args.work, exist_ok=True)
    try:
        return run(args)
    except (OSError, StartError) as e:
        print(f"failed: {e}", flush=True)
        return 1


if __name__ == "__main__":
    sys.exit(main())
