# SPDX-License-Identifier: Apache-2.0
"""A small client of one engine's chat API: one streamed request at a time, with its times."""
import http.client
import json
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit

ANSWER_SECONDS = 900  # a slow machine computes a long prompt for minutes


class StreamError(Exception):
    """The stream ended before its end: the server has gone, or said an error."""


@dataclass
class Answer:
    text: str = ""
    tokens: list = field(default_factory=list)  # (token, log-probability)
    times: list = field(default_factory=list)   # when each token came
    start: float = 0.0
    usage: dict = field(default_factory=dict)
    kvd: dict = field(default_factory=dict)

    @property
    def ttft_ms(self):
        return 1000 * (self.times[0] - self.start)

    @property
    def prompt_tokens(self):
        return self.usage["prompt_tokens"]

    @property
    def cached_tokens(self):
        return self.usage["prompt_tokens_details"]["cached_tokens"]

    @property
    def longest_gap_ms(self):
        return 1000 * max((b - a for a, b in zip(self.times, self.times[1:])), default=0)


def events(response):
    """The JSON of each event, until [DONE]."""
    for line in response:
        if not line.startswith(b"data: "):
            continue
        if line.strip() == b"data: [DONE]":
            return
        event = json.loads(line[6:])
        if "error" in event:
            raise StreamError(event["error"]["message"])
        yield event
    raise StreamError("the connection was closed in the middle of the stream")


def read_event(event, answer):
    answer.usage = event.get("usage") or answer.usage
    answer.kvd = event.get("kvd") or answer.kvd
    for choice in event["choices"]:
        for item in (choice["logprobs"] or {}).get("content", []):
            answer.tokens.append((item["token"], item["logprob"]))
            answer.times.append(time.monotonic())
        answer.text += choice["delta"].get("content") or ""


class Client:
    def __init__(self, url):
        self.url = url
        self.host = urlsplit(url).netloc

    def chat(self, system, question, max_tokens, on_event=None, **options):
        """One streamed chat, greedy. on_event(answer) is called after each event."""
        body = {"messages": [{"role": "system", "content": system},
                             {"role": "user", "content": question}],
                "max_tokens": max_tokens, "temperature": 0, "logprobs": True, "stream": True,
                "stream_options": {"include_usage": True}, **options}
        answer = Answer()
        connection = http.client.HTTPConnection(self.host, timeout=ANSWER_SECONDS)
        try:
            connection.connect()
            answer.start = time.monotonic()
            connection.request("POST", "/v1/chat/completions", json.dumps(body),
                               {"Content-Type": "application/json"})
            response = connection.getresponse()
            if response.status != 200:
                raise StreamError(f"{response.status}: {response.read().decode()}")
            for event in events(response):
                read_event(event, answer)
                if on_event:
                    on_event(answer)
        except (OSError, http.client.HTTPException) as e:
            raise StreamError(str(e) or type(e).__name__) from e
        finally:
            connection.close()
        return answer
