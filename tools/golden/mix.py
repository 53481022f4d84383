#!/usr/bin/env python3
"""Rewrites a GGUF model so that its tensors have many formats, differently by layer and by part of an expert.

    mix.py IN.gguf OUT.gguf

Tensors in one of the formats of KEPT stay as they are; the others are written in the formats of the table below.
Needs numpy and the `gguf` Python package (llama.cpp's gguf-py), whose encoders know only some of the formats."""
import sys

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf.quants import dequantize, quantize

KEPT = {Type.F32, Type.F16, Type.BF16, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0, Type.Q2_K, Type.Q3_K,
        Type.Q4_K, Type.Q5_K, Type.Q6_K, Type.IQ4_NL, Type.IQ4_XS, Type.MXFP4}
# By a piece of the name; the first that fits.
FORMATS = [("token_embd", Type.Q4_0), ("output.weight", Type.Q8_0), ("attn_q.", Type.F16), ("attn_k.", Type.Q5_1),
           ("attn_v.", Type.BF16), ("attn_output.", Type.Q4_1), ("ffn_gate_exps", Type.Q4_0),
           ("ffn_up_exps", Type.Q5_1), ("", Type.Q8_0)]


def copy_metadata(reader, writer):
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        if field.contents() == []:
            continue  # GGUFWriter refuses empty arrays
        sub_type = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=sub_type)


def main():
    source, out = sys.argv[1:3]
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(out, reader.fields["general.architecture"].contents())
    copy_metadata(reader, writer)
    for t in reader.tensors:
        if t.tensor_type in KEPT:
            writer.add_tensor(t.name, t.data, raw_dtype=t.tensor_type)
            continue
        kind = next(k for piece, k in FORMATS if piece in t.name)
        values = dequantize(t.data, t.tensor_type).astype(np.float32)
        writer.add_tensor(t.name, quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main()
