#!/usr/bin/env python3
"""make.py LLAMA_WORDS TOKENIZERS_FOLDER OUT.json: how llama.cpp and Hugging Face's tokenizers cut a corpus of awkward texts into words.

LLAMA_WORDS is llama_words.c, built against llama.cpp; TOKENIZERS_FOLDER holds node_modules with the npm package `tokenizers`. Needs the
`gguf` Python package. The result goes to tests/golden/pre/."""
import json
import os
import subprocess
import sys
import tempfile

import gguf

# Schemes by their first name, and the names that cut alike.
NAMES = {
    "default": [],
    "gpt-2": ["phi-2", "gigachat", "a.x-4.0", "mellum", "modern-bert", "mpt", "olmo", "jais", "trillion", "exaone4", "granite-docling"],
    "llama-bpe": ["llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "dbrx", "smaug-bpe", "glm4", "chatglm-bpe"],
    "qwen2": ["deepseek-r1-qwen", "kormo", "f2llmv2", "stablelm2", "megrez", "hunyuan", "solar-open", "grok-2"],
    "qwen35": [],
    "falcon": [],
    "starcoder": ["refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"],
    "gpt-4o": ["llama4", "kanana2", "talkie", "minimax-m2"],
    "tekken": [],
    "kimi-k2": [],
    "deepseek-llm": [],
    "deepseek-coder": [],
    "deepseek-v3": ["hunyuan-dense", "joyai-llm"],
    "bailingmoe": ["bailingmoe2", "llada-moe"],
    "seed-coder": [],
    "laguna": [],
    "minicpm5": [],
    "youtu": [],
    "bloom": ["poro-chat", "gpt3-finnish"],
    "viking": [],
    "exaone-moe": [],
    "tiny_aya": ["cohere2moe"],
}

TEXTS = [
    "Hello, world! I'll pay 12345$",
    "I'm you're he'd we've SHE'LL it'S DON'T",
    "don't Don'T can'\u017f 'tis o'clock ''s",
    "1 12 123 1234 12345 123456 1234567",
    "12345678 123456789 1234567890 x12y",
    "3.14159 1,000,000.50 v2.0.1 0x1F 1e-9",
    "a1234b 12ab 123456a 1234567_ 9876é",
    "  two   three    four \t tab\t\tend  ",
    "line\nline\n\n\nline\r\nline\r\n\r\n  x",
    " \n  \n\t\n x \r y\r\r",
    "x\n/y.\n\n/ //\r\n...\n/",
    "trailing spaces    ",
    "\n",
    "    indent\n\tif (a && b) { return c[0]; }",
    "HelloWorld camelCaseWord XMLHttpRequest",
    "ABCdef iPhone McDONALD'S aB Ab",
    "\u00c9COLE \u00e9cole \u00c9cole \u00dcBER \u00fcBer \u01c5emal \u01c4",
    "\u0416\u0438\u0437\u043d\u044c \u041c\u043e\u0441\u043a\u0412\u0410 \u03a3\u03cc\u03c6\u03bf\u03c2",
    "e\u0301t\u0301 cafe\u0301 E\u0301A\u0301b \u0301x n\u0303",
    "\u0939\u093f\u0928\u094d\u0926\u0940 \u0e44\u0e17\u0e22\u0e01\u0e33\u0e25\u0e31\u0e07",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002\u4f60\u597dWorld",
    "\u300c\u5f15\u7528\u300d\u3001\u3005\u4eba\u30fb\u4eba\u3007\u4e8c",
    "\u3053\u3093\u306b\u3061\u306f\u30ab\u30bf\u30ab\u30ca\u30fc\uff76\uff80",
    "\ud55c\uad6d\uc5b4 \ub2e8\uc5b4\u3131\u314f \u3105\u3106\u3107",
    "\u4e2d\u6587 123 abc \u4e2d\u6587\u3000\u3000abc\u3000",
    "\u4e2d\u6587's A\u4e2d b\u4e2dC \u4e2d\u0301e",
    "\U00020bb7\u91ce\u5bb6 \u9fa6\u9fff\u3400 \ufa0e",
    "\u0645\u0631\u062d\u0628\u0627\u060c \u0627\u0644\u0639\u0627\u0644\u0645 \u0661\u0662\u0663\u0664",
    "\u05e9\u05dc\u05d5\u05dd \u06f1\u06f2\u06f3\u06f4 \u0967\u0968\u0969\u096a",
    "\u00bd \u00b2\u00b3\u00b9\u2074 \u2167 \u2460\u2461 10\u00b2 \u0be7\u0be8",
    "\U0001f600\U0001f600 hi\U0001f44d\U0001f3fd \U0001f468\u200d\U0001f469",
    "\u2764\ufe0f a\u200bb a\u00adb a\u2060b \ufeffa",
    "a\u00a0b a\u2003b\u2028c\u2029d\u0085e\u1680f",
    "\u00a0\u00a0x \u2003\u2003 y \u0085\u0085z",
    "a\u180eb \u180e . \u3000.",
    "tab\x0bvt\x0cff\x1cfs \x1f \x7f",
    "\ue000\ue001 x\ue000 \uffff \U000e0001 \U0010ffff",
    "$+<=>^`|~ \u20ac\u00a3 a+b=c <tag> x|y `q`",
    "!\"#%&'()*,-./:;?@[\\]_{}",
    "_snake_case __init__ --flag -x @user #tag",
    "\u201cquoted\u201d \u2018s\u2019 \u2014 dash\u2026 \u00bfqu\u00e9? \u00a1s\u00ed!",
    "it\u2019s don\u2019t \uff07s '\ufeffs",
    "\uff28\uff45\uff4c\uff4c\uff4f\uff01 \uff11\uff12\uff13\uff14 \uff5e",
    "\u2c7c\u02b0 \u00aa\u00ba \u1d2c\u2071 \ufb01x \u00df\u1e9e",
    "\u10d0\u10d1 \u1c90\u1c91 \u13a0\u13a1\uab70 \u0531\u0561",
    "\U00010400\U00010428 \U0001d400\U0001d41a \U0001d7d8\U0001d7d9",
    "\u1100\u1161 \u0e81\u0e82 \u1780\u1781 \u1000\u1001 \u1200",
    "a b c d  e f, g h. i",
    "one (two|three) four, five... six",
    "'s 't 're 'VE 'm 'll 'D 'x ' s",
    "a'sb 1's \u4e2d're x''ll",
    "^_^ :-) ;) <3 \u00a9 \u00ae \u2122 \u00b0C",
    "/path/to/file.txt C:\\dir\\ http://a.b/c?d=e",
    "x  1  2   345    6789",
    " a",
    "  a",
    "   1",
    "\t\ta\t1",
    "\u0903\u093ea \u20dd1 1\u0301 .\u0301",
]


def byte_alphabet():
    """GPT-2's: printable Latin-1 bytes stand for themselves, the others follow from U+0100 on."""
    itself = set(range(0x21, 0x7F)) | set(range(0xA1, 0xAD)) | set(range(0xAE, 0x100))
    out, following = [], 0x100
    for byte in range(256):
        out.append(chr(byte) if byte in itself else chr(following))
        following += byte not in itself
    return out


def write_vocabulary(path):
    alphabet = byte_alphabet()
    tokens, merges = dict.fromkeys(alphabet), {}
    for text in TEXTS:
        written = "".join(alphabet[b] for b in text.encode())
        for n in range(2, len(written) + 1):
            for at in range(len(written) - n + 1):
                part = written[at:at + n]
                if part in tokens:
                    continue
                tokens[part] = None
                for left in range(1, n):
                    merges[f"{part[:left]} {part[left:]}"] = None
    out = gguf.GGUFWriter(path, "llama")
    out.add_block_count(1)
    out.add_context_length(512)
    out.add_embedding_length(32)
    out.add_feed_forward_length(32)
    out.add_head_count(1)
    out.add_layer_norm_rms_eps(1e-6)
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("default")
    out.add_token_list(list(tokens))
    out.add_token_types([1] * len(tokens))
    out.add_token_merges(list(merges))
    out.add_bos_token_id(0)
    out.add_eos_token_id(0)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.close()
    return len(tokens), len(merges)


def run(command, names, environment=None):
    """{name: [words of each text, or None]}"""
    texts = b"".join(t.encode() + b"\0" for t in TEXTS)
    done = subprocess.run(command + names, input=texts, stdout=subprocess.PIPE, check=True, env=environment)
    lines = done.stdout.decode().split("\n")[:-1]
    assert len(lines) == len(names) * len(TEXTS), (len(lines), len(names))
    parsed = [None if line == "-" else [int(n) for n in line.split()] for line in lines]
    return {name: parsed[i * len(TEXTS):(i + 1) * len(TEXTS)] for i, name in enumerate(names)}


def main():
    words, folder, out = sys.argv[1:]
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "vocab.gguf")
        print("tokens, merges:", *write_vocabulary(path), file=sys.stderr)
        every = [n for first, others in NAMES.items() for n in [first] + others]
        llama = run([words, path], every)
    here = os.path.dirname(os.path.abspath(__file__))
    own = run(["node", os.path.join(here, "tokenizers_words.js")], list(NAMES), {**os.environ, "NODE_PATH": os.path.join(folder, "node_modules")})
    schemes = []
    for first, others in NAMES.items():
        for other in others:
            assert llama[other] == llama[first], (first, other)
        assert all(sum(w) == len(t.encode()) for w, t in zip(llama[first], TEXTS)), first
        truth = own[first] if own[first][0] else llama[first]
        differs = {str(i): llama[first][i] for i in range(len(TEXTS)) if llama[first][i] != truth[i]}
        schemes.append({"names": [first] + others, "by": "tokenizers" if own[first][0] else "llama.cpp", "words": truth, "llama.cpp": differs})
        print(first, schemes[-1]["by"], "differs:", len(differs), file=sys.stderr)
    with open(out, "w", encoding="ascii") as f:
        f.write('{"texts": [\n' + ",\n".join(json.dumps(t) for t in TEXTS) + '],\n"schemes": [\n')
        f.write(",\n".join(json.dumps(s, separators=(",", ":")) for s in schemes) + "]}\n")


main()
