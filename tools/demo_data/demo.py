#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The demonstration itself; tools/demo builds the programs and calls it."""
import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time

import figures as figures_of
from client import Client, StreamError
from processes import StartError, System, shared_memory

ROUNDS = 5
ROUNDS_SECONDS = 8   # a slow machine gets fewer rounds
ANSWER_TOKENS = 24
STREAM_TOKENS = 150
KILL_AFTER = 30      # tokens of both streams
GONE_SECONDS = 5
STORED_SECONDS = 20
FILE = "demo-tier"   # in the build folder: /tmp may be memory
QUESTIONS = ("How long does a Heron take from signature to delivery in April?",
             "Can I bring my dog in the Ox, and what does the rain cover cost?",
             "My frame has a crack. What should I do now, and who pays it?")


def say(text=""):
    print(text, flush=True)


def progress(text):
    print(f"  {text}", file=sys.stderr, flush=True)


def handbook():
    """The system prompt."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "handbook.txt")
    with open(path, encoding="utf-8") as f:
        return f.read()


def forget_all(system):
    """Makes kvd drop every page. What an engine has just ended with is let go a little later."""
    deadline = time.monotonic() + GONE_SECONDS
    while system.kvctl("evict", "--tiers") and system.kvctl_json("prefixes"):
        if time.monotonic() > deadline:
            raise StartError("kvctl evict left pages, though no request is running")
        time.sleep(0.01)


def measure(system, a, b):
    """[(cold on A, B, A again)], each round from an empty cache."""
    rounds = []
    start = time.monotonic()
    while not rounds or (len(rounds) < ROUNDS and time.monotonic() - start < ROUNDS_SECONDS):
        forget_all(system)
        answers = [client.chat(handbook(), question, ANSWER_TOKENS)
                   for client, question in zip((a, b, a), QUESTIONS)]
        rounds.append(answers)
        progress(f"round {len(rounds)}: A cold {answers[0].ttft_ms:.1f} ms, "
                 f"B {answers[1].ttft_ms:.1f} ms, A again {answers[2].ttft_ms:.1f} ms")
    return rounds


def same_without_cache(a, cached):
    """Whether A, computing all of it alone, says what B said with A's pages."""
    progress("the same answer again, without the cache")
    cold = a.chat(handbook(), QUESTIONS[1], ANSWER_TOKENS, cache=False)
    if cold.cached_tokens != 0:
        raise StreamError("a request with cache: false was answered from the cache")
    return cold.tokens == cached.tokens


class Stream(threading.Thread):
    """One long answer in the background."""

    def __init__(self, client, question):
        super().__init__(daemon=True)
        self.client, self.question = client, question
        self.count = 0
        self.answer = None
        self.error = None
        self.start()

    def run(self):
        try:
            self.answer = self.client.chat(handbook(), self.question, STREAM_TOKENS,
                                           self.on_event, ignore_eos=True)
        except StreamError as e:
            self.error = str(e)

    def on_event(self, answer):
        self.count = len(answer.tokens)

    def wait_tokens(self, count):
        while self.count < count and self.is_alive():
            time.sleep(0.002)
        if self.count < count:
            raise StreamError(f"a stream ended too early: {self.error}")


def show(system, *commands):
    for command in commands:
        say(f"\n$ kvctl {command}")
        say(system.kvctl(command).rstrip())


def wait_session_gone(system, pid):
    deadline = time.monotonic() + GONE_SECONDS
    while time.monotonic() < deadline:
        if all(s["pid"] != pid for s in system.kvctl_json("sessions")):
            return True
        time.sleep(0.01)
    return False


def kill_one(system, program_a, a, b):
    """Both stream from the same pages; A dies. True if B never noticed."""
    say("\nBoth engines stream now, from the same pages:")
    doomed, other = Stream(a, QUESTIONS[0]), Stream(b, QUESTIONS[1])
    doomed.wait_tokens(KILL_AFTER)
    other.wait_tokens(KILL_AFTER)
    show(system, "status", "sessions", "prefixes")
    at = other.count
    program_a.kill()
    say(f"\nSIGKILL of engine A (pid {program_a.pid}) after {doomed.count} of its tokens, "
        f"{at} of B's:")
    gone = wait_session_gone(system, program_a.pid)
    show(system, "sessions", "prefixes")
    doomed.join()
    other.join()
    if other.error:
        say(f"\n  B's stream ended: {other.error}")
        return False
    progress("B's answer again, without the cache, to compare")
    alone = b.chat(handbook(), QUESTIONS[1], STREAM_TOKENS, ignore_eos=True, cache=False)
    right = other.answer.tokens == alone.tokens
    again = b.chat(handbook(), QUESTIONS[2], 1)
    kept = again.cached_tokens > 0
    show(system, "check")
    say(f"\n  A's session and its leases are gone: {'yes' if gone else 'NO'}")
    say(f"  B's stream went on to its end, right to the token: {'yes' if right else 'NO'} "
        f"({len(other.answer.tokens)} tokens, longest gap {other.answer.longest_gap_ms:.0f} ms)")
    say(f"  the shared pages are still there: {'yes' if kept else 'NO'} "
        f"({again.cached_tokens} of {again.prompt_tokens} tokens cached)")
    return gone and right and kept


def wait_stored(system):
    """Until nothing is on its way to the file any more, and the file's journal has it all."""
    deadline = time.monotonic() + STORED_SECONDS
    quiet = 0
    while quiet < 10 and time.monotonic() < deadline:
        time.sleep(0.15)
        quiet = quiet + 1 if system.kvctl_json("tiers")["tiers"][0]["queue"] == 0 else 0
    if quiet < 10:
        say("  (the file is slow: not all of it was written before the kill)")


def restart_kvd(system, kvd, b, pid):
    """SIGKILL of the daemon; another finds its file. (the new one, B's answer before and after)"""
    progress("B's answer once more, and until the file has its pages")
    before = b.chat(handbook(), QUESTIONS[2], ANSWER_TOKENS)
    wait_stored(system)
    say("\nWhat is used again is in a file, too:")
    show(system, "tiers")
    kvd.kill()
    say(f"\nSIGKILL of kvd (pid {kvd.pid}), and with it goes all of its memory; another is "
        "started on the\nsame file, and B, which still runs, connects again:")
    kvd = system.start_kvd()
    deadline = time.monotonic() + GONE_SECONDS
    while all(s["pid"] != pid for s in system.kvctl_json("sessions")):
        if time.monotonic() > deadline:
            raise StartError("engine B did not connect to the new kvd")
        time.sleep(0.01)
    show(system, "tiers")
    progress("the same question to B")
    after = b.chat(handbook(), QUESTIONS[2], ANSWER_TOKENS)
    return kvd, before, after


def show_restart(system, figures, before, after):
    """What came back from the file. An engine stops waiting for a disk that is much slower than
    computing, and computes the rest: that is right, too, but it is not warm."""
    tiers = system.kvctl_json("tiers")
    counters = system.kvctl_json("status")["counters"]
    read = tiers["tiers"][0]["loaded_bytes"]
    slow = counters["takes"] > 0 or counters["computes_chosen"] > 0
    warm = after.cached_tokens > 0 and counters["loaded_tokens"] > 0
    equal = before.tokens == after.tokens
    figures.update(ttft_restart_ms=after.ttft_ms, restart_cached_tokens=after.cached_tokens,
                   restart_bytes_read=read, restart_equal=equal, restart_disk_slow=slow)
    show(system, "tiers", "check")
    came = "NO" if not warm else "in part" if slow else "yes"
    say(f"\n  the prompt came back from the file: {came} ({after.cached_tokens} "
        f"of {after.prompt_tokens} tokens, {figures_of.megabytes(read)} read)")
    if slow:
        say("  (this disk is slower than computing: B did not wait for it, and computed the rest)")
    say(f"  its first token came after {after.ttft_ms:.1f} ms, "
        f"{after.ttft_ms / figures['ttft_cold_ms']:.1%} of cold")
    say(f"  the answer is the one from before the kill, to the bit: {'yes' if equal else 'NO'}")
    figures["warm_after_restart"] = warm
    return equal and (warm or slow)


def show_sharing(program_a, program_b):
    shared = shared_memory(program_a.pid, program_b.pid)
    if not shared:
        say("  The engines map no memory together.")
    for (inode, offset), size in sorted(shared.items()):
        say(f"  Both processes map the same memory: inode {inode} offset {offset}, "
            f"{figures_of.megabytes(size)} (/proc/{program_a.pid}/maps, /proc/{program_b.pid}/maps).")


def keep_running(system, kvd, b, program_b):
    program_a = system.start_engine("engine-a")
    a = program_a.wait_ready()
    build = os.path.relpath(system.build)
    say(f"""
Left running: kvd {kvd.pid}, engine A {program_a.pid} at {a}, engine B {program_b.pid} at {b}.
  curl -s {a}/v1/chat/completions -H 'Content-Type: application/json' \\
    -d '{{"messages": [{{"role": "user", "content": "Hello"}}], "max_tokens": 32}}'
  curl -N {b}/v1/completions -H 'Content-Type: application/json' \\
    -d '{{"prompt": "Once upon a time", "max_tokens": 64, "stream": true}}'
  curl -s {a}/metrics
  {build}/tools/kvctl/kvctl --socket {system.socket} status
Stop it: kill {program_a.pid} {program_b.pid} {kvd.pid}; rm -rf {system.runtime} {build}/{FILE}""")


def run(system, args):
    progress("starting kvd and two engines")
    kvd = system.start_kvd()
    program_a, program_b = system.start_engine("engine-a"), system.start_engine("engine-b")
    a, b = Client(program_a.wait_ready()), Client(program_b.wait_ready())
    say(f"kvd {kvd.pid}; engine A {program_a.pid} at {a.url}; engine B {program_b.pid} at {b.url}")
    rounds = measure(system, a, b)
    figures = figures_of.of_rounds(rounds, system)
    figures["tokens_equal"] = same_without_cache(a, rounds[0][1])
    say()
    say("\n".join(figures_of.table(rounds, figures)))
    show_sharing(program_a, program_b)
    say(f"  The answer with the cache equals the answer without it, token for token and bit for "
        f"bit\n  in every log-probability: {'yes' if figures['tokens_equal'] else 'NO'}.")
    figures["survived_kill"] = kill_one(system, program_a, a, b)
    kvd, before, after = restart_kvd(system, kvd, b, program_b.pid)
    restarted = show_restart(system, figures, before, after)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(figures, f, indent=2)
            f.write("\n")
    if args.keep:
        keep_running(system, kvd, b.url, program_b)
    good = (figures["tokens_equal"] and figures["survived_kill"] and
            restarted and not figures["kv_bytes_copied"])
    say("\nAll of it holds." if good else "\nSOMETHING DOES NOT HOLD: see above.")
    return 0 if good else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, help="the build folder")
    parser.add_argument("--logs", required=True, help="where the programs' logs go")
    parser.add_argument("--model", required=True, help="the GGUF file")
    parser.add_argument("--json", help="write the figures to this file")
    parser.add_argument("--keep", action="store_true", help="leave everything running")
    args = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    runtime = tempfile.mkdtemp(prefix="kvd-demo-")
    file = os.path.join(args.build, FILE)
    if os.path.exists(file):
        os.unlink(file)
    system = System(args.build, args.logs, args.model, runtime,
                    kvd_options=("--pool-bytes", "1GiB", "--file", file, "--file-bytes", "1GiB"))
    kept = False
    try:
        status = run(system, args)
        kept = args.keep
        return status
    except (StartError, StreamError) as e:
        print(f"error: {e}\nthe logs: {args.logs}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted, ending everything", file=sys.stderr)
        return 130
    finally:
        if not kept:
            system.stop()
            shutil.rmtree(runtime, ignore_errors=True)
            if os.path.exists(file):
                os.unlink(file)


if __name__ == "__main__":
    sys.exit(main())
