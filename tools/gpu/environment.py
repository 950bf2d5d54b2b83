#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the host is, as far as the CUDA path depends on it. Asks only; fails if there is no GPU's
driver or no compiler for it, for then nothing else can run."""
import argparse
import os
import platform
import resource
import shutil
import subprocess

import deps as deps_of

NVCC = ("nvcc", "/usr/local/cuda/bin/nvcc")
QUERY = ("name", "driver_version", "memory.total", "mig.mode.current", "compute_mode", "pstate")
SECONDS = 10  # nvidia-smi hangs where the driver does


def finding(text):
    print(f"finding: {text}", flush=True)


def output(*argv):
    """What a program says, or None."""
    try:
        run = subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return run.stdout.strip() if run.returncode == 0 else None


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read().strip()
    except OSError:
        return None


def say_gpu():
    """Whether a driver is there."""
    listed = output("nvidia-smi", f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader")
    version = read("/proc/driver/nvidia/version")
    if listed:
        for line in listed.splitlines():
            values = dict(zip(QUERY, (v.strip() for v in line.split(","))))
            finding(f"{values['name']}, {values['memory.total']}, driver {values['driver_version']}, "
                    f"MIG {values['mig.mode.current']}, compute mode {values['compute_mode']}")
        slices = (output("nvidia-smi", "-L") or "").count("MIG ")
        if slices:
            finding(f"{slices} MIG slices: use cuda-vmm there, slices have no handles")
    elif version:
        finding(f"no nvidia-smi; {version.splitlines()[0]}")
    elif os.path.exists("/dev/nvidia0"):
        finding("no nvidia-smi and no driver's version, but a /dev/nvidia0")
    else:
        print("failed: there is no NVIDIA driver on this host", flush=True)
        return False
    return True


def say_mps():
    found = [read(f"/proc/{pid}/comm") for pid in os.listdir("/proc") if pid.isdigit()]
    running = sum(bool(comm) and comm.startswith("nvidia-cuda-mps") for comm in found)
    finding(f"MPS: {'running' if running else 'not running'}, control program "
            f"{'there' if shutil.which('nvidia-cuda-mps-control') else 'not there'}")


def limit(value):
    return "unlimited" if value == resource.RLIM_INFINITY else f"{value >> 10} KiB"


def say_host():
    numbers = next((line.split()[1:] for line in (read("/proc/self/status") or "").splitlines()
                    if line.startswith("NSpid:")), [])
    where = "a PID namespace of its own" if len(numbers) > 1 else "no nested PID namespace seen"
    finding(f"Linux {platform.release()}, {platform.machine()}, {os.cpu_count()} processors, {where}")
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    finding(f"memlock {limit(soft)} (hard {limit(hard)}), uid {os.getuid()}, /dev/shm "
            f"{'there' if os.path.isdir('/dev/shm') else 'NOT there'}, yama "
            f"{read('/proc/sys/kernel/yama/ptrace_scope') or 'off'}")


def first_line(*argv):
    return (output(*argv) or "not there").splitlines()[0]


def say_tools(folder):
    """Whether a CUDA compiler is there."""
    env = deps_of.environment(folder)
    finding(f"{first_line('gcc', '--version')}; python {platform.python_version()}; meson "
            f"{first_line('meson', '--version')}; ninja {first_line('ninja', '--version')}; "
            f"pkg-config {first_line(env.get('PKG_CONFIG', 'pkg-config'), '--version')}")
    finding(f"libraries: {folder if deps_of.is_packed(folder) else 'those of the host'}")
    for nvcc in NVCC:
        version = output(nvcc, "--version")
        if version:
            finding(f"{nvcc}: {version.splitlines()[-2].strip()}")
            return True
    print("failed: there is no nvcc on this host", flush=True)
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--deps", required=True)
    args = parser.parse_args()
    say_host()
    gpu = say_gpu()
    say_mps()
    nvcc = say_tools(args.deps)
    return 0 if gpu and nvcc else 1


if __name__ == "__main__":
    raise SystemExit(main())
