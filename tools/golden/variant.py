#!/usr/bin/env python3
"""Writes a golden model again with other metadata: variant.py FROM TO CHANGES, where CHANGES is JSON:
{"set": {"key without the architecture": value}, "f32": true (16-bit weights become F32), "mtp": true (the last block is
repeated as one for multi-token prediction)}."""
import json
import sys

import numpy as np
from gguf import GGUFReader, GGUFValueType, GGUFWriter


def add_key(w, key, value):
    if isinstance(value, list):
        w.add_array(key, value)
    elif isinstance(value, bool):
        w.add_bool(key, value)
    elif isinstance(value, float):
        w.add_float32(key, value)
    elif isinstance(value, str):
        w.add_string(key, value)
    else:
        w.add_uint32(key, value)


def mtp_block(tensors, n_blocks, n_embd):
    last, new = f"blk.{n_blocks - 1}.", f"blk.{n_blocks}."
    rng = np.random.default_rng(7)
    block = [(new + name[len(last):], data) for name, data in tensors
             if name.startswith(last) and not name.endswith(".scale")]
    block.append((new + "nextn.eh_proj.weight", rng.standard_normal((n_embd, 2 * n_embd)).astype(np.float16)))
    return block + [(new + f"nextn.{name}.weight", np.ones(n_embd, np.float32))
                    for name in ["enorm", "hnorm", "shared_head_norm"]]


def main(source, target, changes):
    reader = GGUFReader(source)
    fields = {key: field for key, field in reader.fields.items() if not key.startswith("GGUF.")}
    arch = fields.pop("general.architecture").contents()
    n_blocks = fields[arch + ".block_count"].contents()
    sets = {arch + "." + key: value for key, value in changes.get("set", {}).items()}
    if changes.get("mtp"):
        sets |= {arch + ".block_count": n_blocks + 1, arch + ".nextn_predict_layers": 1}
    w = GGUFWriter(target, arch)
    for key, field in fields.items():
        value = field.contents()
        if key.startswith("xielu.") or key in sets or value == []:
            continue
        if field.types[0] == GGUFValueType.ARRAY:
            w.add_array(key, value)
        else:
            w.add_key_value(key, value, field.types[0])
    for key, value in sets.items():
        add_key(w, key, value)
    tensors = [(t.name, np.array(t.data)) for t in reader.tensors if not t.name.endswith(".input_scale")]
    if changes.get("mtp"):
        tensors += mtp_block(tensors, n_blocks, fields[arch + ".embedding_length"].contents())
    for name, data in tensors:
        w.add_tensor(name, data.astype(np.float32) if changes.get("f32") and data.dtype == np.float16 else data)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
