# SPDX-License-Identifier: Apache-2.0
"""The steps, in the order in which they run: what is cheap and says most comes first."""
import json
import os
import subprocess
import sys
from dataclasses import dataclass

PARTS = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(PARTS))


# Of kvbench: beside the limits that each measures itself.
BENCHES = (("ops", "every operation of the table", 40),
           ("gemm", "matrix products of models", 40),
           ("attention", "attention over pages, as the engine calls it", 40),
           ("prefill", "tokens per second of a whole prefill", 40),
           ("decode", "tokens per second of decoding", 40))


@dataclass
class Step:
    name: str
    title: str
    argv: list
    limit_s: int


def script(name, *args):
    return [sys.executable, "-u", os.path.join(PARTS, name), *args]


def scene(build, *args):
    return script("scene.py", "--build", build, "--work", os.path.join(build, "gpu-check"), *args)


def bench(build, name):
    return script("bench.py", "--build", build, "--work", os.path.join(build, "gpu-check"), name)


def all_steps(build, deps):
    def program(name, *args):
        return [os.path.join(build, "tools", "gpu", name), *args]

    return [
        Step("environment", "driver, GPU, CUDA, sharing, limits",
             script("environment.py", "--deps", deps), 30),
        Step("build", "meson setup and ninja with the CUDA toolkit",
             script("build.py", "--build", build, "--deps", deps), 240),
        Step("device", "what the runtime says of the GPU", program("probe_device"), 20),
        Step("kernels", "every kernel test, on the device", [], 60),
        Step("scene-ipc", "two engines, one kvd, pages shared by cudaIpcMemHandle",
             scene(build, "--device-memory", "cuda-ipc"), 80),
        Step("scene-vmm", "the same, pages shared by file descriptors",
             scene(build, "--device-memory", "cuda-vmm"), 80),
        Step("graph", "replayed graphs against eager launches, bit for bit",
             scene(build, "--device-memory", "auto", "--compare", "eager"), 60),
        Step("reopen", "handles and descriptors after their exporter's death",
             program("probe_reopen"), 20),
        Step("reexport", "a handle made from an imported pointer", program("probe_reexport"), 20),
        Step("readonly", "what a read-only mapping stops", program("probe_readonly"), 40),
        Step("words", "64-bit words in registered host memory, also in graphs",
             program("probe_words"), 20),
        Step("death", "how long a killed client's writes go on", program("probe_death"), 40),
        Step("contexts", "device memory of a context", program("probe_context"), 30),
        Step("import", "time to import a slab, by its size", program("probe_import"), 30),
        Step("mps", "IPC between a client of MPS and one that is not",
             program("probe_mps"), 40),
        Step("attention", "flash attention against GEMM peak, bandwidth, standard attention",
             program("perf_attention"), 60),
        *(Step("bench-" + name, title, bench(build, name), limit_s)
          for name, title, limit_s in BENCHES),
    ]


def kernel_tests(build, env):
    """Steps for each test that is built for the device, as the build folder lists them."""
    out = subprocess.run([sys.executable, "-m", "mesonbuild.mesonmain", "introspect", "--tests",
                          build], capture_output=True, text=True, env=env, check=False).stdout
    if not out:
        out = subprocess.run(["meson", "introspect", "--tests", build], capture_output=True,
                             text=True, env=env, check=True).stdout
    return [(Step(test["name"], "", test["cmd"], 60), test["env"]) for test in json.loads(out)
            if any(s.endswith("gpu") for s in test["suite"])]
