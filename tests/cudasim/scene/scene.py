#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The demonstration's scene on a GPU, real or simulated: kvd owns the memory, two engine processes
compute on it, one prefix is shared, one engine dies. The answers must be those of the processor,
but where its two best tokens are as good as equal.

scene.py BUILD DEVICE_MEMORY DEVICE LOGS; KVD_MODEL names the model file."""
import http.client
import json
import os
import sys
import tempfile
import threading
import urllib.request
from urllib.parse import urlsplit

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
sys.path.insert(0, os.path.join(ROOT, "tools/demo_data"))
from client import Client, StreamError  # noqa: E402
from processes import StartError, System  # noqa: E402

PROMPT_BYTES = 740    # of the handbook: about 192 tokens with the question and the template
ANSWER_TOKENS = 6
STREAM_TOKENS = 400   # more than there will be time for
MARGIN = 0.05         # in log probability: below, either token is right
CACHED_MIN = 128
ENGINE = ("--context", "512", "--batch-tokens", "256", "--sequences", "4")
QUESTIONS = ("What does it cost?", "Who repairs it?")


def prompt():
    with open(os.path.join(ROOT, "tools/demo_data/handbook.txt"), encoding="utf-8") as f:
        return f.read(PROMPT_BYTES)


def check(holds, what):
    print(f"  {what}: {'yes' if holds else 'NO'}", flush=True)
    if not holds:
        raise StreamError(what)


def metric(client, name):
    with urllib.request.urlopen(client.url + "/metrics") as response:
        for line in response.read().decode().splitlines():
            if line.startswith("kvengine_" + name + "{"):
                return float(line.rsplit(" ", 1)[1])
    raise StreamError(f"no metric {name}")


def reference(client, question):
    """The processor's answer: [(token, its lead over the second)]."""
    body = {"messages": [{"role": "system", "content": prompt()},
                         {"role": "user", "content": question}],
            "max_tokens": ANSWER_TOKENS, "temperature": 0, "logprobs": True, "top_logprobs": 2}
    connection = http.client.HTTPConnection(urlsplit(client.url).netloc, timeout=120)
    connection.request("POST", "/v1/chat/completions", json.dumps(body),
                       {"Content-Type": "application/json"})
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return [(item["token"], item["top_logprobs"][0]["logprob"] - item["top_logprobs"][1]["logprob"])
            for item in answer["choices"][0]["logprobs"]["content"]]


def same_as_reference(tokens, want):
    """Equal until the processor itself could not tell: from there on the texts may differ."""
    for (token, _), (wanted, lead) in zip(tokens, want):
        if token != wanted:
            print(f"    {token!r} for {wanted!r}, whose lead is {lead:.4f}")
            return lead < MARGIN
    return len(tokens) == len(want)


def ask(client, question, **options):
    return client.chat(prompt(), question, ANSWER_TOKENS, **options)


def share(system, a, b, want):
    cold = ask(a, QUESTIONS[0])
    other = ask(b, QUESTIONS[0])
    again = ask(a, QUESTIONS[0])
    alone = ask(b, QUESTIONS[0], cache=False)
    print(f"  {cold.prompt_tokens} prompt tokens, {other.cached_tokens} from the cache on B, "
          f"first token after {cold.ttft_ms:.0f} ms cold, {other.ttft_ms:.0f} ms on B")
    check(cold.cached_tokens == 0, "A computed the prompt")
    check(other.cached_tokens >= CACHED_MIN, "B found it")
    check(other.tokens == cold.tokens and again.tokens == cold.tokens,
          "B's and A's warm answers are the cold one, to the bit of every log-probability")
    check(alone.tokens == cold.tokens, "so is the answer without the cache")
    check(same_as_reference(cold.tokens, want[0]), "the processor's answer is the same")
    check(same_as_reference(ask(b, QUESTIONS[1]).tokens, want[1]), "and to another question")
    check(system.kvctl_json("status")["counters"]["kv_bytes_copied"] == 0, "nothing was copied")


def kill_one(system, program_a, a, b, want):
    streaming = threading.Event()
    failure = []

    def stream():
        try:
            a.chat(prompt(), QUESTIONS[1], STREAM_TOKENS, ignore_eos=True,
                   on_event=lambda answer: answer.tokens and streaming.set())
        except StreamError as e:
            failure.append(e)

    doomed = threading.Thread(target=stream)
    doomed.start()
    check(streaming.wait(60), "A streams")
    program_a.kill()
    doomed.join()
    check(len(failure) == 1, "A died in the middle of it")
    answer = ask(b, QUESTIONS[0])
    check(answer.cached_tokens >= CACHED_MIN, "the shared pages are still there")
    check(same_as_reference(answer.tokens, want[0]), "and right")
    print("  " + system.kvctl("check").strip())


def run(system, reference_system, device):
    kvd = system.start_kvd()
    reference_system.start_kvd()
    programs = [system.start_engine("engine-a"), system.start_engine("engine-b")]
    processor = Client(reference_system.start_engine("engine-cpu").wait_ready())
    a, b = (Client(program.wait_ready()) for program in programs)
    want = [reference(processor, question) for question in QUESTIONS]
    share(system, a, b, want)
    if device != "cpu":
        check(metric(b, "graph_steps_total") > 0, "steps were replayed from graphs")
    kill_one(system, programs[0], a, b, want)
    for program in (programs[1], kvd):
        program.stop()
        check(program.process.returncode == 0, f"{program.name} ended cleanly")


def main():
    build, device_memory, device, logs = sys.argv[1:]
    model = os.environ.get("KVD_MODEL", "")
    if not os.access(model, os.R_OK):
        print("skipped: KVD_MODEL names no model file; tests/model/fetch gets one")
        return 77
    os.makedirs(logs, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kvd-scene-") as runtime:
        system = System(build, logs, model, runtime,
                        ("--pool-bytes", "64MiB", "--device-memory", device_memory),
                        (*ENGINE, "--device", device))
        alone = os.path.join(runtime, "alone")
        os.mkdir(alone)
        reference_system = System(os.path.abspath(build), os.path.join(logs, "cpu"), model, alone,
                                  ("--pool-bytes", "64MiB", "--device-memory", "host"),
                                  (*ENGINE, "--device", "cpu"))
        os.makedirs(reference_system.logs, exist_ok=True)
        try:
            run(system, reference_system, device)
        except (StartError, StreamError) as e:
            print(f"FAILED: {e}; the logs: {logs}")
            for program in system.programs:
                print(f"--- {program.name}\n{program.tail()}")
            return 1
        finally:
            reference_system.stop()
            system.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
