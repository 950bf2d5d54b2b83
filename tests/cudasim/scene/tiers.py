#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tiers below a GPU, real or simulated: two engines of a tiny model over a kvd that has memory of
the GPU, of the host, and a file. What is pushed out of the GPU comes back from the host's memory,
and when kvd was killed, from the file; the answers are those of a cold run, to the bit of every
log-probability.

tiers.py BUILD DEVICE_MEMORY DEVICE LOGS TINY_MODEL"""
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from urllib.parse import urlsplit

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
sys.path.insert(0, os.path.join(ROOT, "tools/demo_data"))
from processes import StartError, System  # noqa: E402

ENGINE = ("--context", "512", "--batch-tokens", "64", "--sequences", "4", "--page-tokens", "16")
PROMPT = ("A prompt that both engines have. It is some pages long, so that there is something to "
          "push out of the GPU, and to bring back: first from memory, then from a file.")
ANSWER_TOKENS = 12
CACHED_MIN = 64
WAIT_SECONDS = 20


class Fault(Exception):
    """Something that must hold does not."""


def check(holds, what):
    print(f"  {what}: {'yes' if holds else 'NO'}", flush=True)
    if not holds:
        raise Fault(what)


def wait_for(holds, what):
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise Fault(f"in vain: {what}")
        time.sleep(0.05)


def draw(url, prompt=PROMPT, **options):
    """(log-probabilities, cached tokens): a tiny model's text says little."""
    body = {"prompt": prompt, "max_tokens": ANSWER_TOKENS, "temperature": 0, "logprobs": 1,
            **options}
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    connection.request("POST", "/v1/completions", json.dumps(body),
                       {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = response.read().decode()
    connection.close()
    if response.status != 200:
        raise Fault(f"an answer: {response.status} {answer}")
    answer = json.loads(answer)
    logprobs = answer["choices"][0]["logprobs"]
    return ((logprobs["tokens"], logprobs["token_logprobs"]),
            answer["usage"]["prompt_tokens_details"]["cached_tokens"])


def tiers(system):
    """By their names, as they are when the status file was written anew."""
    time.sleep(0.3)
    return {t["tier"]: t for t in system.kvctl_json("tiers")["tiers"]}


def settle(system, *names):
    """Until these tiers hold what can be stored, and the file's journal knows it."""
    def rests():
        return all(t["blocks"] > CACHED_MIN // 16 for n, t in tiers(system).items() if n in names)

    for _ in range(3):
        wait_for(lambda: rests() and all(t["queue"] == 0 for t in tiers(system).values()),
                 "the tiers come to rest")
        time.sleep(0.3)


def evict(system):
    """What no tier has would be lost."""
    wait_for(lambda: not any(s["leases"] for s in system.kvctl_json("status")["sessions"]),
             "the leases end")
    system.kvctl("evict")


def from_memory(system, a, b, want):
    got, cached = draw(a)
    check(got == want and cached == 0, "A computes the prompt")
    settle(system, "dram", "file")
    evict(system)
    wait_for(lambda: system.kvctl_json("tiers")["decisions"]["demoted_pages"] >= CACHED_MIN // 16,
             "its pages leave the GPU")
    got, cached = draw(b)
    found = tiers(system)
    check(got == want, "B's answer is the cold one, to the bit")
    check(cached >= CACHED_MIN, f"{cached} of its tokens were there")
    check(found["dram"]["hit_blocks"] >= CACHED_MIN // 16 and found["file"]["hit_blocks"] == 0,
          "they came from the host's memory")


def from_the_file(system, a, b, want):
    settle(system, "file")
    system.programs[0].kill()
    kvd = system.start_kvd()
    system.programs.remove(kvd)
    system.programs[0] = kvd
    wait_for(lambda: len([s for s in system.kvctl_json("sessions") if s["name"] != "kvctl"]) == 2,
             "the engines are back")
    got, cached = draw(a)
    found = tiers(system)
    check(got == want, "A's answer from the next kvd is the cold one, to the bit")
    check(cached >= CACHED_MIN, f"{cached} of its tokens were there")
    check(found["file"]["hit_blocks"] >= CACHED_MIN // 16, "they came from the file")
    check(draw(b)[0] == want, "and B's answer, which shares A's pages, is the same")
    check(system.kvctl_json("tiers")["decisions"]["lost_tokens"] == 0, "nothing was lost")


def run(system):
    system.start_kvd()
    programs = [system.start_engine("engine-a"), system.start_engine("engine-b")]
    a, b = (program.wait_ready() for program in programs)
    want, _ = draw(a, cache=False)
    from_memory(system, a, b, want)
    from_the_file(system, a, b, want)
    print("  " + system.kvctl("check").strip())
    for program in (*programs, system.programs[0]):
        program.stop()
        check(program.process.returncode == 0, f"{program.name} ended cleanly")
        with open(program.log, encoding="utf-8", errors="replace") as f:
            log = f.read()
        check("misuse" not in log and "Sanitizer" not in log, f"{program.name} used CUDA well")


def main():
    build, device_memory, device, logs, tiny_model = sys.argv[1:]
    os.makedirs(logs, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kvd-tiers-") as runtime:
        model = os.path.join(runtime, "model.gguf")
        subprocess.run([tiny_model, "--gpu", model], check=True)
        os.environ["CUDASIM_MACHINE"] = f"tiers-{os.getpid()}"
        system = System(build, logs, model, runtime,
                        ("--pool-bytes", "8MiB", "--device-memory", device_memory, "--devices", "0",
                         "--dram-bytes", "16MiB", "--file", os.path.join(runtime, "blocks"),
                         "--file-bytes", "256MiB", "--file-store", "all"),
                        (*ENGINE, "--device", device))
        try:
            run(system)
        except (StartError, Fault) as e:
            print(f"FAILED: {e}; the logs: {logs}")
            for program in system.programs:
                print(f"--- {program.name}\n{program.tail()}")
            return 1
        finally:
            system.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
