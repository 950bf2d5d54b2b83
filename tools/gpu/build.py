#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Configures and builds all that the other steps run; goes on past what does not compile."""
import argparse
import os
import subprocess
import sys

import deps as deps_of

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OPTIONS = ["-Dbuildtype=release", "-Dcuda=enabled"]
TARGETS = ["kvd/kvd", "engine/kvengine", "tools/kvctl/kvctl", "tests/model/tiny-model",
           "kernels/mem/libkvd-mem-cuda.so", "kernels/cuda/libkvd-ops-cuda.so", "gpu-check"]


def setup(build, env):
    if os.path.isfile(os.path.join(build, "build.ninja")):
        return 0
    return subprocess.run(["meson", "setup", build, ROOT, *OPTIONS], env=env, check=False).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("--deps", required=True)
    args = parser.parse_args()
    packed = deps_of.is_packed(args.deps)
    print(f"finding: libraries from {args.deps if packed else 'the host'}", flush=True)
    env = deps_of.environment(args.deps)
    try:
        if setup(args.build, env):
            print("failed: the build cannot be configured; see above", flush=True)
            return 1
        if subprocess.run(["ninja", "-k", "0", "-C", args.build, *TARGETS], env=env,
                          check=False).returncode:
            print("failed: not all of it compiles; see above", flush=True)
            return 1
    except FileNotFoundError as e:
        print(f"failed: there is no {e.filename} on this host", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
