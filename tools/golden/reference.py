#!/usr/bin/env python3
"""An independent computation of a `qwen3moe` model's logits in float64, from its dequantised weights.

    reference.py MODEL.gguf TOKENS.txt OUT.f32              compute
    reference.py MODEL.gguf TOKENS.txt --compare WANT.f32   print the normalised mean squared error against WANT

Slow and plain on purpose: numpy and the `gguf` Python package (llama.cpp's gguf-py) only. It serves where llama.cpp has
no number for us; that it is right is seen by comparing it with the golden files that llama.cpp made."""
import argparse

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize


class Model:
    def __init__(self, path):
        reader = GGUFReader(path)
        self.tensors = {t.name: t for t in reader.tensors}
        number = lambda key: reader.fields[f"qwen3moe.{key}"].parts[-1][0]
        self.layers = int(number("block_count"))
        self.heads = int(number("attention.head_count"))
        self.heads_kv = int(number("attention.head_count_kv"))
        self.head = int(number("attention.key_length"))
        self.used = int(number("expert_used_count"))
        self.base = float(number("rope.freq_base"))
        self.eps = float(number("attention.layer_norm_rms_epsilon"))

    def get(self, name, default=None):
        t = self.tensors.get(name)
        if t is None:
            return default
        return dequantize(t.data, t.tensor_type).astype(np.float64).reshape(t.shape[::-1])


def norm(x, w, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def rope(x, base):
    """x [n][heads][head]; pairs (i, i + head / 2)."""
    n, _, head = x.shape
    angle = np.arange(n)[:, None] / base ** (2.0 * np.arange(head // 2) / head)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    a, b = x[..., :head // 2], x[..., head // 2:]
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


def linear(m, prefix, x):
    scale = m.get(prefix + ".scale", np.ones(1))
    return x @ m.get(prefix + ".weight").T * scale + m.get(prefix + ".bias", 0.0)


def attention(m, p, x):
    n = len(x)
    h = norm(x, m.get(p + "attn_norm.weight"), m.eps)
    q = linear(m, p + "attn_q", h).reshape(n, m.heads, m.head)
    k = linear(m, p + "attn_k", h).reshape(n, m.heads_kv, m.head)
    v = linear(m, p + "attn_v", h).reshape(n, m.heads_kv, m.head)
    q = rope(norm(q, m.get(p + "attn_q_norm.weight"), m.eps), m.base)
    k = rope(norm(k, m.get(p + "attn_k_norm.weight"), m.eps), m.base)
    future = np.triu(np.full((n, n), -np.inf), 1)
    out = np.empty_like(q)
    for i in range(m.heads):
        j = i // (m.heads // m.heads_kv)
        out[:, i] = softmax(q[:, i] @ k[:, j].T / np.sqrt(m.head) + future) @ v[:, j]
    return x + linear(m, p + "attn_output", out.reshape(n, -1))


def experts(m, p, x):
    h = norm(x, m.get(p + "ffn_norm.weight"), m.eps)
    probs = softmax(h @ m.get(p + "ffn_gate_inp.weight").T)
    weights = {part: m.get(f"{p}ffn_{part}_exps.weight") for part in ("gate", "up", "down")}
    scales = {part: m.get(f"{p}ffn_{part}_exps.scale", np.ones(probs.shape[1])) for part in weights}
    out = x.copy()
    for t in range(len(x)):
        chosen = np.argsort(-probs[t], kind="stable")[:m.used]
        mix = probs[t][chosen] / probs[t][chosen].sum()
        for e, share in zip(chosen, mix):
            gate = weights["gate"][e] @ h[t] * scales["gate"][e]
            up = weights["up"][e] @ h[t] * scales["up"][e]
            hidden = gate / (1 + np.exp(-gate)) * up
            out[t] += share * (weights["down"][e] @ hidden * scales["down"][e])
    return out


def logits(m, ids):
    embedding = m.get("token_embd.weight")
    x = embedding[ids]
    for layer in range(m.layers):
        x = experts(m, f"blk.{layer}.", attention(m, f"blk.{layer}.", x))
    x = norm(x, m.get("output_norm.weight"), m.eps)
    return x @ m.get("output.weight", embedding).T


def main():
    parser = argparse.ArgumentParser(description="Logits of a qwen3moe model, computed independently.")
    parser.add_argument("model")
    parser.add_argument("tokens")
    parser.add_argument("out", nargs="?")
    parser.add_argument("--compare")
    options = parser.parse_args()
    ids = np.array([int(i) for i in open(options.tokens, encoding="utf-8").read().split()])
    got = logits(Model(options.model), ids)
    if options.out:
        got.astype("<f4").tofile(options.out)
    if options.compare:
        want = np.fromfile(options.compare, "<f4").reshape(got.shape)
        print(f"{((got - want) ** 2).sum() / (want.astype(np.float64) ** 2).sum():.3e}")


if __name__ == "__main__":
    main()
