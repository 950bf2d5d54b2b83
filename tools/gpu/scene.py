#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two engines on one kvd, on a model of SmolLM2-135M's shape with random weights: the second answers
from the pages that the first computed; the cost of that against the bytes; the death of one.

With --compare eager: the same questions to an engine that replays graphs and to one that launches
each kernel by itself, whose answers must be the same to the bit of every log-probability."""
import argparse
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "demo_data"))

from client import Client, StreamError  # noqa: E402
from processes import StartError, System  # noqa: E402

SEED = 20
ROUNDS = 3
ANSWER_TOKENS = 24
SPEED_TOKENS = 96
STREAM_TOKENS = 2000   # more than there is time for
KILL_AFTER = 20        # tokens
GONE_SECONDS = 20
EXIT_IMPOSSIBLE = 77
OBSTACLES = re.compile(r"NVIDIA driver|no CUDA IPC|sees no GPU|WSL|\bMIG\b|virtual memory|descriptor")
QUESTIONS = ("What does it cost?", "Who repairs it?", "When is it open?")


def figure(name, value, unit):
    print(f"figure {name}: {value:.4g} {unit}", flush=True)


def finding(text):
    print(f"finding: {text}", flush=True)


def must(holds, what):
    print(f"  {what}: {'yes' if holds else 'NO'}", flush=True)
    if not holds:
        raise StreamError(f"this does not hold: {what}")


def handbook():
    with open(os.path.join(ROOT, "tools/demo_data/handbook.txt"), encoding="utf-8") as f:
        return f.read()


def prefix(salt, size):
    """A system prompt of `size` bytes that begins like no other salt's."""
    text = handbook()
    return (f"Edition {salt}. " + text * (size // len(text) + 1))[:size]


def write_model(build, work):
    path = os.path.join(work, f"smollm2-{SEED}.gguf")
    if not os.path.isfile(path):
        start = time.monotonic()
        try:
            subprocess.run([os.path.join(build, "tests/model/tiny-model"), "--smollm2",
                            path + ".new", str(SEED)], check=True)
        except (OSError, subprocess.CalledProcessError) as e:
            raise StartError(f"the model cannot be written: {e}") from e
        os.rename(path + ".new", path)
        figure("writing the model", time.monotonic() - start, "s")
    return path


def link_modules(build, folder):
    """kvd and the engines look for all modules in one folder."""
    os.makedirs(folder, exist_ok=True)
    for where, _, names in os.walk(os.path.join(build, "kernels")):
        for name in names:
            link = os.path.join(folder, name)
            if name.startswith("libkvd-") and name.endswith("-cuda.so") and not os.path.lexists(link):
                os.symlink(os.path.join(where, name), link)
    return folder


def metric(client, name):
    with urllib.request.urlopen(client.url + "/metrics", timeout=30) as response:
        for line in response.read().decode().splitlines():
            if line.startswith(f"kvengine_{name}{{"):
                return float(line.rsplit(" ", 1)[1])
    raise StreamError(f"there is no metric {name}")


def start_engine(system, name, *options):
    return system.start(name, "engine/kvengine", "--model", system.model, "--port", "0", "--name",
                        name, *system.engine_options, *options)


def page_bytes_per_token(system):
    formats = system.kvctl_json("formats")
    return formats[0]["block_bytes"] / formats[0]["page_tokens"]


def measure(system, a, b, label, size):
    """Cold on one engine, from its pages on the other, and again; each round a new prompt."""
    rounds = []
    for i in range(ROUNDS):
        system_prompt = prefix(f"{label} {i}", size)
        cold = a.chat(system_prompt, QUESTIONS[0], ANSWER_TOKENS, ignore_eos=True)
        other = b.chat(system_prompt, QUESTIONS[0], ANSWER_TOKENS, ignore_eos=True)
        again = a.chat(system_prompt, QUESTIONS[1], ANSWER_TOKENS, ignore_eos=True)
        must(cold.cached_tokens < 64, "the first engine computed the prompt")
        must(other.cached_tokens > 0.8 * other.prompt_tokens, "the second found it")
        must(again.cached_tokens > 0.8 * again.prompt_tokens, "the first found it again")
        must(other.tokens == cold.tokens,
             "both answers are the same, to the bit of every log-probability")
        rounds.append((cold, other, again))
    last = rounds[-1]
    finding(f"{label}: of {last[1].prompt_tokens} prompt tokens the second engine took "
            f"{last[1].cached_tokens} from the first, and said the same")
    for name, i in (("TTFT cold", 0), ("TTFT in another process", 1), ("TTFT again", 2)):
        figure(f"{name}, {label}", statistics.median(r[i].ttft_ms for r in rounds), "ms")
    return rounds


def measure_sizes(system, a, b, sizes):
    """Does the cost of a hit grow with the bytes of the pages that are hit?"""
    per_token = page_bytes_per_token(system)
    for size in sizes:
        system_prompt = prefix(f"size {size}", size)
        cold = a.chat(system_prompt, QUESTIONS[0], 1, ignore_eos=True)
        hits = [b.chat(system_prompt, QUESTIONS[0], 1, ignore_eos=True) for _ in range(ROUNDS)]
        must(hits[0].cached_tokens > 0.8 * cold.prompt_tokens, f"{size} bytes of text are found")
        mib = hits[0].cached_tokens * per_token / (1 << 20)
        figure(f"hit of {hits[0].cached_tokens} tokens, {mib:.3g} MiB of pages, the first",
               hits[0].ttft_ms, f"ms, cold {cold.ttft_ms:.1f} ms")
        figure(f"hit of {hits[0].cached_tokens} tokens, {mib:.3g} MiB of pages, then",
               min(h.ttft_ms for h in hits[1:]), "ms")


class Stream(threading.Thread):
    def __init__(self, client, system_prompt):
        super().__init__(daemon=True)
        self.client, self.system_prompt, self.begun = client, system_prompt, threading.Event()
        self.broken = False
        self.start()

    def run(self):
        try:
            self.client.chat(self.system_prompt, QUESTIONS[2], STREAM_TOKENS, self.look,
                             ignore_eos=True)
        except StreamError:
            self.broken = True

    def look(self, answer):
        if len(answer.tokens) >= KILL_AFTER:
            self.begun.set()


def kill_one(system, program_a, a, b, size):
    """How long the dead one's pages are not for others; and that the other engine is unhurt."""
    system_prompt = prefix("death", size)
    right = b.chat(system_prompt, QUESTIONS[0], ANSWER_TOKENS, ignore_eos=True)
    stream = Stream(a, system_prompt)
    must(stream.begun.wait(60), "one engine streams")
    before = system.kvctl_json("status")
    program_a.kill()
    start = time.monotonic()
    seen = 0
    while True:
        now = system.kvctl_json("status")
        seen = max(seen, now["pages"]["quarantine"])
        gone = now["counters"]["session_deaths"] > before["counters"]["session_deaths"]
        if gone and now["pages"]["quarantine"] == 0 and now["pages"]["open"] <= now["leases"]:
            break
        if time.monotonic() - start > GONE_SECONDS:
            raise StreamError(f"after {GONE_SECONDS} s the dead engine's pages are still kept: "
                              f"{now['pages']}")
        time.sleep(0.002)
    figure("death to reuse of its pages", 1000 * (time.monotonic() - start),
           f"ms, {seen} pages seen waiting")
    stream.join(30)
    must(stream.broken, "its stream broke")
    after = b.chat(system_prompt, QUESTIONS[0], ANSWER_TOKENS, ignore_eos=True)
    must(after.tokens == right.tokens and after.cached_tokens > 0.8 * after.prompt_tokens,
         "the other engine finds the pages and says the same as before")
    print("  " + system.kvctl("check").strip(), flush=True)


def run_scene(system, args):
    programs = [start_engine(system, "engine-a"), start_engine(system, "engine-b")]
    a, b = (Client(p.wait_ready()) for p in programs)
    status = system.kvctl_json("status")
    must(status["device_memory"] == args.device_memory, f"kvd has {args.device_memory} memory")
    measure(system, a, b, "graphs" if args.device.startswith("cuda") else args.device, args.bytes)
    alone = [c.chat(prefix("alone", args.bytes), QUESTIONS[0], ANSWER_TOKENS, ignore_eos=True,
                    cache=cache) for c, cache in ((a, True), (b, True), (b, False))]
    must(alone[0].tokens == alone[1].tokens == alone[2].tokens,
         "cold, from the other's pages, and without the cache: one answer")
    measure_sizes(system, a, b, args.sizes)
    must(system.kvctl_json("status")["counters"]["kv_bytes_copied"] == 0, "nothing was copied")
    if args.device.startswith("cuda"):
        must(metric(b, "graph_steps_total") > 0, "steps were replayed from graphs")
    kill_one(system, programs[0], a, b, args.bytes)


def tokens_per_second(answer):
    return (len(answer.times) - 1) / (answer.times[-1] - answer.times[0])


def run_compare(system, args):
    started = [start_engine(system, "engine-graph"), start_engine(system, "engine-eager", "--eager"),
               start_engine(system, "engine-eager-b", "--eager")]
    graph, eager, eager_b = (Client(p.wait_ready()) for p in started)
    for i, size in enumerate((40, args.bytes // 3, args.bytes)):
        system_prompt = prefix(f"compare {i}", size)
        answers = [c.chat(system_prompt, QUESTIONS[i], SPEED_TOKENS, ignore_eos=True, cache=False)
                   for c in (graph, eager)]
        must(answers[0].tokens == answers[1].tokens,
             f"{answers[0].prompt_tokens} prompt tokens, {SPEED_TOKENS} more: replayed as eager")
    for name, answer in (("graphs", answers[0]), ("eager", answers[1])):
        figure(f"TTFT without the cache, {name}", answer.ttft_ms, "ms")
        figure(f"tokens per second, one stream, {name}", tokens_per_second(answer), "1/s")
    if args.device.startswith("cuda"):
        must(metric(graph, "graph_steps_total") > 0, "one replayed graphs")
        must(metric(eager, "graph_steps_total") == 0, "the other replayed none")
    finding("replayed graphs and eager launches say the same, bit for bit")
    measure(system, eager, eager_b, "eager", args.bytes)


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, help="the build folder")
    parser.add_argument("--work", required=True, help="for the model, logs and sockets")
    parser.add_argument("--device-memory", default="cuda-ipc")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--compare", choices=["eager"])
    parser.add_argument("--modules", help="their folder; default: the build's for a real GPU")
    parser.add_argument("--model", help="a GGUF file; default: one that is written here")
    parser.add_argument("--pool-bytes", default="2GiB")
    parser.add_argument("--bytes", type=int, default=4000, help="of the prompt's text")
    parser.add_argument("--sizes", type=lambda s: [int(x) for x in s.split(",")],
                        default=[1000, 4000, 10000], help="of texts, for the cost of a hit")
    parser.add_argument("--engine-option", action="append", default=[])
    return parser.parse_args()


class Impossible(Exception):
    """This host has not what the scene needs; the words say what."""


def obstacle(system):
    """Why this host has no such memory, in kvd's own words; None if it failed for another reason."""
    lines = system.programs[0].tail().splitlines() if system.programs else []
    found = [line for line in lines if "error: device memory" in line and OBSTACLES.search(line)]
    return found[-1].split("error: ", 1)[1] if found else None


def run(args, runtime):
    logs = os.path.join(args.work, f"logs-{args.compare or args.device_memory}")
    os.makedirs(logs, exist_ok=True)
    modules = args.modules or link_modules(args.build, os.path.join(args.work, "modules"))
    os.environ["KVD_MODULE_DIR"] = os.path.abspath(modules)
    system = System(args.build, logs, args.model, runtime,
                    ("--pool-bytes", args.pool_bytes, "--device-memory", args.device_memory),
                    ("--device", args.device, *args.engine_option))
    try:
        system.model = args.model or write_model(args.build, args.work)
        system.start_kvd()
        if args.device.startswith("cuda") and \
                system.kvctl_json("status")["device_memory"] == "host":
            raise Impossible("kvd finds no GPU whose memory it can share")
        (run_compare if args.compare else run_scene)(system, args)
    except Impossible as e:
        print(f"not possible here: {e}", flush=True)
        return EXIT_IMPOSSIBLE
    except (StartError, StreamError) as e:
        why = obstacle(system)
        if why:
            print(f"not possible here: {why}", flush=True)
            return EXIT_IMPOSSIBLE
        print(f"failed: {e}\nthe logs: {logs}")
        for program in system.programs:
            print(f"--- {program.name}\n{program.tail()}")
        return 1
    finally:
        system.stop()
    return 0


def main():
    args = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    os.makedirs(args.work, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kvd-scene-") as runtime:
        return run(args, runtime)


if __name__ == "__main__":
    sys.exit(main())
