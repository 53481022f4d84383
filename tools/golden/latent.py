#!/usr/bin/env python3
"""Writes a tiny model with latent attention and random weights.

    latent.py KIND OUT.gguf

KIND: `kv-b` (deepseek2 as in old files: attn_kv_b, no latent queries; four groups of experts of which two are used;
router bias; YaRN), `yarn` (deepseek2 as in new files: attn_k_b and attn_v_b; YaRN), `deepseek32` (the same with an
indexer that picks 8 positions). Needs numpy and the `gguf` Python package (llama.cpp's gguf-py)."""
import sys

import gguf
import numpy as np

N_EMBD, N_VOCAB, N_LAYER, N_HEAD, N_FF, N_EXPERT, N_FF_EXP = 32, 256, 2, 4, 48, 8, 16
Q_LORA, KV_LORA, N_ROT, NOPE, D_V = 16, 32, 16, 16, 32
INDEX_HEADS, INDEX_DIM, TOP_K = 8, 64, 8


def main():
    kind, out = sys.argv[1:3]
    old, indexer = kind == "kv-b", kind == "deepseek32"
    arch = "deepseek32" if indexer else "deepseek2"
    random = np.random.default_rng(sum(map(ord, kind)))
    w = gguf.GGUFWriter(out, arch)

    def u32(key, value):
        w.add_uint32(f"{arch}.{key}", value)

    def f32(key, value):
        w.add_float32(f"{arch}.{key}", value)

    def tensor(name, *shape, half=True):
        n_in = shape[-1]
        half = half and not indexer  # an inexact product would make another choice of positions
        values = random.standard_normal(shape).astype(np.float32) / np.sqrt(n_in)
        w.add_tensor(name, values.astype(np.float16) if half else values)

    def vector(name, n, mean=1.0):
        w.add_tensor(name, (mean + 0.1 * random.standard_normal(n)).astype(np.float32))

    u32("block_count", N_LAYER)
    u32("context_length", 256)
    u32("embedding_length", N_EMBD)
    u32("feed_forward_length", N_FF)
    u32("expert_feed_forward_length", N_FF_EXP)
    u32("leading_dense_block_count", 1)
    u32("vocab_size", N_VOCAB)
    u32("expert_count", N_EXPERT)
    u32("expert_used_count", 3)
    u32("expert_shared_count", 2)
    f32("expert_weights_scale", 1.5)
    w.add_bool(f"{arch}.expert_weights_norm", True)
    u32("expert_gating_func", 2 if old or indexer else 1)
    if old:
        u32("expert_group_count", 4)
        u32("expert_group_used_count", 2)
    u32("attention.head_count", N_HEAD)
    u32("attention.head_count_kv", N_HEAD if old else 1)
    u32("attention.key_length", NOPE + N_ROT if old else KV_LORA + N_ROT)
    u32("attention.value_length", D_V if old else KV_LORA)
    if not old:
        u32("attention.key_length_mla", NOPE + N_ROT)
        u32("attention.value_length_mla", D_V)
    u32("attention.q_lora_rank", 0 if old else Q_LORA)
    u32("attention.kv_lora_rank", KV_LORA)
    f32("attention.layer_norm_rms_epsilon", 1e-6)
    if indexer:
        u32("attention.indexer.head_count", INDEX_HEADS)
        u32("attention.indexer.key_length", INDEX_DIM)
        u32("attention.indexer.top_k", TOP_K)
    u32("rope.dimension_count", N_ROT)
    f32("rope.freq_base", 10000.0)
    w.add_string(f"{arch}.rope.scaling.type", "yarn")
    f32("rope.scaling.factor", 4.0)
    u32("rope.scaling.original_context_length", 64)
    f32("rope.scaling.yarn_log_multiplier", 0.0707 if old or indexer else 0.1)
    w.add_string("tokenizer.ggml.model", "no_vocab")

    tensor("token_embd.weight", N_VOCAB, N_EMBD)
    vector("output_norm.weight", N_EMBD)
    tensor("output.weight", N_VOCAB, N_EMBD)
    for i in range(N_LAYER):
        b = f"blk.{i}."
        vector(b + "attn_norm.weight", N_EMBD)
        if old:
            tensor(b + "attn_q.weight", N_HEAD * (NOPE + N_ROT), N_EMBD)
            tensor(b + "attn_kv_b.weight", N_HEAD * (NOPE + D_V), KV_LORA)
        else:
            tensor(b + "attn_q_a.weight", Q_LORA, N_EMBD)
            vector(b + "attn_q_a_norm.weight", Q_LORA)
            tensor(b + "attn_q_b.weight", N_HEAD * (NOPE + N_ROT), Q_LORA)
            tensor(b + "attn_k_b.weight", N_HEAD, KV_LORA, NOPE)
            tensor(b + "attn_v_b.weight", N_HEAD, D_V, KV_LORA)
        tensor(b + "attn_kv_a_mqa.weight", KV_LORA + N_ROT, N_EMBD)
        vector(b + "attn_kv_a_norm.weight", KV_LORA)
        tensor(b + "attn_output.weight", N_EMBD, N_HEAD * D_V)
        vector(b + "ffn_norm.weight", N_EMBD)
        if indexer:
            vector(b + "indexer.k_norm.weight", INDEX_DIM)
            vector(b + "indexer.k_norm.bias", INDEX_DIM, 0.0)
            tensor(b + "indexer.proj.weight", INDEX_HEADS, N_EMBD, half=False)
            tensor(b + "indexer.attn_k.weight", INDEX_DIM, N_EMBD)
            tensor(b + "indexer.attn_q_b.weight", INDEX_HEADS * INDEX_DIM, Q_LORA)
        if i == 0:
            tensor(b + "ffn_gate.weight", N_FF, N_EMBD)
            tensor(b + "ffn_up.weight", N_FF, N_EMBD)
            tensor(b + "ffn_down.weight", N_EMBD, N_FF)
            continue
        tensor(b + "ffn_gate_inp.weight", N_EXPERT, N_EMBD, half=False)
        vector(b + "exp_probs_b.bias", N_EXPERT, 0.0)
        tensor(b + "ffn_gate_exps.weight", N_EXPERT, N_FF_EXP, N_EMBD)
        tensor(b + "ffn_up_exps.weight", N_EXPERT, N_FF_EXP, N_EMBD)
        tensor(b + "ffn_down_exps.weight", N_EXPERT, N_EMBD, N_FF_EXP)
        tensor(b + "ffn_gate_shexp.weight", 2 * N_FF_EXP, N_EMBD)
        tensor(b + "ffn_up_shexp.weight", 2 * N_FF_EXP, N_EMBD)
        tensor(b + "ffn_down_shexp.weight", N_EMBD, 2 * N_FF_EXP)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("kv-b", "yarn", "deepseek32"):
        sys.exit(__doc__)
    main()
