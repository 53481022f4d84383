#!/usr/bin/env python3
"""Writes a tiny deepseek4 model with random F32 weights: deepseek4.py OUT.gguf

A layer of each kind of attention (a window alone; compressed 4:1 with an indexer that picks 4 rows; 128:1) and one more
4:1, a window of 16, YaRN on the compressed layers, and a table of token ids for the router of the first two. Needs numpy
and the `gguf` Python package (llama.cpp's gguf-py)."""
import sys

import gguf
import numpy as np

ARCH = "deepseek4"
N_EMBD, N_VOCAB, N_EXPERT, N_USED, N_FF_EXP = 32, 256, 8, 3, 16
N_HEAD, D_HEAD, N_ROT, Q_LORA, O_GROUPS, O_LORA = 4, 32, 16, 32, 2, 16
INDEX_HEADS, INDEX_DIM, TOP_K = 16, 64, 4  # few heads: several rows score exactly 0, and who wins a tie is open
RATIOS, N_TABLES, WINDOW, STREAMS = [0, 4, 128, 4], 2, 16, 4


def main():
    random = np.random.default_rng(4)
    w = gguf.GGUFWriter(sys.argv[1], ARCH)

    def u32(key, value):
        w.add_uint32(f"{ARCH}.{key}", value)

    def f32(key, value):
        w.add_float32(f"{ARCH}.{key}", value)

    def tensor(name, *shape):
        w.add_tensor(name, random.standard_normal(shape).astype(np.float32) / np.float32(np.sqrt(shape[-1])))

    def vector(name, n, mean=1.0):
        w.add_tensor(name, (mean + 0.1 * random.standard_normal(n)).astype(np.float32))

    def compressor(name, ratio, d):
        width = 2 * d if ratio == 4 else d
        tensor(name + "_kv.weight", width, N_EMBD)
        tensor(name + "_gate.weight", width, N_EMBD)
        tensor(name + "_ape.weight", ratio, width)
        vector(name + "_norm.weight", d)

    def streams(name, n_scales, n_mixes):
        tensor(name + "_fn.weight", n_mixes, STREAMS * N_EMBD)
        vector(name + "_base.weight", n_mixes, 0.0)
        vector(name + "_scale.weight", n_scales)

    u32("block_count", len(RATIOS))
    u32("context_length", 256)
    u32("embedding_length", N_EMBD)
    u32("feed_forward_length", N_FF_EXP)
    u32("expert_feed_forward_length", N_FF_EXP)
    u32("vocab_size", N_VOCAB)
    u32("expert_count", N_EXPERT)
    u32("expert_used_count", N_USED)
    u32("expert_shared_count", 1)
    f32("expert_weights_scale", 1.5)
    w.add_bool(f"{ARCH}.expert_weights_norm", True)
    u32("expert_gating_func", 4)
    f32("swiglu_clamp_exp", 10.0)
    u32("hash_layer_count", N_TABLES)
    u32("attention.head_count", N_HEAD)
    u32("attention.head_count_kv", 1)
    u32("attention.key_length", D_HEAD)
    u32("attention.value_length", D_HEAD)
    f32("attention.layer_norm_rms_epsilon", 1e-6)
    u32("attention.q_lora_rank", Q_LORA)
    u32("attention.sliding_window", WINDOW)
    u32("attention.indexer.head_count", INDEX_HEADS)
    u32("attention.indexer.key_length", INDEX_DIM)
    u32("attention.indexer.top_k", TOP_K)
    u32("attention.output_group_count", O_GROUPS)
    u32("attention.output_lora_rank", O_LORA)
    f32("attention.compress_rope_freq_base", 160000.0)
    w.add_array(f"{ARCH}.attention.compress_ratios", RATIOS)
    u32("hyper_connection.count", STREAMS)
    u32("hyper_connection.sinkhorn_iterations", 20)
    f32("hyper_connection.epsilon", 1e-6)
    u32("rope.dimension_count", N_ROT)
    f32("rope.freq_base", 10000.0)
    w.add_string(f"{ARCH}.rope.scaling.type", "yarn")
    f32("rope.scaling.factor", 4.0)
    u32("rope.scaling.original_context_length", 64)
    f32("rope.scaling.yarn_beta_fast", 32.0)
    f32("rope.scaling.yarn_beta_slow", 1.0)
    w.add_string("tokenizer.ggml.model", "no_vocab")

    tensor("token_embd.weight", N_VOCAB, N_EMBD)
    vector("output_norm.weight", N_EMBD)
    tensor("output.weight", N_VOCAB, N_EMBD)
    streams("output_hc", 1, STREAMS)
    for i, ratio in enumerate(RATIOS):
        b = f"blk.{i}."
        vector(b + "attn_norm.weight", N_EMBD)
        vector(b + "attn_sinks.weight", N_HEAD, 0.0)
        tensor(b + "attn_q_a.weight", Q_LORA, N_EMBD)
        vector(b + "attn_q_a_norm.weight", Q_LORA)
        tensor(b + "attn_q_b.weight", N_HEAD * D_HEAD, Q_LORA)
        tensor(b + "attn_kv.weight", D_HEAD, N_EMBD)
        vector(b + "attn_kv_a_norm.weight", D_HEAD)
        tensor(b + "attn_output_a.weight", O_GROUPS * O_LORA, N_HEAD * D_HEAD // O_GROUPS)
        tensor(b + "attn_output_b.weight", N_EMBD, O_GROUPS * O_LORA)
        streams(b + "hc_attn", 3, STREAMS * (STREAMS + 2))
        streams(b + "hc_ffn", 3, STREAMS * (STREAMS + 2))
        if ratio:
            compressor(b + "attn_compressor", ratio, D_HEAD)
        if ratio == 4:
            compressor(b + "indexer_compressor", ratio, INDEX_DIM)
            tensor(b + "indexer.attn_q_b.weight", INDEX_HEADS * INDEX_DIM, Q_LORA)
            tensor(b + "indexer.proj.weight", INDEX_HEADS, N_EMBD)
        vector(b + "ffn_norm.weight", N_EMBD)
        tensor(b + "ffn_gate_inp.weight", N_EXPERT, N_EMBD)
        if i < N_TABLES:
            table = np.argsort(random.random((N_VOCAB, N_EXPERT)), axis=1)[:, :N_USED]
            w.add_tensor(b + "ffn_gate_tid2eid.weight", np.ascontiguousarray(table).astype(np.int32))
        else:
            vector(b + "exp_probs_b.bias", N_EXPERT, 0.0)
        for part, d_out, d_in in [("gate", N_FF_EXP, N_EMBD), ("up", N_FF_EXP, N_EMBD), ("down", N_EMBD, N_FF_EXP)]:
            tensor(b + f"ffn_{part}_exps.weight", N_EXPERT, d_out, d_in)
            tensor(b + f"ffn_{part}_shexp.weight", d_out, d_in)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main()
