#!/usr/bin/env python3
"""Rewrites a one-layer `qwen3moe` model in the formats that are rarely used, with ggml's own encoders.

    rare.py LIBGGML-BASE.so IN.gguf OUT.gguf [TYPE]

Each kind of tensor has a format of its own (the table below), or all of them TYPE. Importance matrices are all ones. NVFP4
needs weights that its scales can express: they are written 16 times as large, and the factors beside them ("NAME.scale",
which the model must have) are divided by 16. Needs numpy and the `gguf` Python package."""
import ctypes
import sys

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf.quants import dequantize
from mix import copy_metadata

FORMATS = {"token_embd": Type.IQ3_S, "output": Type.IQ3_XXS, "attn_q": Type.IQ2_XXS, "attn_k": Type.IQ2_XS,
           "attn_v": Type.IQ2_S, "attn_output": Type.TQ1_0, "ffn_gate_exps": Type.IQ1_S, "ffn_up_exps": Type.IQ1_M,
           "ffn_down_exps": Type.NVFP4}
NVFP4_FACTOR = 16


def encode(library, values, kind):
    length, size = gguf.GGML_QUANT_SIZES[kind]
    flat = np.ascontiguousarray(values, dtype=np.float32)
    columns = flat.shape[-1]
    rows = flat.size // columns
    out = np.zeros((*flat.shape[:-1], columns // length * size), np.uint8)
    ones = np.ones(columns, np.float32)
    pointer = lambda a: a.ctypes.data_as(ctypes.c_void_p)
    done = library.ggml_quantize_chunk(ctypes.c_int(kind.value), pointer(flat), pointer(out), ctypes.c_int64(0),
                                       ctypes.c_int64(rows), ctypes.c_int64(columns), pointer(ones))
    assert done == out.size
    return out


def main():
    library = ctypes.CDLL(sys.argv[1])
    library.ggml_quantize_chunk.restype = ctypes.c_size_t
    reader = gguf.GGUFReader(sys.argv[2])
    only = Type[sys.argv[4]] if len(sys.argv) > 4 else None
    writer = gguf.GGUFWriter(sys.argv[3], reader.fields["general.architecture"].contents())
    copy_metadata(reader, writer)
    names = {t.name for t in reader.tensors}
    for t in reader.tensors:
        stem, end = t.name.rsplit(".", 1)
        kind = FORMATS.get(stem.split(".")[-1]) if end in ("weight", "scale") else None
        kind = only if kind and only else kind
        if kind == Type.NVFP4 and stem + ".scale" not in names:
            kind = Type.IQ3_S  # embeddings and output have no factor
        if kind is None or (end == "scale" and kind != Type.NVFP4):
            writer.add_tensor(t.name, t.data, raw_dtype=t.tensor_type)
            continue
        values = dequantize(t.data, t.tensor_type).astype(np.float32)
        if end == "scale":
            writer.add_tensor(t.name, values / NVFP4_FACTOR)
            continue
        if kind == Type.NVFP4:
            values = values * NVFP4_FACTOR
        writer.add_tensor(t.name, encode(library, values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    main()
