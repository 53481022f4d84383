#!/usr/bin/env python3
"""Writes a GGUF file with the tensor shapes of a large model, few layers and random weights: what such a model asks of
memory and disk can be measured without the model. What it says is noise.

    shapes.py SHAPE OUT.gguf [--layers N] [--experts GATE_UP,DOWN]

SHAPE: `deepseek4` (DeepSeek V4 Flash; layers 0 and 1 attend to a window alone, even ones from 2 on to rows compressed
4:1 too, odd ones 128:1; the routers of the first three are tables) or `glm-5.2` (`glm-dsa`; the first layer is dense,
the last takes the choice of the indexer before it). Formats of the experts: IQ2_XXS, Q2_K, Q4_K, Q8_0, MXFP4.

Every block of a quantised tensor is random and valid; its scale makes the weights as large as 1/sqrt(n_in). Blocks come
from a pool of a few MiB a format, read from a random place on, so that writing is as fast as the disk. The vocabulary is
the 256 bytes and names without a meaning. Standard library only."""
import argparse
import array
import math
import random
import struct

POOL_BYTES = 8 << 20
U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
# format: GGUF's number, weights a block, bytes a block, and the root mean square of a block's weights whose scale is 1
FORMATS = {
    "F32": (0, 1, 4, 0), "F16": (1, 1, 2, 0), "I32": (26, 1, 4, 0), "Q8_0": (8, 32, 34, 74.0),
    "Q2_K": (10, 256, 84, 13.5), "Q4_K": (12, 256, 144, 257.0), "Q6_K": (14, 256, 210, 1370.0),
    "IQ2_XXS": (16, 256, 66, 52.0), "MXFP4": (39, 32, 17, 2.93),
}


def half(x):
    return struct.pack("<e", x)


def block(kind, d):
    """One block with the scale d. The minimum of a K format takes its mean away."""
    n = FORMATS[kind][2]
    if kind == "Q8_0":
        return half(d) + random.randbytes(n - 2)
    if kind == "Q2_K":
        return random.randbytes(80) + half(d) + half(1.5 * d)
    if kind == "Q4_K":
        return half(d) + half(7.5 * d) + random.randbytes(n - 4)
    if kind == "Q6_K":
        return random.randbytes(n - 2) + half(d)
    if kind == "IQ2_XXS":
        return half(d) + random.randbytes(n - 2)
    return bytes([127 + round(math.log2(d))]) + random.randbytes(n - 1)  # MXFP4: a power of two


class Pools:
    def __init__(self):
        self.made = {}
        self.normal = None

    def floats(self, kind, deviation):
        if self.normal is None:
            self.normal = [random.gauss(0, 1) for _ in range(1 << 18)]
        values = [deviation * x for x in self.normal]
        return array.array("f", values).tobytes() if kind == "F32" else struct.pack(f"<{len(values)}e", *values)

    def get(self, kind, deviation):
        if (kind, deviation) not in self.made:
            if kind in ("F32", "F16"):
                self.made[kind, deviation] = self.floats(kind, deviation)
            else:
                n = POOL_BYTES // FORMATS[kind][2]
                self.made[kind, deviation] = b"".join(block(kind, deviation / FORMATS[kind][3]) for _ in range(n))
        return self.made[kind, deviation]


class Model:
    """Metadata and tensors in the order in which they were named."""

    def __init__(self, arch, n_embd, n_vocab):
        self.arch, self.n_embd, self.n_vocab = arch, n_embd, n_vocab
        self.keys, self.tensors = [], []
        self.key("general.architecture", STRING, arch)
        self.key("general.name", STRING, f"random weights in the shape of {arch}")

    def key(self, name, kind, value):
        self.keys.append((name, kind, value))

    def u32(self, name, value):
        self.key(f"{self.arch}.{name}", ARRAY if isinstance(value, list) else U32, value)

    def f32(self, name, value):
        self.key(f"{self.arch}.{name}", F32, value)

    def flag(self, name, value):
        self.key(f"{self.arch}.{name}", BOOL, value)

    def matrix(self, name, kind, *shape):
        self.tensors.append((name, kind, shape, 1 / math.sqrt(shape[0]), None))

    def vector(self, name, n, value=1.0):
        self.tensors.append((name, "F32", (n,), 0, array.array("f", [value]).tobytes() * n))

    def data(self, name, kind, shape, values):
        self.tensors.append((name, kind, shape, 0, values))

    def vocabulary(self):
        printable = [*range(33, 127), *range(161, 173), *range(174, 256)]  # as GPT-2 writes bytes
        rest = [b for b in range(256) if b not in printable]
        tokens = [chr(b) if b in printable else chr(256 + rest.index(b)) for b in range(256)]
        tokens += [f"<{i}>" for i in range(256, self.n_vocab)]
        self.key("tokenizer.ggml.model", STRING, "gpt2")
        self.key("tokenizer.ggml.pre", STRING, "gpt-2")
        self.key("tokenizer.ggml.tokens", ARRAY, tokens)
        self.key("tokenizer.ggml.token_type", ARRAY, array.array("i", [1] * self.n_vocab))
        self.key("tokenizer.ggml.merges", ARRAY, ["a b"])
        self.key("tokenizer.ggml.eos_token_id", U32, self.n_vocab - 1)

    def experts(self, b, n_expert, n_ff, formats, n_shared_ff, shared):
        for part, kind in (("gate", formats[0]), ("up", formats[0]), ("down", formats[1])):
            shape = (n_ff, self.n_embd) if part == "down" else (self.n_embd, n_ff)
            self.matrix(b + f"ffn_{part}_exps.weight", kind, *shape, n_expert)
            shape = (n_shared_ff, self.n_embd) if part == "down" else (self.n_embd, n_shared_ff)
            self.matrix(b + f"ffn_{part}_shexp.weight", shared, *shape)

    def write(self, path):
        pools = Pools()
        with open(path, "wb") as f:
            f.write(b"GGUF" + struct.pack("<IQQ", 3, len(self.tensors), len(self.keys)))
            for name, kind, value in self.keys:
                f.write(text(name) + struct.pack("<I", kind) + encode(kind, value))
            at = 0
            for name, kind, shape, _, _ in self.tensors:
                f.write(text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape))
                f.write(struct.pack("<IQ", FORMATS[kind][0], at))
                at += padded(tensor_bytes(kind, shape))
            f.write(bytes(-f.tell() % 32))
            for name, kind, shape, deviation, values in self.tensors:
                n = tensor_bytes(kind, shape)
                if values is not None:
                    f.write(values)
                else:
                    fill(f, pools.get(kind, deviation), n, FORMATS[kind][2])
                f.write(bytes(-n % 32))
            return f.tell()


def text(s):
    raw = s.encode()
    return struct.pack("<Q", len(raw)) + raw


def encode(kind, value):
    if kind == STRING:
        return text(value)
    if kind != ARRAY:
        return struct.pack({U32: "<I", F32: "<f", BOOL: "<?"}[kind], value)
    if isinstance(value, array.array):
        return struct.pack("<IQ", I32, len(value)) + value.tobytes()
    if isinstance(value[0], str):
        return struct.pack("<IQ", STRING, len(value)) + b"".join(map(text, value))
    return struct.pack("<IQ", U32, len(value)) + array.array("I", value).tobytes()


def tensor_bytes(kind, shape):
    _, per_block, block_bytes, _ = FORMATS[kind]
    assert shape[0] % per_block == 0
    return math.prod(shape) // per_block * block_bytes


def padded(n):
    return n + -n % 32


def fill(f, pool, n, block_bytes):
    at = random.randrange(len(pool) // block_bytes) * block_bytes
    while n:
        part = pool[at:at + n]
        f.write(part)
        n -= len(part)
        at = 0


def deepseek4(n_layer, formats):
    m = Model("deepseek4", 4096, 129280)
    n_embd, n_vocab, n_expert, n_used, n_ff, n_tables = m.n_embd, m.n_vocab, 256, 6, 2048, min(3, n_layer)
    n_head, d, n_rot, q_lora, groups, o_lora, streams = 64, 512, 64, 1024, 8, 1024, 4
    index_heads, index_d = 64, 128
    ratios = [0 if i < 2 else 4 if i % 2 == 0 else 128 for i in range(n_layer)]
    for name, value in [("block_count", n_layer), ("context_length", 1 << 20), ("embedding_length", n_embd),
                        ("feed_forward_length", n_ff), ("expert_feed_forward_length", n_ff), ("vocab_size", n_vocab),
                        ("expert_count", n_expert), ("expert_used_count", n_used), ("expert_shared_count", 1),
                        ("expert_gating_func", 4), ("hash_layer_count", n_tables), ("attention.head_count", n_head),
                        ("attention.head_count_kv", 1), ("attention.key_length", d), ("attention.value_length", d),
                        ("attention.q_lora_rank", q_lora), ("attention.sliding_window", 128),
                        ("attention.indexer.head_count", index_heads), ("attention.indexer.key_length", index_d),
                        ("attention.indexer.top_k", 512), ("attention.output_group_count", groups),
                        ("attention.output_lora_rank", o_lora), ("attention.compress_ratios", ratios),
                        ("hyper_connection.count", streams), ("hyper_connection.sinkhorn_iterations", 20),
                        ("rope.dimension_count", n_rot), ("rope.scaling.original_context_length", 65536)]:
        m.u32(name, value)
    for name, value in [("expert_weights_scale", 1.5), ("swiglu_clamp_exp", 10.0), ("hyper_connection.epsilon", 1e-6),
                        ("attention.layer_norm_rms_epsilon", 1e-6), ("attention.compress_rope_freq_base", 160000.0),
                        ("rope.freq_base", 10000.0), ("rope.scaling.factor", 16.0)]:
        m.f32(name, value)
    m.flag("expert_weights_norm", True)
    m.key("deepseek4.rope.scaling.type", STRING, "yarn")
    m.vocabulary()

    def compressor(name, ratio, width):
        twice = 2 * width if ratio == 4 else width
        m.matrix(name + "_kv.weight", "F16", n_embd, twice)
        m.matrix(name + "_gate.weight", "F16", n_embd, twice)
        m.matrix(name + "_ape.weight", "F32", twice, ratio)
        m.vector(name + "_norm.weight", width)

    def mixes(name, n_scales, n):
        m.matrix(name + "_fn.weight", "F16", streams * n_embd, n)
        m.vector(name + "_base.weight", n, 0.0)
        m.vector(name + "_scale.weight", n_scales)

    m.matrix("token_embd.weight", "Q8_0", n_embd, n_vocab)
    m.vector("output_norm.weight", n_embd)
    m.matrix("output.weight", "Q8_0", n_embd, n_vocab)
    mixes("output_hc", 1, streams)
    for i, ratio in enumerate(ratios):
        b = f"blk.{i}."
        m.vector(b + "attn_norm.weight", n_embd)
        m.vector(b + "attn_sinks.weight", n_head, 0.0)
        m.matrix(b + "attn_q_a.weight", "Q8_0", n_embd, q_lora)
        m.vector(b + "attn_q_a_norm.weight", q_lora)
        m.matrix(b + "attn_q_b.weight", "Q8_0", q_lora, n_head * d)
        m.matrix(b + "attn_kv.weight", "Q8_0", n_embd, d)
        m.vector(b + "attn_kv_a_norm.weight", d)
        m.matrix(b + "attn_output_a.weight", "Q8_0", n_head * d // groups, o_lora * groups)
        m.matrix(b + "attn_output_b.weight", "Q8_0", groups * o_lora, n_embd)
        mixes(b + "hc_attn", 3, streams * (streams + 2))
        mixes(b + "hc_ffn", 3, streams * (streams + 2))
        if ratio:
            compressor(b + "attn_compressor", ratio, d)
        if ratio == 4:
            compressor(b + "indexer_compressor", ratio, index_d)
            m.matrix(b + "indexer.attn_q_b.weight", "F16", q_lora, index_heads * index_d)
            m.matrix(b + "indexer.proj.weight", "F16", n_embd, index_heads)
        m.vector(b + "ffn_norm.weight", n_embd)
        m.matrix(b + "ffn_gate_inp.weight", "F32", n_embd, n_expert)
        if i < n_tables:
            ids = array.array("i")
            for _ in range(n_vocab):
                ids.extend(random.sample(range(n_expert), n_used))
            m.data(b + "ffn_gate_tid2eid.weight", "I32", (n_used, n_vocab), ids.tobytes())
        else:
            m.vector(b + "exp_probs_b.bias", n_expert, 0.0)
        m.experts(b, n_expert, n_ff, formats, n_ff, "Q8_0")
    return m


def glm_5_2(n_layer, formats):
    m = Model("glm-dsa", 6144, 154880)
    n_embd, n_expert, n_ff, n_dense_ff, n_head = m.n_embd, 256, 2048, 12288, 64
    q_lora, kv_lora, n_nope, n_rot, d_v, index_heads, index_d = 2048, 512, 192, 64, 256, 32, 128
    own = [1] * n_layer
    if n_layer > 2:
        own[-1] = 0
    for name, value in [("block_count", n_layer), ("context_length", 1 << 20), ("embedding_length", n_embd),
                        ("feed_forward_length", n_dense_ff), ("expert_feed_forward_length", n_ff),
                        ("leading_dense_block_count", 1), ("vocab_size", m.n_vocab), ("expert_count", n_expert),
                        ("expert_used_count", 8), ("expert_shared_count", 1), ("expert_gating_func", 2),
                        ("attention.head_count", n_head), ("attention.head_count_kv", 1),
                        ("attention.key_length", kv_lora + n_rot), ("attention.value_length", kv_lora),
                        ("attention.key_length_mla", n_nope + n_rot), ("attention.value_length_mla", d_v),
                        ("attention.q_lora_rank", q_lora), ("attention.kv_lora_rank", kv_lora),
                        ("attention.indexer.head_count", index_heads), ("attention.indexer.key_length", index_d),
                        ("attention.indexer.top_k", 2048), ("attention.indexer.types", own),
                        ("rope.dimension_count", n_rot)]:
        m.u32(name, value)
    for name, value in [("expert_weights_scale", 2.5), ("attention.layer_norm_rms_epsilon", 1e-5),
                        ("rope.freq_base", 1e6)]:
        m.f32(name, value)
    m.flag("expert_weights_norm", True)
    m.vocabulary()
    m.matrix("token_embd.weight", "Q4_K", n_embd, m.n_vocab)
    m.vector("output_norm.weight", n_embd)
    m.matrix("output.weight", "Q6_K", n_embd, m.n_vocab)
    for i in range(n_layer):
        b = f"blk.{i}."
        m.vector(b + "attn_norm.weight", n_embd)
        m.matrix(b + "attn_q_a.weight", "Q4_K", n_embd, q_lora)
        m.vector(b + "attn_q_a_norm.weight", q_lora)
        m.matrix(b + "attn_q_b.weight", "Q4_K", q_lora, n_head * (n_nope + n_rot))
        m.matrix(b + "attn_kv_a_mqa.weight", "Q8_0", n_embd, kv_lora + n_rot)
        m.vector(b + "attn_kv_a_norm.weight", kv_lora)
        m.matrix(b + "attn_k_b.weight", "Q8_0", n_nope, kv_lora, n_head)
        m.matrix(b + "attn_v_b.weight", "Q8_0", kv_lora, d_v, n_head)
        m.matrix(b + "attn_output.weight", "Q4_K", n_head * d_v, n_embd)
        if own[i]:
            m.vector(b + "indexer.k_norm.weight", index_d)
            m.vector(b + "indexer.k_norm.bias", index_d, 0.0)
            m.matrix(b + "indexer.proj.weight", "F32", n_embd, index_heads)
            m.matrix(b + "indexer.attn_k.weight", "Q8_0", n_embd, index_d)
            m.matrix(b + "indexer.attn_q_b.weight", "Q8_0", q_lora, index_heads * index_d)
        m.vector(b + "ffn_norm.weight", n_embd)
        if i == 0:
            m.matrix(b + "ffn_gate.weight", "Q4_K", n_embd, n_dense_ff)
            m.matrix(b + "ffn_up.weight", "Q4_K", n_embd, n_dense_ff)
            m.matrix(b + "ffn_down.weight", "Q6_K", n_dense_ff, n_embd)
            continue
        m.matrix(b + "ffn_gate_inp.weight", "F32", n_embd, n_expert)
        m.vector(b + "exp_probs_b.bias", n_expert, 0.0)
        m.experts(b, n_expert, n_ff, formats, n_ff, "Q8_0")
    return m


SHAPES = {"deepseek4": (deepseek4, 4), "glm-5.2": (glm_5_2, 3)}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("shape", choices=SHAPES)
    p.add_argument("out")
    p.add_argument("--layers", type=int)
    p.add_argument("--experts", default="IQ2_XXS,Q2_K")
    a = p.parse_args()
    formats = a.experts.split(",")
    if len(formats) != 2 or not set(formats) <= set(FORMATS) - {"F32", "F16", "I32", "Q6_K"}:
        p.error(f"--experts {a.experts}: two formats are wanted, of gate and up, and of down")
    make, n_layer = SHAPES[a.shape]
    random.seed(1)
    n = make(a.layers or n_layer, formats).write(a.out)
    print(f"{a.out}: {n} bytes")


if __name__ == "__main__":
    main()
