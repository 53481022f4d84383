#!/usr/bin/env python3
"""Hashes of what llama.cpp's gguf-py makes of seeded random blocks, for tests/quant/test_table.c.

    decode_hashes.py    needs numpy and the `gguf` Python package

1024 blocks a format, so that every index of a grid, every pattern of signs and every scale comes up. The half d of every
block is 1; NVFP4's scale bytes stay random."""
import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf.quants import dequantize

BLOCKS = 1024
# offset of the half d; IQ1_M's is spread over four words
HALVES = {"IQ1_S": 0, "IQ1_M": None, "IQ2_XXS": 0, "IQ2_XS": 0, "IQ2_S": 0, "IQ3_XXS": 0, "IQ3_S": 0, "TQ1_0": 52,
          "TQ2_0": 64, "NVFP4": None}


def splitmix(seed, n):
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9e3779b97f4a7c15)
        z = (z ^ z >> np.uint64(30)) * np.uint64(0xbf58476d1ce4e5b9)
        z = (z ^ z >> np.uint64(27)) * np.uint64(0x94d049bb133111eb)
        return z ^ z >> np.uint64(31)


def fnv(data):
    h = 0xcbf29ce484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    return h


def main():
    for name, at in HALVES.items():
        kind = Type[name]
        _, block_bytes = gguf.GGML_QUANT_SIZES[kind]
        raw = (splitmix(1000 + kind.value, BLOCKS * block_bytes) >> np.uint64(56)).astype(np.uint8)
        raw = raw.reshape(BLOCKS, block_bytes)
        if name == "IQ1_M":
            for i, nibble in enumerate([0, 0, 0xc, 3]):
                raw[:, 49 + 2 * i] = raw[:, 49 + 2 * i] & 0xf | nibble << 4
        elif at is not None:
            raw[:, at:at + 2] = [0, 0x3c]
        values = dequantize(raw.reshape(-1), kind).astype("<f4")
        print(f"{{QUANT_{name}, 0x{fnv(values.tobytes()):016x}}},")


if __name__ == "__main__":
    main()
