#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Is a file tier ever slower than none? One engine asks for the same prompt, which lies in the file
alone, and computes it without the cache in between: the time to the first token with the tier over
the better of loading and computing, for a file as it is and for one that is throttled. Loading by
itself is what a kvd does that was just started: it has measured nothing, and tries.

tier_ttft.py BUILD [--throttle BYTES] [--count N] [--json FILE]; KVD_MODEL names the model file."""
import argparse
import json
import os
import statistics
import sys
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
sys.path.insert(0, os.path.join(ROOT, "tools/demo_data"))
from client import Client, StreamError  # noqa: E402
from processes import StartError, System  # noqa: E402

PROMPT_BYTES = 700  # of the handbook: about 190 tokens with the question and the template
QUESTION = "What does it cost?"
RATIO_MAX = 1.15
LOADS = 3           # kvds that are started to see what loading takes


def prompt():
    with open(os.path.join(ROOT, "tools/demo_data/handbook.txt"), encoding="utf-8") as f:
        return f.read(PROMPT_BYTES)


def settle(system):
    """No lease, nothing on its way, and the journal written."""
    quiet = 0
    while quiet < 4:
        time.sleep(0.15)
        busy = any(s["leases"] for s in system.kvctl_json("status")["sessions"])
        busy |= any(t["queue"] for t in system.kvctl_json("tiers")["tiers"])
        quiet = 0 if busy else quiet + 1


def from_the_tier(system, client):
    settle(system)
    system.kvctl("evict")
    return client.chat(prompt(), QUESTION, 1).kvd["ttft_ms"]


def restart(system):
    system.programs[0].kill()
    kvd = system.start_kvd()
    system.programs.remove(kvd)
    system.programs[0] = kvd
    while not any(s["name"] == "engine" for s in system.kvctl_json("sessions")):
        time.sleep(0.02)


def measure(system, client, count):
    times = {"computing": [], "tier": [], "loading": []}
    client.chat(prompt(), QUESTION, 1)  # stored
    client.chat(prompt(), QUESTION, 1)
    from_the_tier(system, client)       # measured
    for _ in range(count):
        times["computing"].append(client.chat(prompt(), QUESTION, 1, cache=False).kvd["ttft_ms"])
        times["tier"].append(from_the_tier(system, client))
    settle(system)
    decisions = system.kvctl_json("tiers")["decisions"]
    for _ in range(LOADS):
        restart(system)
        times["loading"].append(from_the_tier(system, client))
    return times, decisions


def run(args, model, throttle, runtime):
    file = os.path.join(args.build, "tier-ttft")
    options = ("--file-throttle", throttle) if throttle else ()
    system = System(os.path.abspath(args.build), runtime, model, runtime,
                    ("--pool-bytes", "256MiB", "--file", file, "--file-bytes", "256MiB",
                     "--file-store", "all", *options), ("--page-tokens", "16"))
    try:
        system.start_kvd()
        client = Client(system.start_engine("engine").wait_ready())
        return measure(system, client, args.count)
    finally:
        system.stop()
        if os.path.exists(file):
            os.unlink(file)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build")
    parser.add_argument("--throttle", default="100KiB", help="of the slow file, a second")
    parser.add_argument("--count", type=int, default=9)
    parser.add_argument("--json")
    args = parser.parse_args()
    model = os.environ.get("KVD_MODEL", "")
    if not os.access(model, os.R_OK):
        print("KVD_MODEL names no model file; tests/model/fetch gets one", file=sys.stderr)
        return 2
    figures, good = {}, True
    for name, throttle in (("as it is", None), (args.throttle + "/s", args.throttle)):
        with tempfile.TemporaryDirectory(prefix="kvd-ttft-") as runtime:
            try:
                times, decisions = run(args, model, throttle, runtime)
            except (StartError, StreamError) as e:
                print(f"error: {e}", file=sys.stderr)
                return 1
        ms = {name: statistics.median(values) for name, values in times.items()}
        ratio = ms["tier"] / min(ms["computing"], ms["loading"])
        good &= ratio <= RATIO_MAX
        figures[name] = {"times_ms": times, "medians_ms": ms, "ratio": ratio, **decisions}
        print(f"file {name:10}  computing {ms['computing']:8.1f} ms, loading {ms['loading']:8.1f} "
              f"ms, with the tier {ms['tier']:8.1f} ms: {ratio:.2f} of the better; "
              f"{decisions['loads_chosen']} loads chosen, {decisions['computes_chosen']} computes",
              flush=True)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(figures, f, indent=2)
            f.write("\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
