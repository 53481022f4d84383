#!/usr/bin/env python3
"""Writes a tiny gemma4 model with experts and random weights: windowed layers with heads of another size, a layer that
sees everything and takes its keys for values, a dense first layer, gate and up of the experts in one tensor."""
import sys

import numpy as np
from gguf import GGUFWriter

N_LAYER, EMBD, VOCAB, FF, FF_EXP, EXPERTS, USED = 4, 64, 256, 96, 48, 8, 3
HEADS, KV_WINDOW, KV_FULL, D_WINDOW, D_FULL, WINDOW = 4, 2, 1, 16, 32, 24
WINDOWED = [True, False, True, True]


def main(path):
    rng = np.random.default_rng(4)
    w = GGUFWriter(path, "gemma4")
    key = lambda suffix: "gemma4." + suffix
    w.add_string("tokenizer.ggml.model", "no_vocab")
    for suffix, value in [("vocab_size", VOCAB), ("context_length", 256), ("embedding_length", EMBD),
                          ("block_count", N_LAYER), ("feed_forward_length", FF), ("expert_count", EXPERTS),
                          ("expert_used_count", USED), ("expert_feed_forward_length", FF_EXP),
                          ("attention.head_count", HEADS), ("attention.key_length", D_FULL),
                          ("attention.value_length", D_FULL), ("attention.key_length_swa", D_WINDOW),
                          ("attention.value_length_swa", D_WINDOW), ("attention.sliding_window", WINDOW),
                          ("rope.dimension_count", D_FULL), ("rope.dimension_count_swa", D_WINDOW),
                          ("embedding_length_per_layer_input", 0), ("attention.shared_kv_layers", 0)]:
        w.add_uint32(key(suffix), value)
    w.add_array(key("attention.head_count_kv"), [KV_WINDOW if windowed else KV_FULL for windowed in WINDOWED])
    w.add_array(key("attention.sliding_window_pattern"), WINDOWED)
    w.add_float32(key("attention.layer_norm_rms_epsilon"), 1e-6)
    w.add_float32(key("rope.freq_base"), 1000000.0)
    w.add_float32(key("rope.freq_base_swa"), 10000.0)
    w.add_float32(key("final_logit_softcapping"), 30.0)

    def matrix(name, *shape):  # innermost last
        w.add_tensor(name, (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32))

    def vector(name, n, low=0.5, high=1.5):
        w.add_tensor(name, rng.uniform(low, high, n).astype(np.float32))

    matrix("token_embd.weight", VOCAB, EMBD)
    vector("output_norm.weight", EMBD)
    vector("rope_freqs.weight", D_FULL // 2, 1, 4)
    for i, windowed in enumerate(WINDOWED):
        d, kv, b = (D_WINDOW, KV_WINDOW, f"blk.{i}.") if windowed else (D_FULL, KV_FULL, f"blk.{i}.")
        matrix(b + "attn_q.weight", HEADS * d, EMBD)
        matrix(b + "attn_k.weight", kv * d, EMBD)
        if windowed:
            matrix(b + "attn_v.weight", kv * d, EMBD)
        matrix(b + "attn_output.weight", EMBD, HEADS * d)
        vector(b + "attn_q_norm.weight", d)
        vector(b + "attn_k_norm.weight", d)
        for name in ["attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"]:
            vector(b + name + ".weight", EMBD)
        matrix(b + "ffn_gate.weight", FF, EMBD)
        matrix(b + "ffn_up.weight", FF, EMBD)
        matrix(b + "ffn_down.weight", EMBD, FF)
        vector(b + "layer_output_scale.weight", 1)
        if i == 0:
            continue
        matrix(b + "ffn_gate_inp.weight", EXPERTS, EMBD)
        vector(b + "ffn_gate_inp.scale", EMBD, 4, 12)
        for name in ["pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"]:
            vector(b + name + ".weight", EMBD)
        matrix(b + "ffn_gate_up_exps.weight", EXPERTS, 2 * FF_EXP, EMBD)
        matrix(b + "ffn_down_exps.weight", EXPERTS, EMBD, FF_EXP)
        vector(b + "ffn_down_exps.scale", EXPERTS)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


main(sys.argv[1])
