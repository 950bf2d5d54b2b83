#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An engine whose GPU fails: at start, while it imports kvd's pages, in a step. Whatever fails is
said in CUDA's words, a request that it ends is answered with 500 and those words, the engine ends
if its GPU cannot be used again, and neither kvd nor the other engine feels a thing.

faults.py BUILD LOGS TINY_MODEL"""
import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from urllib.parse import urlsplit

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
sys.path.insert(0, os.path.join(ROOT, "tools/demo_data"))
from processes import StartError, System  # noqa: E402

ENGINE = ("--device", "cuda:0", "--context", "512", "--batch-tokens", "64", "--sequences", "4",
          "--page-tokens", "16")
SHARED = "a prompt that both have, and that is some pages long"
OTHER = "a prompt that both have, and that goes on otherwise"  # its tail is copied
END_SECONDS = 20

NO_ROOM = " free, the largest that fits is "
# Of these the engine does not get ready, and its log has the words.
STARTS = {"malloc:1=2": NO_ROOM, "malloc:2=2": NO_ROOM, "malloc:3=2": NO_ROOM, "meminfo:1=999": "cudaErrorUnknown",
          "copy:1=719": "cudaErrorLaunchFailure", "copy:9=719": "cudaErrorLaunchFailure",
          "register:1=2": "cudaErrorMemoryAllocation", "stream:1=2": "cudaErrorMemoryAllocation",
          "capture:1=900": "cudaErrorStreamCaptureUnsupported",
          "capture:4=900": "cudaErrorStreamCaptureUnsupported",
          "launch:5=719": "cudaErrorLaunchFailure", "launch:40=719": "cudaErrorLaunchFailure"}
# Of these it answers a request with 500 and the words, and ends.
STEPS = ("graph:1=719", "graph:2=719", "graph:5=719", "ipcopen:1=719")


class Fault(Exception):
    """Something that must hold does not."""


def check(holds, what):
    if not holds:
        raise Fault(what)


@contextlib.contextmanager
def environment(**variables):
    old = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in old.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def ask(url, prompt, **options):
    """(status, body)"""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    body = {"prompt": prompt, "max_tokens": 12, "temperature": 0, **options}
    connection.request("POST", "/v1/completions", json.dumps(body),
                       {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = response.read().decode()
    connection.close()
    return response.status, answer


def draw(url, prompt):
    """The tokens, by their log probabilities: a tiny model's text says little."""
    status, answer = ask(url, prompt, logprobs=1)
    check(status == 200, f"an answer: {status} {answer}")
    return json.loads(answer)["choices"][0]["logprobs"]["token_logprobs"]


def start(system, name, *options, **variables):
    with environment(**variables):
        return system.start(name, "engine/kvengine", "--model", system.model, "--port", "0",
                            "--name", name, *system.engine_options, *options)


def log_of(program):
    with open(program.log, encoding="utf-8", errors="replace") as f:
        return f.read()


def ended(program):
    """Its exit status."""
    try:
        return program.process.wait(END_SECONDS)
    except subprocess.TimeoutExpired as e:
        raise Fault(f"{program.name} does not end") from e


def wait_for(holds, what):
    deadline = time.monotonic() + END_SECONDS
    while not holds():
        check(time.monotonic() < deadline, what)
        time.sleep(0.01)


def fails_at_start(system, fault, words):
    program = start(system, "start-" + fault, CUDASIM_FAIL=fault)
    try:
        program.wait_ready()
    except StartError:
        check(ended(program) == 1, f"{fault}: exit status")
        errors = [line for line in log_of(program).splitlines() if ": error: " in line]
        check(any(words in line for line in errors), f"{fault}: {words} is said: {errors}")
        return
    raise Fault(f"{fault}: it got ready")


def fails_in_a_step(system, fault, stream):
    program = start(system, f"step-{fault}-{stream}", CUDASIM_FAIL=fault)
    status, answer = ask(program.wait_ready(), SHARED, stream=stream)
    check("cudaErrorLaunchFailure" in answer, f"{fault}: the answer has the words: {answer}")
    check(status == 500 or stream and status == 200, f"{fault}: status {status}")
    check(ended(program) == 1, f"{fault}: exit status")
    errors = [line for line in log_of(program).splitlines() if "the device failed, and" in line]
    check("Sanitizer" not in log_of(program), f"{fault}: nothing is left behind")
    check(len(errors) == 1 and "cudaErrorLaunchFailure" in errors[0], f"{fault}: log {errors}")


def imports_later(system, want):
    """An import that fails once, without harm to the GPU, costs one request."""
    program = start(system, "import", CUDASIM_FAIL="ipcopen:1=999")
    url = program.wait_ready()
    status, answer = ask(url, SHARED)
    check(status == 500 and "cudaErrorUnknown" in answer, f"the import's words: {answer}")
    check(draw(url, SHARED) == want, "the next request is answered")
    program.stop()
    check(program.process.returncode == 0, "it ends cleanly")


def without_ipc(system):
    """What its GPU cannot is said, not that there is no such GPU."""
    program = start(system, "without-ipc", CUDASIM_IPC="0")
    check(ended(program) == 1, "exit status without IPC")
    check("it has no CUDA IPC" in log_of(program), "the missing IPC is said")


def other_memory(system, program, url, want):
    """A daemon that comes back with pages elsewhere is told; the right one is taken again."""
    gpu = system.kvd_options
    for options, name in ((("--device-memory", "host"), "host"), (gpu, "back")):
        system.programs[-1 if name == "back" else 0].stop()
        kvd = system.start(f"kvd-{name}", "kvd/kvd", "--state-dir",
                           os.path.join(system.runtime, "state"), *options)
        kvd.wait_ready()
        if name == "host":
            wait_for(lambda: "not back yet" in log_of(program), "the other memory is told")
    lines = [line for line in log_of(program).splitlines() if "not back yet" in line]
    check(draw(url, SHARED) == want, "the same answer from the daemon that is right")
    check(len(lines) == 1 and "kvd's pages lie in host memory" in lines[0], f"told once: {lines}")
    return kvd


def any_order(system, want):
    """A long step's attention is chosen by a trial, when nothing is kept yet."""
    for seed in range(1, 7):
        with tempfile.TemporaryDirectory(prefix="kvd-cache-") as cache:
            program = start(system, f"seed-{seed}", "--batch-tokens", "256", CUDASIM_SEED=str(seed),
                            XDG_CACHE_HOME=cache)
            check(draw(program.wait_ready(), SHARED) == want, f"seed {seed}: the same answer")
            program.stop()


def sessions(system):
    return [s["name"] for s in system.kvctl_json("status")["sessions"] if s["name"] != "kvctl"]


def run(system):
    kvd = system.start_kvd()
    other = start(system, "other")
    url = other.wait_ready()
    want = draw(url, SHARED), draw(url, OTHER)
    for fault, words in STARTS.items():
        fails_at_start(system, fault, words)
    for fault in STEPS:
        for stream in (False, True):
            fails_in_a_step(system, fault, stream)
    imports_later(system, want[0])
    any_order(system, want[0])
    without_ipc(system)
    print(f"{len(STARTS)} starts, {2 * len(STEPS)} steps failed, each in CUDA's words")
    check((draw(url, SHARED), draw(url, OTHER)) == want, "the other engine is unhurt")
    wait_for(lambda: sessions(system) == ["other"], "their sessions are gone")
    kvd = other_memory(system, other, url, want[0])
    print(system.kvctl("check").strip())
    for program in (other, kvd):
        program.stop()
        check(program.process.returncode == 0, f"{program.name} ended cleanly")
        check("misuse" not in log_of(program), f"{program.name} used CUDA as it wants to be used")


def stopped_and_back(system):
    """Who slept while its slab was wanted loses its session, and gives the slab up when it wakes."""
    kvd = system.start("kvd-small", "kvd/kvd", "--state-dir", os.path.join(system.runtime, "state"),
                       "--device-memory", "cuda-ipc", "--devices", "0", "--pool-bytes", "2MiB",
                       "--session-share", "100")
    kvd.wait_ready()
    sleeper, wanter = start(system, "sleeper"), start(system, "wanter", "--page-tokens", "64")
    urls = sleeper.wait_ready(), wanter.wait_ready()
    want = draw(urls[0], SHARED)
    answers = []
    # Its lease goes a moment after its answer.
    wait_for(lambda: not any(x["leases"] for x in system.kvctl_json("status")["sessions"]),
             "the sleeper's lease ends")
    sleeper.process.send_signal(signal.SIGSTOP)
    asking = threading.Thread(target=lambda: answers.append(ask(urls[1], SHARED)))
    asking.start()
    wait_for(lambda: "kept a slab mapped" in log_of(kvd), "the sleeper's session ends")
    sleeper.process.send_signal(signal.SIGCONT)
    asking.join()
    check(answers[0][0] == 200, f"the other has the memory now: {answers}")
    check(draw(urls[0], SHARED) == want, "and the sleeper again")
    for program in (sleeper, wanter, kvd):
        program.stop()
        check(program.process.returncode == 0, f"{program.name} ended cleanly")
        check("misuse" not in log_of(program), f"{program.name} used CUDA as it wants to be used")


def main():
    build, logs, tiny_model = sys.argv[1:]
    os.makedirs(logs, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kvd-faults-") as runtime:
        model = os.path.join(runtime, "model.gguf")
        subprocess.run([tiny_model, "--gpu", model], check=True)
        os.environ["CUDASIM_MACHINE"] = f"faults-{os.getpid()}"
        system = System(build, logs, model, runtime,
                        ("--pool-bytes", "8MiB", "--device-memory", "cuda-ipc", "--devices", "0"),
                        ENGINE)
        try:
            run(system)
            stopped_and_back(system)
        except (StartError, Fault) as e:
            print(f"FAILED: {e}; the logs: {logs}")
            print(f"--- {system.programs[-1].name}\n{system.programs[-1].tail()}")
            return 1
        finally:
            system.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
