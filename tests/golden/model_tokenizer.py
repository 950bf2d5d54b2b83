# SPDX-License-Identifier: Apache-2.0
"""Builds the Hugging Face tokenizer of SmolLM2 from its GGUF file."""

from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

CONTROL = 3


def load(path):
    """Returns (tokenizer, chat template)."""
    reader = GGUFReader(path)
    value = lambda key: reader.fields[key].contents()
    assert value("tokenizer.ggml.pre") == "smollm"
    tokens = value("tokenizer.ggml.tokens")
    merges = [tuple(m.split(" ")) for m in value("tokenizer.ggml.merges")]
    tok = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, merges))
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    tok.decoder = decoders.ByteLevel()
    tok.add_special_tokens([AddedToken(t, special=True, normalized=False)
                            for t, kind in zip(tokens, value("tokenizer.ggml.token_type"))
                            if kind == CONTROL])
    return tok, value("tokenizer.chat_template")
