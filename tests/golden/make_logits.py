# SPDX-License-Identifier: Apache-2.0
"""Writes logits.bin: next-token distributions of SmolLM2 in float32 by `transformers`, over the
corpus. Needs: pip install torch transformers accelerate gguf tokenizers.

usage: make_logits.py MODEL.gguf [logits.bin]

Little endian. Header: "KVDL", u32 vocab, u32 top, u32 tails, u32 sequences. For each sequence:
    u32 tokens | u32 id[tokens] | u32 positions | records
A record is the distribution after one position:
    u32 position | f32 margin | u16 id[top] | u16 cost[top] | u16 tail[tails]
The ids are the `top` likeliest, best first; cost is -logprob * 2048, rounded. Every other token t
belongs to tail t % tails, of which the cost of the summed probability is stored; 65535 stands for
all that is 32 nats or more. margin is the distance in logprob between the best two, exactly.
A KL divergence over these top + tails events is a lower bound of the one over all tokens, and a
tight one: the tails hold little, which the script prints."""

import pathlib
import struct
import sys

import numpy as np
import torch
from transformers import AutoModelForCausalLM

import model_tokenizer

HERE = pathlib.Path(__file__).parent
TOP, TAILS, STEP = 320, 64, 2048
TOKENS_EACH = 350  # of each text alone
STRIDE = 5         # of the positions of all texts in one sequence


def cost(logprobs):
    return np.minimum(np.rint(-logprobs * STEP), 65535).astype("<u2")


def record(position, logprobs, tail_mass):
    order = np.argsort(-logprobs, kind="stable")[:TOP]
    rest = np.exp(logprobs)
    rest[order] = 0
    tails = np.bincount(np.arange(rest.size) % TAILS, weights=rest, minlength=TAILS)
    tail_mass.append(tails.sum())
    with np.errstate(divide="ignore"):
        tails = np.log(tails)
    margin = logprobs[order[0]] - logprobs[order[1]]
    return (struct.pack("<If", position, margin) + order.astype("<u2").tobytes() +
            cost(logprobs[order]).tobytes() + cost(tails).tobytes())


def sequence(model, ids, stride, tail_mass):
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0]
    logprobs = torch.log_softmax(logits.double(), dim=-1).numpy()
    positions = range(0, len(ids), stride)
    return b"".join([struct.pack(f"<I{len(ids)}I", len(ids), *ids),
                     struct.pack("<I", len(positions)),
                     *(record(p, logprobs[p], tail_mass) for p in positions)])


def main(path, out):
    path = pathlib.Path(path)
    tok, _ = model_tokenizer.load(str(path))
    model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name,
                                                 dtype=torch.float32, attn_implementation="eager")
    model.eval()
    texts = [tok.encode(p.read_text(), add_special_tokens=False).ids
             for p in sorted((HERE / "corpus").iterdir())]
    tail_mass = []
    parts = [sequence(model, ids[:TOKENS_EACH], 1, tail_mass) for ids in texts]
    parts.append(sequence(model, sum(texts, []), STRIDE, tail_mass))
    head = b"KVDL" + struct.pack("<4I", model.config.vocab_size, TOP, TAILS, len(parts))
    pathlib.Path(out).write_bytes(head + b"".join(parts))
    print(f"{len(tail_mass)} positions; beyond the top {TOP}: mean {np.mean(tail_mass):.4f}, "
          f"p99 {np.quantile(tail_mass, 0.99):.4f} of the probability")


if not 2 <= len(sys.argv) <= 3:
    sys.exit(__doc__)
main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else HERE / "logits.bin")
