# SPDX-License-Identifier: Apache-2.0
"""Writes tokens.bin: texts and their tokens by Hugging Face's `tokenizers`, conversations by the
model's own Jinja template. Needs: pip install tokenizers gguf jinja2.

usage: make_tokens.py MODEL.gguf [tokens.bin]

Records until the end of the file. Strings are u32 length and bytes, ids u32 count and u32 each.
    u8 1 | u8 special | string text | ids | string decoded       a text
    u8 2 | u32 messages | (string role, string content)... | ids  a conversation
"""

import pathlib
import random
import struct
import sys

import jinja2.sandbox

import model_tokenizer

HERE = pathlib.Path(__file__).parent

TEXTS = [
    "", " ", "\n", "a", "Hello, world!", "hello", " hello", "  hello", "   ", "a  b   c    d",
    "a  1", "a   1 2", "   1", "1  ", "12345", "3.14159", "1,000,000", "½ ¾ Ⅻ ٣٤ 一二 ²",
    "I'm you're he's we'll they'd can't I've", "I'M YOU'RE HE'S", "'s 't 're", "''s", "don’t",
    "\t\tif (x) {\n\t\t\treturn;\n\t\t}\n", "line\r\nline\r\n\r\n", "\n\n\n", " \n \n ", "x\n\n\n\ny",
    "\u00a0nbsp\u00a0", "\u2003em\u2003space", "\u180e mongolian\u180e", "a\u200bb zero\u200dwidth",
    "\u0085next\u2028line\u2029para", "\x1c\x1d\x1e\x1f separators", "\x00\x01\x02\x03\x04\x05\x06",
    "\x07\x08\x0b\x0c\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x7f", "a\x04b\x06c",
    "he\x04llo wor\x13ld", "\u0080\u0081\u00ad\u00ff", "ÀÁñÿ", "Ünïcödé", "Straße İstanbul ı ſ K",
    "e\u0301 vs é", "ﬁ ﬂ ﬀ", "日本語のテキスト", "中文字符，标点。", "한국어 텍스트", "ภาษาไทย", "हिन्दी पाठ",
    "العربية ١٢٣", "עִבְרִית", "Ελληνικά", "Кириллица", "👍", "👨‍👩‍👧‍👦", "🏳️‍🌈 🇺🇦", "🧑🏽‍🚀x", "\U00010348\U0001d11e",
    "\U0010ffff\ufffe\uffff", "\ufffd\ufeffbom", "<|im_start|>", "<|im_start|>user\nhi<|im_end|>\n",
    "a<|im_end|>b", "<|im_start|", "<|im_start|><|im_start|>", "<<|im_end|>>", "<|endoftext|><|endoftext|>",
    "<repo_name>x<file_sep>", "< |im_end|>", "https://example.com/a?b=c&d=%20#e", "foo_bar.baz(qux)[0] += 1;",
    "ＦＵＬＬ　ｗｉｄｔｈ", "a" * 1000, "ab" * 700, " " * 300, "\n" * 257, "-" * 129, "=" * 80 + ">",
    "0123456789" * 30, "the " * 400, "🙂" * 100, "é" * 333, "Ab1!" * 200, "\t" * 65, " \t" * 50, "!?" * 99,
]
# Bytes that are not UTF-8: read as Python's errors="replace" does.
BROKEN = [
    b"\xff", b"\xc3", b"\xc3(", b"a\xe2\x82b", b"\xe2\x82\xac\xe2\x82", b"\xf0\x9f\x98", b"\xf0\x9f\x98\xf0\x9f\x98\x80",
    b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\x80\x80\x80", b"ok\xfe\xffok", b"\xe0\x80\x80", b"\xf8\x88\x80\x80\x80",
]
CHATS = [
    [("user", "Hello")],
    [("system", "You are terse."), ("user", "Why is the sky blue?")],
    [("user", "Hi"), ("assistant", "Hello! How can I help?"), ("user", "What's 2+2?")],
    [("user", "")], [("user", "\n\nleading newlines")], [("user", "trailing spaces   ")],
    [("user", "12 apples"), ("system", "late system"), ("user", "naïve café 🙂")],
    [("system", ""), ("user", "empty system")], [("tool", "{\"a\": 1}")],
]


def generated(rng):
    """Random mixtures: what nobody thinks of writing down."""
    pools = ["abcdefghijklmnopqrstuvwxyz", "ABC'sStTrReEvVmMlLdD", "0123456789", "   \t\n\r", "!\"#$%&()*+,-./:;<=>?@[]^_{|}~",
             "äöüßéèñçøåœ", "абвгдежз", "中文字符日本語", "🙂🚀👍🏽\u200d", "\u00a0\u2003\u3000\u180e\u200b\u0301\ufe0f"]
    for _ in range(120):
        pick = rng.sample(pools, rng.randint(1, 4))
        yield "".join(rng.choice(rng.choice(pick)) for _ in range(rng.randint(1, 60)))


def string(raw):
    return struct.pack("<I", len(raw)) + raw


def ids(values):
    return struct.pack(f"<I{len(values)}I", len(values), *values)


def main(model, path):
    tok, template = model_tokenizer.load(model)
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    render = env.from_string(template).render
    out = bytearray()

    def text(raw, special):
        tok.encode_special_tokens = not special
        got = tok.encode(raw.decode("utf-8", "replace"), add_special_tokens=False).ids
        out.extend(bytes([1, special]) + string(raw) + ids(got))
        out.extend(string(tok.decode(got, skip_special_tokens=True).encode()))

    corpus = [p.read_bytes() for p in sorted((HERE / "corpus").iterdir())]
    for raw in [t.encode() for t in TEXTS] + BROKEN + corpus:
        text(raw, True)
        text(raw, False)
    for t in generated(random.Random(11)):
        text(t.encode(), True)
    tok.encode_special_tokens = False
    for chat in CHATS:
        messages = [{"role": r, "content": c} for r, c in chat]
        shown = render(messages=messages, add_generation_prompt=True)
        out.extend(struct.pack("<BI", 2, len(chat)))
        for role, content in chat:
            out.extend(string(role.encode()) + string(content.encode()))
        out.extend(ids(tok.encode(shown, add_special_tokens=False).ids))
    pathlib.Path(path).write_bytes(out)


if not 2 <= len(sys.argv) <= 3:
    sys.exit(__doc__)
main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else HERE / "tokens.bin")
