#!/usr/bin/env python3
"""Weights from `train` and a tokenizer from prep.py to a GGUF file with F32 weights.

    togguf.py WEIGHTS.bin TOKENIZER.json OUT.gguf

Needs numpy and the `gguf` package (llama.cpp's gguf-py)."""
import argparse
import json
import struct

import gguf
import numpy as np

HEADER = struct.Struct("<9i")
N_SPECIAL = 3  # the last tokens; the first of them ends a text
NORMAL, CONTROL = 1, 3  # GGUF token types


class Weights:
    """Takes the tensors off a weights file in their order (model.h)."""

    def __init__(self, path):
        with open(path, "rb") as file:
            (self.layers, self.width, self.heads, self.heads_kv, self.head, self.experts, self.used, self.ff,
             self.vocab) = HEADER.unpack(file.read(HEADER.size))
            self.values = np.frombuffer(file.read(), np.float32)
        self.at = 0

    def take(self, *shape):
        n = int(np.prod(shape))
        values = self.values[self.at:self.at + n].reshape(shape)
        self.at += n
        return np.ascontiguousarray(values)

    def tensors(self):
        d, q, kv, e, ff = self.width, self.heads * self.head, self.heads_kv * self.head, self.experts, self.ff
        layer = [("attn_norm", (d,)), ("attn_q", (q, d)), ("attn_k", (kv, d)), ("attn_v", (kv, d)),
                 ("attn_q_norm", (self.head,)), ("attn_k_norm", (self.head,)), ("attn_output", (d, q)),
                 ("ffn_norm", (d,)), ("ffn_gate_inp", (e, d)), ("ffn_gate_exps", (e, ff, d)),
                 ("ffn_up_exps", (e, ff, d)), ("ffn_down_exps", (e, d, ff))]
        yield "token_embd.weight", self.take(self.vocab, d)
        for i in range(self.layers):
            for name, shape in layer:
                yield f"blk.{i}.{name}.weight", self.take(*shape)
        yield "output_norm.weight", self.take(d)
        if self.at != len(self.values):
            raise SystemExit(f"togguf: the shape accounts for {self.at} weights, the file has {len(self.values)}")


def add_metadata(writer, w, tokenizer):
    writer.add_name("Sluice demo")
    writer.add_description("Small mixture-of-experts model of public-domain literature, trained for Sluice")
    writer.add_context_length(1024)
    writer.add_embedding_length(w.width)
    writer.add_block_count(w.layers)
    writer.add_feed_forward_length(w.ff * w.used)
    writer.add_head_count(w.heads)
    writer.add_head_count_kv(w.heads_kv)
    writer.add_key_length(w.head)
    writer.add_value_length(w.head)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_expert_count(w.experts)
    writer.add_expert_used_count(w.used)
    writer.add_expert_feed_forward_length(w.ff)
    writer.add_vocab_size(w.vocab)
    writer.add_file_type(0)
    end = w.vocab - N_SPECIAL
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokenizer["vocab"])
    writer.add_token_types([NORMAL] * end + [CONTROL] * N_SPECIAL)
    writer.add_token_merges([" ".join(pair) for pair in tokenizer["merges"]])
    writer.add_eos_token_id(end)
    writer.add_bos_token_id(end)
    writer.add_add_bos_token(False)


def main():
    parser = argparse.ArgumentParser(description="Writes trained weights as GGUF.")
    parser.add_argument("weights")
    parser.add_argument("tokenizer")
    parser.add_argument("out")
    options = parser.parse_args()
    with open(options.tokenizer, encoding="utf-8") as file:
        tokenizer = json.load(file)
    weights = Weights(options.weights)
    if len(tokenizer["vocab"]) != weights.vocab:
        raise SystemExit(f"togguf: {len(tokenizer['vocab'])} tokens for {weights.vocab} embeddings")
    writer = gguf.GGUFWriter(options.out, "qwen3moe")
    add_metadata(writer, weights, tokenizer)
    for name, values in weights.tensors():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
