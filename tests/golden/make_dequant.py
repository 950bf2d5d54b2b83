# SPDX-License-Identifier: Apache-2.0
"""Writes dequant.bin: random blocks of every supported type, and the floats they stand for
according to the `gguf` package. Needs: pip install gguf numpy.

Records until the end of the file: u32 type, u32 bytes, u32 elements, bytes, f32[elements]."""

import struct
import sys

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize

BLOCKS = 3
# Offsets of the f16 numbers in a block: random bytes there could be NaN.
HALVES = {T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0],
          T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208]}
WIDE = [0.0, -0.0, 1.0, -2.5, 65504.0, 6e-8, -6.1e-5, 3.14159, np.inf, -np.inf]


def blocks(kind, rng):
    _, size = GGML_QUANT_SIZES[kind]
    raw = rng.integers(0, 256, (BLOCKS, size), dtype=np.uint8)
    for i, at in enumerate(HALVES[kind]):
        # Normal, subnormal and zero scales.
        d = np.array([0.0123 * (i + 1), -1.7, 5e-7 * i], dtype=np.float16)
        raw[:, at:at + 2] = d.view(np.uint8).reshape(BLOCKS, 2)
    return raw.reshape(1, -1)


def main(path):
    rng = np.random.default_rng(7)
    wide = np.array(WIDE, dtype=np.float32)
    with open(path, "wb") as f:
        def record(kind, raw, values):
            f.write(struct.pack("<III", kind, len(raw), values.size))
            f.write(raw + np.ascontiguousarray(values, dtype="<f4").tobytes())

        record(T.F32, wide.tobytes(), wide)
        half = wide.astype(np.float16)
        record(T.F16, half.tobytes(), half.astype(np.float32))
        brain = (wide.view(np.uint32) >> 16).astype(np.uint16)
        record(T.BF16, brain.tobytes(), (brain.astype(np.uint32) << 16).view(np.float32))
        for kind in HALVES:
            raw = blocks(kind, rng)
            record(kind, raw.tobytes(), dequantize(raw, kind))


main(sys.argv[1] if len(sys.argv) > 1 else "dequant.bin")
