#!/usr/bin/env python3
"""raw.py LLAMA_WORDS FOLDER: a small vocabulary of plain characters (the kind `gemma4`), FOLDER/raw.gguf, and llama.cpp's ids for some texts,
FOLDER/raw.json. The merges are learned from the texts, so that words, spaces and line ends of several lengths are tokens."""
import collections
import json
import os
import subprocess
import sys

import gguf

TEXTS = [
    "Hello, world! Hello there.",
    "the cat and the dog and the bird",
    "  two   three    four     end",
    "line\nline\n\nline\n\n\nline\n\n\n\n\n\nend",
    "\n\n",
    "\n the\n\n  the \n",
    "tab\tand\r\nreturn",
    "caf\u00e9 na\u00efve \u4f60\u597d \u4f60\u597d\u3002",
    "\U0001f600 \U0001f44d\U0001f3fd unknown \u0416\u0438",
    "spelt <0x41> and \u2581the\u2581cat",
    "12345 3.14 x1y2",
    " leading and trailing ",
    "a\u0301 \u00a0nbsp \u3000wide",
    "\ufffd \u0085 ?",
]
LEARN = TEXTS[:8] + ["the the the and and cat hello Hello world   ", "\n\n\n\n line end end 12 12 34"]


def learn(n):
    words = [["\u2581" if c == " " else c for c in part] for t in LEARN for part in t.replace("\n", "\0\n\0").split("\0") if part and part != "\n"]
    merges = []
    while len(merges) < n:
        pairs = collections.Counter(p for w in words for p in zip(w, w[1:]))
        if not pairs:
            break
        (a, b), _ = max(pairs.items(), key=lambda item: (item[1], item[0]))
        merges.append((a, b))
        for w in words:
            i = 0
            while i + 1 < len(w):
                if (w[i], w[i + 1]) == (a, b):
                    w[i:i + 2] = [a + b]
                i += 1
    return merges


def main():
    words, folder = sys.argv[1:]
    merges = learn(60)
    tokens = ["<pad>", "<eos>", "<bos>", "<unk>"] + [f"<0x{i:02X}>" for i in range(256)]
    types = [3, 3, 3, 2] + [6] * 256
    characters = dict.fromkeys("\u2581" if c == " " else c for t in LEARN for c in t)
    plain = list(characters) + ["\n" * n for n in (2, 3, 4)] + [a + b for a, b in merges]
    plain = [t for t in dict.fromkeys(plain) if t not in tokens]
    path = os.path.join(folder, "raw.gguf")
    out = gguf.GGUFWriter(path, "gemma4")
    out.add_block_count(1)
    out.add_context_length(512)
    out.add_embedding_length(32)
    out.add_feed_forward_length(32)
    out.add_head_count(1)
    out.add_layer_norm_rms_eps(1e-6)
    out.add_tokenizer_model("gemma4")
    out.add_token_list(tokens + plain)
    out.add_token_scores([-1000.0] * (len(tokens) + len(plain)))
    out.add_token_types(types + [1] * len(plain))
    out.add_token_merges([f"{a} {b}" for a, b in merges])
    out.add_bos_token_id(2)
    out.add_eos_token_id(1)
    out.add_unk_token_id(3)
    out.add_add_space_prefix(False)
    out.add_add_bos_token(True)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.close()
    done = subprocess.run([words, path, "--ids"], input=b"".join(t.encode() + b"\0" for t in TEXTS), stdout=subprocess.PIPE, check=True)
    rows = done.stdout.decode().split("\n")[:-1]
    assert len(rows) == len(TEXTS)
    with open(os.path.join(folder, "raw.json"), "w", encoding="ascii") as f:
        f.write("[\n" + ",\n".join(json.dumps([t, [int(i) for i in r.split()]]) for t, r in zip(TEXTS, rows)) + "]\n")


main()
