#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The official `openai` client, unmodified, against a real kvd and kvengine with a tiny model.

    test_openai.py KVD KVENGINE TINY_MODEL

Exits 77 (skipped) where the module `openai` is missing. KVD_TEST_PYTHON names a python that has it.
"""
import asyncio
import os
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

try:
    import openai
except ImportError:
    python = os.environ.get("KVD_TEST_PYTHON")
    if python and os.path.realpath(sys.prefix) != os.path.realpath(
            os.path.dirname(os.path.dirname(python))):
        os.execv(python, [python, *sys.argv])
    print("the python module openai is missing: skipped")
    sys.exit(77)

PROGRAMS = {}
READY_SECONDS = 60
LONG = "the quick brown fox jumps over the lazy dog. " * 8


class System:
    """One kvd and one engine on free ports, in a folder of their own."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="kvd-e2e-")
        self.processes = []
        model = self.path("tiny.gguf")
        subprocess.run([PROGRAMS["tiny"], model], check=True)
        self.start("kvd", "--socket", self.path("kvd.sock"), "--state-dir", self.path("state"),
                   "--pool-bytes", "64MiB")
        self.url = self.start("kvengine", "--model", model, "--socket", self.path("kvd.sock"),
                              "--port", "0", "--served-model-name", "tiny", "--threads", "1")

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def start(self, name, *args):
        read_fd, write_fd = os.pipe()
        process = subprocess.Popen([PROGRAMS[name], *args, "--ready-fd", str(write_fd)],
                                   pass_fds=[write_fd])
        self.processes.append(process)
        os.close(write_fd)
        with os.fdopen(read_fd) as ready:
            line = ready.readline()
        if not line:
            raise RuntimeError(f"{name} did not get ready")
        return line.split(maxsplit=1)[1].strip()

    def stop(self):
        for process in reversed(self.processes):
            process.terminate()
        codes = [process.wait(30) for process in reversed(self.processes)]
        self.folder.cleanup()
        return codes


class OpenAITest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.system = System()
        cls.client = openai.OpenAI(base_url=cls.system.url + "/v1", api_key="none", timeout=60,
                                   max_retries=0)

    @classmethod
    def tearDownClass(cls):
        codes = cls.system.stop()
        assert codes == [0, 0], f"kvengine and kvd ended with {codes}"

    def chat(self, text="hello", **options):
        options = {"max_tokens": 8, "temperature": 0, "extra_body": {"ignore_eos": True},
                   **options}
        return self.client.chat.completions.create(
            model="tiny", messages=[{"role": "user", "content": text}], **options)

    def complete(self, prompt="hello", **options):
        options = {"max_tokens": 8, "temperature": 0, "extra_body": {"ignore_eos": True},
                   **options}
        return self.client.completions.create(model="tiny", prompt=prompt, **options)

    def metric(self, name, label=""):
        with urllib.request.urlopen(self.system.url + "/metrics") as f:
            for line in f.read().decode().splitlines():
                if line.startswith("kvengine_" + name + "{") and label in line:
                    return float(line.rsplit(maxsplit=1)[1])
        raise KeyError(name)

    def test_models(self):
        self.assertEqual([m.id for m in self.client.models.list()], ["tiny"])

    def test_chat_and_its_usage(self):
        answer = self.chat()
        self.assertEqual(answer.object, "chat.completion")
        self.assertEqual(answer.choices[0].message.role, "assistant")
        self.assertEqual(answer.choices[0].finish_reason, "length")
        self.assertEqual(answer.usage.completion_tokens, 8)
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + 8)

    def test_second_time_is_cached_and_equal(self):
        text = LONG + "cached"
        first = self.chat(text, logprobs=True)
        second = self.chat(text, logprobs=True)
        cold = self.chat(text, logprobs=True, extra_body={"ignore_eos": True, "cache": False})
        self.assertGreater(second.usage.prompt_tokens_details.cached_tokens, 0)
        self.assertEqual(cold.usage.prompt_tokens_details.cached_tokens, 0)
        self.assertEqual(first.choices, second.choices)
        self.assertEqual(first.choices, cold.choices)
        self.assertEqual(second.model_extra["kvd"]["kv_bytes_copied"], 0)

    def test_chat_stream(self):
        whole = self.chat().choices[0].message.content
        chunks = list(self.chat(stream=True, stream_options={"include_usage": True}))
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        self.assertEqual(text, whole)
        self.assertEqual(chunks[-1].choices, [])
        self.assertEqual(chunks[-1].usage.completion_tokens, 8)
        self.assertEqual(chunks[-2].choices[0].finish_reason, "length")
        self.assertEqual(len(chunks), 1 + 8 + 1)

    def test_chat_logprobs(self):
        content = self.chat(logprobs=True, top_logprobs=3).choices[0].logprobs.content
        self.assertEqual(len(content), 8)
        for item in content:
            self.assertEqual(len(item.top_logprobs), 3)
            self.assertEqual(item.top_logprobs[0].logprob, item.logprob)
            self.assertLessEqual(item.logprob, 0)

    def test_completion_forms(self):
        by_text = self.complete(["hello", "other"])
        self.assertEqual([c.index for c in by_text.choices], [0, 1])
        self.assertEqual(by_text.choices[0].text, self.complete("hello").choices[0].text)
        ids = self.complete([70, 71, 72], logprobs=2, echo=True, max_tokens=2)
        self.assertEqual(len(ids.choices[0].logprobs.tokens), 5)
        self.assertIsNone(ids.choices[0].logprobs.token_logprobs[0])
        self.assertEqual(self.complete([[70, 71], [72]]).usage.prompt_tokens, 3)

    def test_completion_stream(self):
        whole = self.complete().choices[0].text
        chunks = list(self.complete(stream=True))
        self.assertEqual("".join(c.choices[0].text for c in chunks), whole)
        self.assertEqual(len(chunks), 8)

    def test_seed_and_n(self):
        one = self.complete(n=3, temperature=1.0, seed=5)
        two = self.complete(n=3, temperature=1.0, seed=5)
        self.assertEqual([c.text for c in one.choices], [c.text for c in two.choices])
        self.assertGreater(len({c.text for c in one.choices}), 1)

    def test_stop(self):
        whole = self.complete(max_tokens=40).choices[0].text
        stop = whole[len(whole) // 2:][:2]
        answer = self.complete(max_tokens=40, stop=[stop, "never in there"])
        self.assertEqual(answer.choices[0].text, whole[:whole.index(stop)])
        self.assertEqual(answer.choices[0].finish_reason, "stop")

    def test_errors(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat(temperature=9)
        self.assertEqual(caught.exception.param, "temperature")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.complete(LONG * 20)
        self.assertEqual(caught.exception.code, "context_length_exceeded")
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.completions.create(model="other", prompt="a")
        self.assertEqual(caught.exception.code, "model_not_found")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat(tools=[{"type": "function", "function": {"name": "f"}}])
        self.assertEqual(caught.exception.param, "tools")

    def test_closing_a_stream_ends_the_request(self):
        before = self.metric("request_success_total", "abort")
        stream = self.complete(max_tokens=1000, n=30, stream=True)
        next(iter(stream))
        stream.close()
        deadline = time.monotonic() + READY_SECONDS
        while self.metric("request_success_total", "abort") == before:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        self.assertEqual(self.metric("num_requests_running"), 0)

    def test_many_at_once_say_what_each_says_alone(self):
        prompts = [LONG + str(i) for i in range(12)]
        alone = [self.complete(p, max_tokens=16).choices[0].text for p in prompts]

        async def together():
            async with openai.AsyncOpenAI(base_url=self.system.url + "/v1", api_key="none",
                                          timeout=60, max_retries=0) as client:
                return await asyncio.gather(*(
                    client.completions.create(model="tiny", prompt=p, max_tokens=16,
                                              temperature=0, extra_body={"ignore_eos": True})
                    for p in prompts))
        answers = asyncio.run(together())
        self.assertEqual([a.choices[0].text for a in answers], alone)


if __name__ == "__main__":
    PROGRAMS["kvd"], PROGRAMS["kvengine"], PROGRAMS["tiny"] = sys.argv[1:4]
    unittest.main(argv=sys.argv[:1], verbosity=2)
