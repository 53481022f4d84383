#!/usr/bin/env python3
"""The built program, with the real engine, on real files: exit codes, inspect, tokenize, logits, quantize, checksum, verify, pack, run, plan, bench, doctor.

SLUICE_BIN names the program, SLUICE_SOURCE the repository, SLUICE_SHARED the larger set of golden files (parts that need it are
left out, with a line, where it is absent)."""
import array
import json
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = os.environ["SLUICE_BIN"]
SOURCE = os.environ["SLUICE_SOURCE"]
ORACLE = os.path.join(os.environ.get("SLUICE_SHARED", ""), "oracle")
HAVE_ORACLE = os.path.isdir(ORACLE)
DEMO = os.path.join(SOURCE, "models", "demo.gguf")
GOLDEN = os.path.join(SOURCE, "tests", "golden")
ARCH = os.path.join(GOLDEN, "arch")
# Whoever runs this may have signals ignored (nohup, a background job); the programs that are started here hear them.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

ENV = {k: v for k, v in os.environ.items() if not k.startswith("SLUICE_")}
ENV["SLUICE_NO_USAGE"] = "1"  # nothing is written beside the models of the repository


UNITS = {b"KiB": 1 << 10, b"MiB": 1 << 20, b"GiB": 1 << 30, b"TiB": 1 << 40}
# Says how much memory a program held; not under a sanitizer, whose own memory is not the program's.
PEAK = None if "SLUICE_TEST_COMPACT" in os.environ else os.environ.get("SLUICE_PEAK")


def run(*words, code=0, text=None, env=None):
    """Runs the program; checks the exit code, and that it never held more memory than the budget that it names; gives standard
    output and standard error (bytes)."""
    with tempfile.NamedTemporaryFile() as held:
        done = subprocess.run([*([PEAK, held.name] if PEAK else []), PROGRAM, *words], input=text if text is not None else b"",
                              capture_output=True, env={**ENV, **(env or {})})
        peak = int(held.read() or 0)
    if done.returncode != code:
        raise AssertionError(f"sluice {' '.join(words)}: exit code {done.returncode}, not {code}:\n{done.stderr.decode(errors='replace')}")
    budget = re.search(rb"^memory budget ([0-9.]+) ([KMGT]iB) of ", done.stderr, re.MULTILINE)
    most = float(budget[1]) * UNITS[budget[2]] * 1.005 if budget else 0  # it is rounded to three digits
    if budget and peak > most:
        raise AssertionError(f"sluice {' '.join(words)}: held {peak} bytes, the budget is {most:.0f}")
    return done.stdout, done.stderr


def floats(path):
    values = array.array("f")
    with open(path, "rb") as source:
        values.frombytes(source.read())
    if sys.byteorder == "big":
        values.byteswap()
    return values


def error(ours, truth):
    """Normalised mean squared error."""
    assert len(ours) == len(truth), (len(ours), len(truth))
    return sum((a - b) ** 2 for a, b in zip(ours, truth)) / sum(b * b for b in truth)


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def started(self, *words, **how):
        """A program that goes on while the test does, and never beyond it."""
        going = subprocess.Popen(*words, **how)

        def end():
            going.kill()
            going.wait()
            for pipe in (going.stdout, going.stderr):
                if pipe:
                    pipe.close()

        self.addCleanup(end)
        return going


class ExitCodes(Folder):
    def test_each_kind_of_failure_has_its_code(self):
        with open(DEMO, "rb") as model, open(self.path("cut.gguf"), "wb") as cut:
            cut.write(model.read(1 << 20))
        with open(DEMO, "rb") as model, open(self.path("head.gguf"), "wb") as cut:
            cut.write(model.read(5000))
        with open(self.path("broken.jinja"), "w", encoding="utf-8") as out:
            out.write("a\n{% if %}")
        for code, words, say in [
            (5, ["run", "-m", self.path("missing.gguf"), "-p", "x"], "missing.gguf"),
            (3, ["run", "-m", os.path.join(SOURCE, "meson.build"), "-p", "x"], "meson.build"),
            (3, ["run", "-m", self.path("cut.gguf"), "-p", "x"], "cut.gguf"),
            (3, ["inspect", self.path("head.gguf")], "head.gguf"),
            (3, ["inspect", os.path.join(SOURCE, "meson.build")], "meson.build"),
            (5, ["inspect", self.path("missing.gguf")], "missing.gguf"),
            (2, ["inspect", DEMO, "--memory", "lots"], "lots"),
            (3, ["quantize", self.path("cut.gguf"), self.path("out"), "--type", "F16"], "cut.gguf"),
            (2, ["run", "-m", DEMO, "-p", "x", "--memory", "lots"], "lots"),
            (2, ["run", "-m", DEMO, "-p", "x", "--ctx", "0"], "--ctx"),
            (4, ["run", "-m", DEMO, "-p", "x", "--memory", "1M"], "--memory"),
            (4, ["plan", "-m", DEMO, "--memory", "900T"], "900"),
            (2, ["run", "-m", DEMO, "-p", "x", "--chat", "--chat-template-file", self.path("broken.jinja")], "line 2, column "),
            (5, ["chat", "-m", DEMO, "--chat-template-file", self.path("no.jinja")], "no.jinja"),
            (2, ["plan", "-m", DEMO, "--memory", "28"], "28M or 28G?"),
            (5, ["run", "-m", DEMO, "-p", "x", "--schema", self.path("no-schema")], "--schema: "),
            (2, ["doctor", "--full"], "--full"),
            (5, ["doctor", self.path("missing")], "missing"),
        ]:
            with self.subTest(words=words):
                out, err = run(*words, code=code)
                self.assertEqual(out.decode() if words[0] != "doctor" else "", "")
                self.assertTrue(err.decode().splitlines()[-1].startswith(("sluice: ", "  ")))
                self.assertIn(say, err.decode())
        self.assertFalse(os.path.exists(self.path("out")) or os.path.exists(self.path("out.part")))


class Inspect(Folder):
    def test_json_of_a_golden_model(self):
        model = os.path.join(ARCH, "qwen3moe-moe.gguf")
        seen = json.loads(run("inspect", model, "--json")[0])
        self.assertEqual(seen["metadata"]["general.architecture"], "qwen3moe")
        smallest = seen["sluice"].pop("smallest_memory_bytes")
        self.assertTrue(1 << 20 < smallest < 1 << 30)
        note = {"code": "note", "message": "the file has no tokenizer: it is given token ids, not text", "hint": ""}
        self.assertIn(note, seen["sluice"].pop("notes"))
        self.assertEqual(seen["sluice"], {"kind": "a language model", "runs": True, "verdict": "yes", "why": "", "reasons": []})
        self.assertEqual((seen["experts"]["per_layer"], seen["experts"]["used"]), (8, 3))
        self.assertEqual(seen["files"], [{"path": model, "bytes": os.path.getsize(model)}])
        self.assertEqual(sum(t["bytes"] for t in seen["tensors"]), seen["tensor_bytes"])
        self.assertEqual(sum(seen["type_bytes"].values()), seen["tensor_bytes"])
        self.assertEqual(seen["experts"]["bytes"], 8 * sum(l["bytes_per_expert"] for l in seen["layers"]))
        self.assertLess(max(t["offset"] + t["bytes"] for t in seen["tensors"]), os.path.getsize(model) + 1)

    def test_text_of_the_bundled_model(self):
        out = run("inspect", DEMO)[0].decode()
        for line in ["is            a language model", "runs          yes", "memory        at least ", 'architecture  "qwen3moe"', "experts       32 a layer, 4 used",
                     "(gate Q4_K, up Q4_K, down Q4_K)", "tokenizer.ggml.pre", "blk.7.ffn_down_exps.weight"]:
            self.assertIn(line, out)

    def test_terminals_are_not_obeyed(self):
        text = lambda t: struct.pack("<Q", len(t)) + t
        evil = b"\x1b]0;owned\x07\xc2\x9b"
        head = b"GGUF" + struct.pack("<IQQ", 3, 1, 2) + text(b"general.architecture") + struct.pack("<I", 8) + text(b"llama" + evil)
        head += text(b"key" + evil) + struct.pack("<II", 4, 1) + text(b"t" + evil) + struct.pack("<IQIQ", 1, 32, 0, 0)
        path = os.path.join(self.folder.name.encode(), b"name\x1b[2J.gguf")
        with open(path, "wb") as out:
            out.write(head + bytes(-len(head) % 32 + 128))
        done = subprocess.run([PROGRAM, "inspect", path], capture_output=True, env=ENV)
        for stream in [done.stdout, done.stderr]:
            self.assertNotIn(b"\x1b", stream)
            self.assertNotIn(b"\x07", stream)
            self.assertNotIn(b"\xc2\x9b", stream)
        if done.returncode == 0:
            self.assertIn(b"name\\x1b[2J.gguf", done.stdout)

    @unittest.skipUnless(HAVE_ORACLE, "needs the larger set of golden files")
    def test_says_why_not(self):
        for name, why in [("arch/lfm2moe-moe.gguf", "lfm2moe"), ("quant/IQ1_S.gguf", "IQ1_S")]:
            seen = json.loads(run("inspect", os.path.join(ORACLE, name), "--json")[0])
            if seen["sluice"]["runs"]:
                continue  # has been learnt since
            self.assertEqual(seen["sluice"]["verdict"], "no")
            self.assertIn(why, seen["sluice"]["why"])
        seen = json.loads(run("inspect", os.path.join(ORACLE, "vocab", "qwen2.gguf"), "--json")[0])
        self.assertEqual((seen["sluice"]["runs"], seen["sluice"]["verdict"]), (False, "vocabulary only"))
        self.assertGreater(seen["metadata"]["tokenizer.ggml.tokens"]["n"], 100000)


def string(text):
    return struct.pack("<Q", len(text.encode())) + text.encode()


def write_gguf(path, values, tensors):
    """values: {key: str, int, float or list of str}; tensors: [(name, dims, type, bytes)], one behind the other."""
    def value(v):
        if isinstance(v, str):
            return struct.pack("<I", 8) + string(v)
        if isinstance(v, list):
            return struct.pack("<IIQ", 9, 8, len(v)) + b"".join(map(string, v))
        return struct.pack("<If", 6, v) if isinstance(v, float) else struct.pack("<II", 4, v)
    head, at = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values)), 0
    head += b"".join(string(k) + value(v) for k, v in values.items())
    for name, dims, kind, size in tensors:
        head += string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, at)
        at += -(-size // 32) * 32
    with open(path, "wb") as out:
        out.write(head + bytes(-len(head) % 32 + at))


def split_gguf(model, prefix, n_first):
    """The model as two shards, the first with n_first tensors; gives their paths."""
    with open(model, "rb") as source:
        data = source.read()
    seen = json.loads(run("inspect", model, "--json")[0])
    tensors = sorted(seen["tensors"], key=lambda t: t["offset"])
    types = {"F32": 0, "F16": 1, "Q8_0": 8, "Q4_K": 12, "Q6_K": 14}
    # The directory begins with the first tensor's name, and metadata lie before it.
    end = data.index(string(min(tensors, key=lambda t: data.index(string(t["name"])))["name"]))
    paths = [f"{prefix}-0000{no + 1}-of-00002.gguf" for no in range(2)]
    for no, (path, own) in enumerate(zip(paths, (tensors[:n_first], tensors[n_first:]))):
        keys = b"".join(string("split." + k) + struct.pack("<II", 4, v) for k, v in (("no", no), ("count", 2), ("tensors.count", len(tensors))))
        n_keys = 3 + (0 if no else struct.unpack("<Q", data[16:24])[0])
        head, at, bodies = b"GGUF" + struct.pack("<IQQ", 3, len(own), n_keys) + (b"" if no else data[24:end]) + keys, 0, []
        for t in own:
            head += string(t["name"]) + struct.pack(f"<I{len(t['dims'])}QIQ", len(t["dims"]), *t["dims"], types[t["type"]], at)
            bodies.append(data[t["offset"]:t["offset"] + t["bytes"]] + bytes(-t["bytes"] % 32))
            at += len(bodies[-1])
        with open(path, "wb") as out:
            out.write(head + bytes(-len(head) % 32) + b"".join(bodies))
    return paths


# A model of which nothing is right but that it is one.
QWEN = {"general.architecture": "qwen3moe", "qwen3moe.block_count": 1, "qwen3moe.embedding_length": 32, "qwen3moe.context_length": 512,
        "qwen3moe.attention.head_count": 2, "qwen3moe.attention.layer_norm_rms_epsilon": 1e-6, "qwen3moe.expert_count": 4,
        "qwen3moe.expert_used_count": 2, "qwen3moe.expert_feed_forward_length": 32}
VOCABULARY = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "qwen2", "tokenizer.ggml.tokens": ["a", "b", "ab"], "tokenizer.ggml.merges": ["a b"]}


class WhyNot(Folder):
    """Everything that keeps a file from running."""

    def look(self, *words):
        seen = json.loads(run("inspect", *words, "--json")[0])["sluice"]
        self.assertEqual(seen["why"], seen["reasons"][0]["message"] if seen["reasons"] else "")
        return seen, [r["code"] for r in seen["reasons"]], " ".join(r["message"] + " " + r["hint"] for r in seen["reasons"])

    def made(self, values, tensors=(("token_embd.weight", (32, 3), 0, 384),)):
        write_gguf(self.path("made.gguf"), values, list(tensors))
        return self.look(self.path("made.gguf"))

    def test_all_reasons_at_once(self):
        tensors = [("token_embd.weight", (32, 3), 0, 384), ("blk.0.ffn_up_exps.weight", (256, 8, 4), 144, 0), ("blk.0.attn_q.weight", (256, 8), 144, 0),
                   ("blk.0.attn_k.weight", (256, 8), 4711, 0)]
        seen, codes, said = self.made({**QWEN, **VOCABULARY, "general.architecture": "qwen9moe", "tokenizer.ggml.pre": "qwen9"}, tensors)
        self.assertEqual((seen["runs"], seen["verdict"], seen["kind"]), (False, "no", "a language model"))
        self.assertEqual(codes, ["tensor-type", "tensor-type", "architecture", "pre-tokenizer"])
        out = run("inspect", self.path("made.gguf"))[0].decode()
        for finding in seen["reasons"] + seen["notes"]:
            self.assertIn(finding["message"], out)
            self.assertIn(finding["hint"], out)
        for text in ["2 tensors have type IQ4_KS (144)", "ik_llama.cpp", "1 tensor has type without a known name (4711)", "'qwen9moe'",
                     "qwen3moe, qwen3next", "'qwen9'", "--pre"]:
            self.assertIn(text, said)

    def test_keys_and_tensors(self):
        seen, codes, said = self.made({"general.architecture": "olmoe", "olmoe.block_count": 2})
        self.assertEqual(codes, ["keys"] * 4)
        for key in ["embedding_length", "context_length", "attention.head_count", "attention.layer_norm_rms_epsilon"]:
            self.assertIn(f"'olmoe.{key}' is missing", said)
        tensors = [("token_embd.weight", (32, 3), 0, 384), ("blk.0.attn_q.weight", (32, 64), 0, 8192), ("blk.0.attn_k.weight", (32, 32), 26, 4096)]
        seen, codes, said = self.made(QWEN, tensors)
        self.assertEqual(codes, ["tensors", "tensors", "tensors"])
        for text in ["'blk.0.attn_k.weight' has type I32", "tensors are missing: output_norm.weight, blk.0.attn_norm.weight",
                     "1 tensor has another shape: tensor 'blk.0.attn_q.weight' has shape [32, 64, 1], expected [32, 32, 1]"]:
            self.assertIn(text, said)
        self.assertEqual(self.made({**QWEN, "qwen3moe.attention.head_count": 0})[1], ["keys"])

    def test_tokenizers(self):
        for change, code, text in [({"tokenizer.ggml.model": "bert"}, "tokenizer", "'bert'"), ({"tokenizer.ggml.merges": "x"}, "tokenizer", "merges")]:
            seen, codes, said = self.made({**QWEN, **VOCABULARY, **change})
            self.assertEqual((codes[-1], "tensors" in codes), (code, True))
            self.assertIn(text, said)
        both = {**QWEN, **VOCABULARY, "tokenizer.ggml.pre": "qwen9"}
        del both["tokenizer.ggml.merges"]
        self.assertEqual(self.made(both)[1][-2:], ["pre-tokenizer", "tokenizer"])
        self.assertEqual(self.look(self.path("made.gguf"), "--pre", "qwen2")[1][-1:], ["tokenizer"])
        self.assertEqual(self.look(os.path.join(ARCH, "olmoe-moe.gguf"), "--pre", "qwen2")[1], ["option"])
        self.assertIn("kimi-k2", run("inspect", DEMO, "--pre", "qwen9", code=2)[1].decode())
        seen = self.made({**QWEN, **VOCABULARY})[0]
        self.assertEqual([n["code"] for n in seen["notes"]], ["chat-template"])
        self.assertIn("no chat template", seen["notes"][0]["message"])
        seen = self.made({**QWEN, **VOCABULARY, "tokenizer.chat_template": "{% include 'x' %}"})[0]
        self.assertIn("is not used", seen["notes"][0]["message"])

    def test_files_that_are_not_whole(self):
        with open(DEMO, "rb") as model, open(self.path("cut.gguf"), "wb") as cut:
            cut.write(model.read(2 << 20))
        seen, codes, said = self.look(self.path("cut.gguf"))
        self.assertEqual((codes, seen["verdict"]), (["truncated"], "no"))
        self.assertIn("needs 31512960 bytes and has 2097152", said)
        split = {**QWEN, **VOCABULARY, "split.no": 0, "split.count": 4}
        first = self.path("m-00001-of-00004.gguf")
        write_gguf(first, split, [("token_embd.weight", (32, 3), 0, 384)])
        write_gguf(self.path("m-00003-of-00004.gguf"), {"split.no": 2, "split.count": 4}, [("output_norm.weight", (32,), 0, 128)])
        seen, codes, said = self.look(first)
        self.assertEqual(codes, ["shards"])  # what else is missing may lie in those
        for text in ["(2 missing in all: 2, 4)", "download m-00002-of-00004.gguf"]:
            self.assertIn(text, said)
        seen, codes, said = self.look(self.path("m-00003-of-00004.gguf"))
        self.assertEqual((codes, seen["kind"], seen["notes"]), (["shards"], "a part of a split model", []))
        self.assertIn("open m-00001-of-00004.gguf", said)

    def test_too_little_memory(self):
        seen, codes, said = self.look(DEMO, "--memory", "1M")
        self.assertEqual((codes, seen["runs"], seen["verdict"]), (["memory"], False, "not on this machine"))
        least = seen["smallest_memory_bytes"]
        self.assertEqual(least % (1 << 20), 0)
        self.assertIn("--memory", said)
        for named in (run("inspect", DEMO, "--memory", "1M")[0], run("inspect", DEMO)[0], run("plan", DEMO, "--memory", "1M", code=4)[1],
                      run("run", "-m", DEMO, "-p", "x", "--memory", "2M", code=4)[1]):
            self.assertEqual(re.findall(r"--memory (\d+)M", named.decode()), [str(least >> 20)], named)  # one number
        self.assertIn("1.00 MiB to spare", run("inspect", DEMO, "--memory", "1M")[0].decode())
        run("run", "-m", DEMO, "-p", "x", "-n", "2", "--memory", f"{least >> 20}M")
        seen, codes, said = self.look(DEMO, "--memory", str(least))
        self.assertEqual((codes, seen["runs"], seen["verdict"]), ([], True, "yes"))
        for refused in ("1M", "900T"):  # the file is what it is
            for line in ("4 used; ", "a token uses ", "\ndense  "):
                self.assertIn(line, run("inspect", DEMO, "--memory", refused)[0].decode())
        seen, codes, said = self.look(DEMO, "--simulate-used-memory", "9000G")
        self.assertEqual((codes, seen["verdict"]), (["memory"], "not on this machine"))

    def test_other_files(self):
        for values, kind, more in [
            ({"general.architecture": "clip", "general.type": "mmproj", "clip.projector_type": "pixtral"}, "a vision or audio projector", 'projector "pixtral"'),
            ({"general.architecture": "llama", "general.type": "adapter", "adapter.type": "lora", "adapter.lora.alpha": 16.0}, "a LoRA adapter", "alpha 16"),
            ({"general.architecture": "whisper"}, "a speech model", ""),
            ({"general.architecture": "flux"}, "a model that makes images", ""),
            ({"general.architecture": "bert"}, "an embedding model", ""),
            ({"general.type": "imatrix"}, "an importance matrix", ""),
            ({"general.name": "x"}, "a GGUF file that names no architecture", ""),
        ]:
            with self.subTest(kind=kind):
                seen, codes, said = self.made(values)
                self.assertEqual((codes, seen["runs"], seen["verdict"]), (["kind"], False, "no"))
                self.assertTrue(seen["kind"].startswith(kind))
                self.assertIn(kind if values.get("general.name") is None else "'general.architecture' is missing", said)
                self.assertIn(more, run("inspect", self.path("made.gguf"))[0].decode().split("\n")[2])
        seen, codes, said = self.made({**QWEN, **VOCABULARY}, ())
        self.assertEqual((seen["kind"], seen["verdict"], codes), ("the vocabulary of a language model", "vocabulary only", []))


class Tokenize(Folder):
    @unittest.skipUnless(HAVE_ORACLE, "needs the larger set of golden files")
    def test_vocabulary_vectors(self):
        for name in ["qwen2", "llama-bpe", "llama-spm"]:
            stem = os.path.join(ORACLE, "vocab", name)
            with open(stem + ".inp", "rb") as source:
                texts = source.read().split(b"\n__ggml_vocab_test__\n")
            with open(stem + ".out", encoding="utf-8") as source:
                expected = [line.split() for line in source.read().splitlines()]
            for text, ids in list(zip(texts, expected))[::5]:
                with self.subTest(name=name, text=text):
                    with open(self.path("text"), "wb") as out:
                        out.write(text)
                    got = run("tokenize", "-m", stem + ".gguf", "-f", self.path("text"), "-q")[0]
                    self.assertEqual(got.decode(), " ".join(ids) + "\n")

    def test_ways_to_give_a_text(self):
        as_option = run("tokenize", "-m", DEMO, "-p", "Call me Ishmael.", "-q")[0]
        self.assertEqual(run("tokenize", "-m", DEMO, "-q", text=b"Call me Ishmael.")[0], as_option)
        seen = json.loads(run("tokenize", "-m", DEMO, "-p", "Call me Ishmael.", "--json", "-q")[0])
        self.assertEqual([str(i) for i in seen["ids"]], as_option.decode().split())
        self.assertEqual(seen["n"], len(seen["ids"]))
        self.assertEqual(run("tokenize", "-m", DEMO, "-p", "", "-q")[0], b"\n")

    def test_another_pre_tokenizer(self):
        text = "Don't (yes) pay 12345,\n\n  it is  too much; DON'T."
        named = lambda name: b"tokenizer.ggml.pre" + struct.pack("<IQ", 8, len(name)) + name
        with open(DEMO, "rb") as model, open(self.path("unknown.gguf"), "wb") as out:
            data = model.read()
            self.assertEqual(data.count(named(b"qwen2")), 1)
            out.write(data.replace(named(b"qwen2"), named(b"qwen9")))
        unknown = ["tokenize", "-m", self.path("unknown.gguf"), "-p", text, "-q"]
        for line in ["'qwen9'", "qwen2, qwen35", "--pre"]:
            self.assertIn(line, run(*unknown, code=3)[1].decode())
        own = run("tokenize", "-m", DEMO, "-p", text, "-q")[0]
        self.assertEqual(run(*unknown, "--pre", "qwen2")[0], own)
        self.assertEqual(run(*unknown, env={"SLUICE_PRE": "qwen2"})[0], own)
        self.assertNotEqual(run(*unknown, "--pre", "default")[0], own)
        words = ["run", "-p", text, "-n", "3", "--greedy", "-q"]
        self.assertEqual(run(*words, "-m", self.path("unknown.gguf"), "--pre", "qwen2")[0], run(*words, "-m", DEMO)[0])
        run("plan", "--serve", "-m", self.path("unknown.gguf"), "--pre", "qwen2")  # as serve: both of its vocabularies are told
        for words in (["tokenize", "-p", "x"], ["run", "-p", "x"], ["plan"], ["plan", "--serve"]):
            said = run(*words, "-m", DEMO, "--pre", "qwen9", code=2)[1].decode()
            for name in ["'qwen9'", "default", "kimi-k2", "gemma4"]:
                self.assertIn(name, said)
        self.assertIn("--pre", run("plan", "-m", os.path.join(ARCH, "olmoe-moe.gguf"), "--pre", "qwen2", code=2)[1].decode())


class Logits(Folder):
    def logits(self, *words):
        tokens = os.path.join(GOLDEN, "demo", "demo-tokens.txt")
        run("logits", "-m", DEMO, "--tokens", tokens, "--out", self.path("logits"), "-q", "--kv-type", "f32", *words)
        with open(self.path("logits"), "rb") as source:
            return source.read()

    def test_the_bundled_model_agrees_and_settings_change_nothing(self):
        first = self.logits()
        self.assertLess(error(floats(self.path("logits")), floats(os.path.join(GOLDEN, "demo", "demo.f32"))), 2e-3)
        for words in [["--chunk", "7", "--threads", "1"], ["--experts", "1M", "--policy", "lru", "--io", "sync"],
                      ["--cpu", "scalar", "--io", "threads:buffered", "--chunk", "1"]]:
            self.assertEqual(self.logits(*words), first, words)
        self.assertEqual(os.listdir(self.folder.name), ["logits"])


class Quantize(Folder):
    def setUp(self):
        super().setUp()
        self.model = os.path.join(ARCH, "qwen3moe-moe.gguf")
        self.out = self.path("out.gguf")

    def distance(self, model):
        run("logits", "-m", model, "--tokens", os.path.join(ARCH, "tokens.txt"), "--out", self.path("logits"), "-q", "--kv-type", "f32")
        return error(floats(self.path("logits")), floats(os.path.join(ARCH, "qwen3moe-moe.f32")))

    def types(self, model):
        return {t["name"]: t["type"] for t in json.loads(run("inspect", model, "--json")[0])["tensors"]}

    def test_round_trip(self):
        before = self.types(self.model)
        for name, number, tolerance in [("Q8_0", 7, 1e-3), ("Q4_0", 2, 1e-1)]:
            run("quantize", self.model, self.out, "--type", name, "-q")
            self.assertLess(self.distance(self.out), tolerance)
            after = self.types(self.out)
            self.assertEqual(list(after), list(before))
            self.assertEqual(after["blk.0.ffn_gate_exps.weight"], name)
            self.assertEqual(after["blk.0.ffn_down_exps.weight"], "F16")  # rows of 48
            for kept in ["blk.0.ffn_gate_inp.weight", "blk.0.attn_norm.weight", "output_norm.weight"]:
                self.assertEqual(after[kept], before[kept])
            metadata = json.loads(run("inspect", self.out, "--json")[0])["metadata"]
            self.assertEqual(metadata["general.file_type"], number)
        self.assertEqual(sorted(os.listdir(self.folder.name)), ["logits", "out.gguf"])

    def test_rules_and_threads(self):
        rule = ["--tensor-type", "attn_(q|k)\\.=f16", "--tensor-type", "attn=Q4_0"]
        run("quantize", self.model, self.out, "--type", "Q8_0", *rule, "-t", "1", "-q")
        after = self.types(self.out)
        self.assertEqual((after["blk.1.attn_q.weight"], after["blk.1.attn_v.weight"]), ("F16", "Q4_0"))
        run("quantize", self.model, self.path("again.gguf"), "--type", "Q8_0", *rule, "-t", "5", "-q")
        with open(self.out, "rb") as a, open(self.path("again.gguf"), "rb") as b:
            self.assertEqual(a.read(), b.read())

    def test_nonsense_is_refused(self):
        run("quantize", self.model, self.out, "--type", "Q8_0", "-q")
        link = self.path("link.gguf")
        os.symlink(self.out, link)
        for code, words, say in [
            (2, [self.model, self.path("x"), "--type", "F16"], "no tensor would change"),
            (2, [self.out, self.path("x"), "--type", "Q4_0"], "quantised already"),
            (2, [self.out, self.out, "--type", "Q4_0", "--requantize"], "the same file"),
            (2, [self.out, link, "--type", "Q4_0", "--requantize"], "the same file"),
            (2, [self.model, self.path("x"), "--type", "Q8_0", "--tensor-type", "attn"], "REGEX=TYPE"),
            (2, [self.model, self.path("x"), "--type", "Q8_0", "--tensor-type", "(=F16"], "--tensor-type"),
            (2, [self.model, self.path("x"), "--type", "Q8_0", "--tensor-type", "a=Q9"], "Q9"),
            (2, [self.model, self.path("x"), "--type", "Q8_0", "--tensor-type", "a=IQ2_XXS"], "importance matrix"),
            (2, [self.model, self.path("x"), "--type", "Q8_0", "--tensor-type", "a=NVFP4"], "a factor for each tensor"),
            (2, [self.model, self.path("x"), "--type", "Q8_0", "--tensor-type", "attn_q=F16", "--tensor-type", "nonesuch=F16"], "nonesuch=F16"),
            (2, [self.model, "/dev/null", "--type", "Q8_0"], "not a regular file"),
            (2, [self.model, "", "--type", "Q8_0"], "empty"),
            (2, [self.model, self.folder.name, "--type", "Q8_0"], "directory"),
            (5, [self.model, self.path("none/x"), "--type", "Q8_0"], "none/x"),
        ]:
            with self.subTest(words=words):
                self.assertIn(say, run("quantize", *words, code=code)[1].decode())
                self.assertFalse(os.path.exists(self.path("x")) or os.path.exists(self.path("x.part")))
        err = run("quantize", self.out, self.path("x"), "--type", "Q4_0", code=2)[1].decode()
        self.assertIn(self.out, err)  # the file, and a way out
        self.assertIn("--requantize", err)
        run("quantize", self.out, self.path("x"), "--type", "Q4_0", "--requantize", "-q")

    def test_link_stays_a_link(self):
        os.mkdir(self.path("place"))
        os.symlink("place/model", self.path("link"))
        run("quantize", self.model, self.path("link"), "--type", "Q8_0", "-q")
        self.assertTrue(os.path.islink(self.path("link")))
        self.assertEqual(os.listdir(self.path("place")), ["model"])

    def test_verbose_names_the_tensors(self):
        words = ["quantize", self.model, self.out, "--type", "Q8_0"]
        self.assertIn("debug: blk.0.attn_q.weight: F16, Q8_0", run(*words, "-v")[1].decode())
        self.assertNotIn("debug:", run(*words)[1].decode())

    def test_signals_leave_nothing(self):
        for number in [signal.SIGTERM, signal.SIGHUP, signal.SIGINT]:
            big = self.path("big.gguf")
            text = lambda t: struct.pack("<Q", len(t)) + t
            name, rows = b"big.weight", 1 << 31
            head = b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + text(b"general.architecture") + struct.pack("<I", 8) + text(b"llama")
            head += text(name) + struct.pack("<IQQIQ", 2, 32, rows, 0, 0)
            with open(big, "wb") as out:  # all of it a hole
                out.write(head)
                out.truncate((len(head) + 31) // 32 * 32 + 128 * rows)
            going = self.started([PROGRAM, "quantize", big, self.out, "--type", "F16", "-t", "1"], stderr=subprocess.DEVNULL, env=ENV)
            for _ in range(1000):
                if os.path.exists(self.out + ".part"):
                    break
                time.sleep(0.01)
            self.assertTrue(os.path.exists(self.out + ".part"))
            going.send_signal(number)
            self.assertEqual(going.wait(timeout=30), 130 if number == signal.SIGINT else -number)
            self.assertEqual(os.listdir(self.folder.name), ["big.gguf"])


class Run(Folder):
    def test_memory_does_not_change_the_text(self):
        words = ["run", "-m", DEMO, "-p", "It is a truth universally acknowledged, that", "-n", "24", "--ctx", "256", "--seed", "11"]
        first, err = run(*words)
        self.assertGreater(len(first), 20)
        first.decode("utf-8")
        for line in ["memory budget", "expert slots", "prefill", "tokens/s", "% hits", "first token after", "memory   peak"]:
            self.assertIn(line, err.decode())
        self.assertEqual(run(*words, "--experts", "64")[0], first)
        out, err = run(*words, "--experts", "4854")
        self.assertEqual(out, first)
        self.assertIn(b"all are held", err)
        self.assertEqual(run(*words, env={"SLUICE_EXPERTS": "10%", "SLUICE_THREADS": "1"})[0], first)
        self.assertNotEqual(run(*words[:-1], "12")[0], first)

    def test_context_end_has_a_reason(self):
        out, err = run("run", "-m", DEMO, "-p", "It was", "--ctx", "16", "--greedy", "-q")
        self.assertIn("context full (16 tokens)", err.decode())
        self.assertGreater(len(out), 0)
        self.assertIn("context full", run("run", "-m", DEMO, "-p", "many words " * 40, "--ctx", "16", code=2)[1].decode())

    def test_answers_under_a_schema(self):
        path = self.path("schema.json")
        with open(path, "w", encoding="utf-8") as out:
            json.dump({"type": "object", "properties": {"word": {"type": "string", "maxLength": 12}, "n": {"type": "integer"}},
                       "required": ["word", "n"]}, out)
        for seed in ("1", "2"):
            answer = json.loads(run("run", "-m", DEMO, "-p", "It was", "--ctx", "256", "-s", seed, "-q", "--schema", path)[0])
            self.assertEqual(list(answer), ["word", "n"])
            self.assertIsInstance(answer["n"], int)
        with open(path, "w", encoding="utf-8") as out:
            out.write('{"type": "string", "pattern": "a"}')
        self.assertIn("'pattern'", run("run", "-m", DEMO, "-p", "It was", "--ctx", "256", "--schema", path, code=2)[1].decode())

    def test_chat_computes_only_what_is_new(self):
        out, err = run("chat", "-m", DEMO, "-n", "8", "--seed", "1", "--ctx", "512", text=b"One two three.\n/stats\nFour.\n/stats\n")
        self.assertEqual(len(out.strip().splitlines()) > 1, True)
        prefill = [int(line.split()[1]) for line in err.decode().splitlines() if line.startswith("prefill ")]
        context = [int(line.split()[1]) for line in err.decode().splitlines() if line.startswith("context  ")]
        self.assertEqual(len(prefill), 3)  # two orders and the end
        self.assertEqual(prefill[1], prefill[2])
        # The second turn's prompt holds the first turn and its answer; had all been computed again, this would be larger.
        self.assertLess(prefill[1], context[1])


class Damageable(Folder):
    """A copy of a model that gets damaged."""

    def setUp(self):
        super().setUp()
        self.model = self.path("model.gguf")
        self.sums = self.model + ".sluice-sums"
        self.take(os.path.join(ARCH, "qwen3moe-moe.gguf"))

    def take(self, model):
        with open(model, "rb") as source, open(self.model, "wb") as out:
            out.write(source.read())

    def flip(self, path, at):
        with open(path, "r+b") as out:
            out.seek(at)
            byte = out.read(1)[0]
            out.seek(at)
            out.write(bytes([byte ^ 4]))

    def tensors(self):
        return {t["name"]: t for t in json.loads(run("inspect", self.model, "--json")[0])["tensors"]}

    def gguf(self, tensors):
        """A model of F32 matrices (name, rows of 32 floats), with nothing in it: the file is one hole. Gives their places."""
        text = lambda t: struct.pack("<Q", len(t)) + t
        head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), 1) + text(b"general.architecture") + struct.pack("<I", 8) + text(b"llama")
        offsets, at = [], 0
        for name, rows in tensors:
            head += text(name.encode()) + struct.pack("<IQQIQ", 2, 32, rows, 0, at)
            offsets.append(at)
            at += 128 * rows
        begin = (len(head) + 31) // 32 * 32
        with open(self.model, "wb") as out:
            out.write(head)
            out.truncate(begin + at)
        return [begin + o for o in offsets]


class Trust(Damageable):
    """checksum, verify and --verify."""

    def verify(self, code=0):
        return json.loads(run("verify", "-m", self.model, "--json", code=code)[0])

    def logits(self, *words, code=0):
        out = self.path("logits.f32")
        err = run("logits", "-m", self.model, "--tokens", os.path.join(ARCH, "tokens.txt"), "--out", out, *words, code=code)[1].decode()
        return (floats(out) if code == 0 else None), err

    def test_a_good_model_is_good(self):
        made = json.loads(run("checksum", "-m", self.model, "--json")[0])
        tensors = self.tensors()
        dense = [t for t in tensors.values() if not t["name"].endswith("_exps.weight")]
        self.assertEqual(made["tensors"], len(dense))
        self.assertEqual(made["experts"], 8 * len([n for n in tensors if n.endswith("ffn_down_exps.weight")]))
        self.assertEqual(made["checksums"], len(dense) + 3 * made["experts"])
        self.assertEqual(made["bytes"], sum(t["bytes"] for t in tensors.values()))
        self.assertEqual(sorted(os.listdir(self.folder.name)), ["model.gguf", "model.gguf.sluice-sums"])
        seen = self.verify()
        self.assertEqual((seen["ok"], seen["damaged"], seen["fingerprint"]), (True, [], made["fingerprint"]))
        out, err = run("verify", "-m", self.model)
        self.assertEqual(out, b"")
        self.assertIn("are good", err.decode())
        other = self.path("other.sums")
        run("checksum", "-m", self.model, "--out", other, "-q")
        with open(self.sums, "rb") as a, open(other, "rb") as b:
            self.assertEqual(a.read(), b.read())
        os.remove(self.sums)
        run("verify", "-m", self.model, "--sums", other)
        self.assertIn("sluice checksum", run("verify", "-m", self.model, code=5)[1].decode())

    def test_each_damage_is_named(self):
        run("checksum", "-m", self.model, "-q")
        tensors = self.tensors()
        up, norm, last = tensors["blk.1.ffn_up_exps.weight"], tensors["output_norm.weight"], max(tensors.values(), key=lambda t: t["offset"])
        one = up["bytes"] // 8
        self.flip(self.model, up["offset"] + 5 * one)  # the first byte of an expert, the last byte of another
        self.flip(self.model, up["offset"] + 8 * one - 1)
        self.flip(self.model, norm["offset"] + 9)
        seen = self.verify(code=3)
        self.assertFalse(seen["ok"])
        found = {(d["tensor"], d["layer"], d["expert"], d["part"], d["offset"], d["bytes"]) for d in seen["damaged"]}
        self.assertEqual(found, {
            ("blk.1.ffn_up_exps.weight", 1, 5, "up", up["offset"] + 5 * one, one),
            ("blk.1.ffn_up_exps.weight", 1, 7, "up", up["offset"] + 7 * one, one),
            ("output_norm.weight", None, None, None, norm["offset"], norm["bytes"])})
        out, err = run("verify", "-m", self.model, code=3)
        self.assertIn("layer 1, expert 5, up", out.decode())
        self.assertIn("tensor output_norm.weight", out.decode())
        self.assertEqual(len(out.splitlines()), 3)
        self.assertIn("3 of ", err.decode())
        for place in [up["offset"] + 5 * one, up["offset"] + 8 * one - 1, norm["offset"] + 9]:
            self.flip(self.model, place)
        self.assertTrue(self.verify()["ok"])
        self.flip(self.model, last["offset"] + last["bytes"] - 1)
        self.assertEqual([d["tensor"] for d in self.verify(code=3)["damaged"]], [last["name"]])

    def test_larger_than_the_blocks_of_reading(self):
        block = 2 << 20
        rows = [3, block // 128 * 3 + 5, 1, 7, block // 128 - 1, block // 128, 2]
        places = self.gguf([(f"t{i}", n) for i, n in enumerate(rows)])
        run("checksum", "-m", self.model, "-q")
        self.assertTrue(self.verify()["ok"])
        for i, n in enumerate(rows):
            begin, end = places[i], places[i] + 128 * n
            ends = {begin, end - 1} | {b + d for b in range(begin // 4096 * 4096, end, block) for d in (-1, 0, 4095, 4096)}
            ends |= {b + d for b in range(0, end, block) for d in (-1, 0)}
            for at in sorted(a for a in ends if begin <= a < end):
                self.flip(self.model, at)
                self.assertEqual([d["tensor"] for d in self.verify(code=3)["damaged"]], [f"t{i}"], at)
                self.flip(self.model, at)

    def test_checksums_of_others_are_refused(self):
        run("checksum", "-m", self.model, "-q")
        tokens = ["logits", "-m", self.model, "--tokens", os.path.join(ARCH, "tokens.txt"), "--out", self.path("x")]
        self.flip(self.sums, 60)
        for words in [["verify", "-m", self.model], [*tokens, "--verify"]]:
            self.assertIn("damaged", run(*words, code=2)[1].decode())
        run(*tokens)  # without --verify nobody looks
        os.rename(self.sums, self.path("kept"))
        run("checksum", "-m", os.path.join(ARCH, "olmoe-moe.gguf"), "--out", self.sums, "-q")
        for words in [["verify", "-m", self.model], [*tokens, "--verify"]]:
            self.assertIn("another model", run(*words, code=2)[1].decode())
        with open(self.sums, "wb") as out:
            out.write(b"hello")
        self.assertIn("is not a file of checksums", run("verify", "-m", self.model, code=2)[1].decode())

    def test_nonsense_is_refused_and_leaves_nothing(self):
        for code, words, say in [
            (2, ["checksum", "-m", self.model, "--out", self.model], "the model itself"),
            (2, ["checksum", "-m", self.model, "--out", self.folder.name], "directory"),
            (5, ["checksum", "-m", self.model, "--out", self.path("none/x")], "none/x"),
            (5, ["checksum", "-m", self.path("absent")], "absent"),
            (3, ["checksum", "-m", os.path.join(SOURCE, "meson.build")], "meson.build"),
            (5, ["verify", "-m", self.model, "--sums", self.path("absent")], "absent"),
            (2, ["verify"], "--model"),
        ]:
            with self.subTest(words=words):
                self.assertIn(say, run(*words, code=code)[1].decode())
        self.assertEqual(os.listdir(self.folder.name), ["model.gguf"])

    def test_verify_changes_no_logit_and_sees_damage(self):
        good = self.logits()[0]
        without, err = self.logits("--verify")
        self.assertEqual(without, good)
        self.assertIn("no checksums", err)
        self.assertIn("staging", err)  # its row of the ledger
        run("checksum", "-m", self.model, "-q")
        for io in ["auto", "threads", "sync", "sync:buffered"]:
            with_sums, err = self.logits("--verify", "--io", io, "--experts", "30%")
            self.assertEqual(with_sums, good)
            self.assertIn("checksums of", err)
        tensors = self.tensors()
        down = tensors["blk.1.ffn_down_exps.weight"]
        for expert in range(8):  # whichever are chosen
            self.flip(self.model, down["offset"] + expert * down["bytes"] // 8 + 3)
        err = self.logits("--verify", code=3)[1]
        self.assertRegex(err, r"layer 1, expert [0-7], part 3 of 3 \(down\).*checksum")
        damaged = self.logits()[0]
        self.assertNotEqual(damaged, good)  # nobody would have known
        for expert in range(8):
            self.flip(self.model, down["offset"] + expert * down["bytes"] // 8 + 3)
        self.flip(self.model, tensors["output_norm.weight"]["offset"])
        self.assertIn("tensor 'output_norm.weight'", self.logits("--verify", code=3)[1])

    def test_dense_models(self):
        self.take(os.path.join(ARCH, "llama-dense.gguf"))
        made = json.loads(run("checksum", "-m", self.model, "--json")[0])
        self.assertEqual((made["experts"], made["checksums"]), (0, made["tensors"]))
        good = self.logits()[0]
        self.assertEqual(self.logits("--verify")[0], good)  # a dense model: its weights are checked as they are loaded
        self.flip(self.model, self.tensors()["blk.0.ffn_down.weight"]["offset"] + 77)
        self.assertIn("blk.0.ffn_down.weight", self.logits("--verify", code=3)[1])

    def test_interrupted(self):
        """A tensor of 256 GiB, all of it a hole in the file: Ctrl-C ends the reading soon and leaves nothing."""
        self.gguf([("big.weight", 1 << 31)])
        going = self.started([PROGRAM, "checksum", "-m", self.model], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENV)
        for _ in range(1000):
            if os.path.exists(self.sums + ".part"):
                break
            time.sleep(0.01)
        time.sleep(0.05)
        going.send_signal(signal.SIGINT)
        err = going.communicate(timeout=30)[1]
        self.assertEqual(going.returncode, 130)
        self.assertIn("interrupted", err.decode())
        self.assertEqual(os.listdir(self.folder.name), ["model.gguf"])


class Pack(Damageable):
    """The same model with its experts in one piece each."""

    def setUp(self):
        super().setUp()
        self.packed = self.path("packed.gguf")

    def pack(self, *words, code=0):
        return run("pack", self.model, self.packed, *words, code=code)

    def logits_of(self, model, *words):
        out = self.path("logits.f32")
        run("logits", "-m", model, "--tokens", os.path.join(ARCH, "tokens.txt"), "--out", out, "-q", *words)
        with open(out, "rb") as source:
            return source.read()

    def test_records(self):
        with open(self.model, "rb") as source:
            before = source.read()
        seen = json.loads(self.pack("--json")[0])
        self.assertEqual((seen["experts"], seen["kept_bytes"], seen["compared_with_checksums"]), (24, 0, False))
        self.assertLess(seen["expert_read_bytes_after"], seen["expert_read_bytes_before"])
        with open(self.model, "rb") as source:
            self.assertEqual(source.read(), before)
        self.assertEqual(sorted(os.listdir(self.folder.name)), ["model.gguf", "packed.gguf", "packed.gguf.sluice-sums"])
        old, new = self.tensors(), {t["name"]: t for t in json.loads(run("inspect", self.packed, "--json")[0])["tensors"]}
        with open(self.packed, "rb") as source:
            after = source.read()
        end = 0  # of everything else
        for name, t in old.items():
            if not name.endswith("_exps.weight"):
                self.assertEqual((new[name]["dims"], new[name]["type"]), (t["dims"], t["type"]))
                self.assertEqual(after[new[name]["offset"]:][:t["bytes"]], before[t["offset"]:][:t["bytes"]])
                end = max(end, new[name]["offset"] + t["bytes"])
        for layer in range(3):
            for expert in range(8):
                for part in ["gate", "up", "down"]:
                    t, whole = new[f"blk.{layer}.ffn_{part}.{expert}.weight"], old[f"blk.{layer}.ffn_{part}_exps.weight"]
                    self.assertEqual(t["offset"], (end + 4095) // 4096 * 4096)
                    self.assertEqual((t["dims"], t["type"]), (whole["dims"][:2], whole["type"]))
                    self.assertEqual(after[t["offset"]:][:t["bytes"]], before[whole["offset"] + expert * t["bytes"]:][:t["bytes"]])
                    end = t["offset"] + t["bytes"]
        self.assertEqual(len(new), len(old) - 9 + 72)
        run("verify", "-m", self.packed)
        self.flip(self.packed, new["blk.2.ffn_up.3.weight"]["offset"])
        self.assertIn("layer 2, expert 3, up", run("verify", "-m", self.packed, code=3)[0].decode())

    def test_results_are_the_same(self):
        for model in [os.path.join(ARCH, f"{a}-moe.gguf") for a in ["qwen3moe", "olmoe", "qwen2moe", "llama"]] + [
                os.path.join(GOLDEN, "blend", "blend.gguf"), os.path.join(GOLDEN, "quant", "Q4_K_M.gguf")]:
            with self.subTest(model=model):
                self.take(model)
                self.pack("-q")
                good = self.logits_of(model)
                self.assertEqual(self.logits_of(self.packed), good)
                self.assertEqual(self.logits_of(self.packed, "--experts", "60%", "--verify"), good)

    def test_goes_on_where_it_was_interrupted(self):
        self.pack("-q")
        with open(self.packed, "rb") as source:
            whole = source.read()
        for left in [whole[: len(whole) // 2], whole, whole + b"more", b"something else", whole[:700000] + b"?" + whole[700001:]]:
            os.remove(self.packed)
            with open(self.packed + ".part", "wb") as out:
                out.write(left)
            seen = json.loads(self.pack("--json")[0])
            self.assertEqual(seen["kept_bytes"] > 0, left[:4] == b"GGUF")
            with open(self.packed, "rb") as source:
                self.assertEqual(source.read(), whole)
            self.assertFalse(os.path.exists(self.packed + ".part"))

    def test_interrupted(self):
        self.gguf([("blk.0.ffn_down.0.weight", 1 << 26)])
        going = self.started([PROGRAM, "pack", self.model, self.packed], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENV)
        for _ in range(1000):
            if os.path.exists(self.packed + ".part") and os.path.getsize(self.packed + ".part"):
                break
            time.sleep(0.002)
        going.send_signal(signal.SIGINT)
        err = going.communicate(timeout=30)[1]
        self.assertEqual(going.returncode, 130)
        self.assertIn("goes on with it", err.decode())
        self.assertEqual(sorted(os.listdir(self.folder.name)), ["model.gguf", "packed.gguf.part"])

    def test_nonsense_is_refused_and_leaves_nothing(self):
        dense = os.path.join(ARCH, "llama-dense.gguf")
        for code, words, say in [
            (2, [self.model, self.model], "the same file"),
            (2, [self.model, self.folder.name], "directory"),
            (2, [dense, self.packed], "no routed experts"),
            (5, [self.model, self.path("none/x")], "none/x"),
            (3, [os.path.join(SOURCE, "meson.build"), self.packed], "meson.build"),
            (2, [self.model], "needs 2"),
        ]:
            with self.subTest(words=words):
                self.assertIn(say, run("pack", *words, code=code)[1].decode())
        self.assertEqual(os.listdir(self.folder.name), ["model.gguf"])
        run("checksum", "-m", self.model, "-q")
        self.assertIn("compared_with_checksums\": true", self.pack("--json")[0].decode())
        self.assertIn("packed already", run("pack", self.packed, self.path("x"), code=2)[1].decode())
        os.remove(self.packed)
        self.flip(self.model, self.tensors()["blk.1.ffn_gate_exps.weight"]["offset"] + 10)
        self.assertIn("blk.1.ffn_gate_exps.weight' of IN is damaged", self.pack(code=3)[1].decode())
        self.assertFalse(os.path.exists(self.packed) or os.path.exists(self.packed + ".part"))


def open_files(pid):
    """What a process that goes on has open; it may close some of it meanwhile."""
    held = []
    for n in os.listdir(f"/proc/{pid}/fd"):
        try:
            held.append(os.readlink(f"/proc/{pid}/fd/{n}"))
        except FileNotFoundError:
            pass
    return held


class Others(Folder):
    def test_inspect_folds_equal_layers(self):
        lines = [line for line in run("inspect", DEMO)[0].decode().split("\nlayers (8)\n")[1].split("\n\n")[0].splitlines()]
        self.assertEqual(len(lines), 1)
        self.assertRegex(lines[0], r"^ +0-7 .* each; an expert 108 KiB \(gate Q4_K, up Q4_K, down Q4_K\)$")
        self.assertEqual(len(json.loads(run("inspect", DEMO, "--json")[0])["layers"]), 8)

    def test_plan_is_within_the_budget(self):
        seen = json.loads(run("plan", "-m", DEMO, "--memory", "512M", "--ctx", "256", "--json")[0])
        self.assertLessEqual(sum(r["bytes"] for r in seen["rows"]), 512 << 20)
        self.assertEqual((seen["budget_bytes"], seen["ctx"]), (512 << 20, 256))
        self.assertLess(seen["slots_floor_bytes"], seen["slots_bytes"])
        self.assertIn("expert slots", run("plan", DEMO, "--memory", "512M")[0].decode())

    def test_a_size_without_a_unit_is_asked_about(self):
        kept = ["--kv-dir", self.path("kv")]
        for words in (["--memory", "8"], ["--lock=all", "--lock-margin", "8"], ["--simulate-used-memory", "8"], kept + ["--kv-limit", "8"], kept + ["--prefix-memory", "8"]):
            err = run("run", DEMO, "-p", "x", "-n", "1", *words, code=2)[1].decode()
            self.assertIn(words[-2] + ": '8' is too little", err)
            self.assertIn("a number without a unit is bytes: 8M or 8G?", err)
        run("plan", DEMO, "--experts", "64")  # these are counted

    def test_plan_is_what_a_run_does(self):
        choice = lambda text: re.search(r"^context \d+ tokens, prompt chunks of \d+", text.decode(), re.MULTILINE)[0]
        least = run("plan", DEMO, "--memory", "1M", code=4)[1].decode()
        least = int(re.search(r"use at least --memory (\d+)M", least)[1])
        for memory in (f"{least + more}M" for more in (1, 5, 12)):  # where some pages more or less would decide
            planned = [choice(run("plan", DEMO, "--memory", memory)[0]) for _ in range(3)]
            done = [choice(run("run", "-m", DEMO, "-p", "x", "-n", "1", "--memory", memory)[1]) for _ in range(3)]
            self.assertEqual(set(planned + done), {planned[0]})

    def test_plan_estimates_speed(self):
        seen = json.loads(run("plan", DEMO, "--experts", "64", "--disk", "100", "--json", "-q")[0])
        rates = seen["estimate"]["disk"]
        self.assertAlmostEqual(rates[0]["hit_rate"], seen["slots_bytes"] / seen["slots_all_bytes"], places=6)
        self.assertEqual([r["hit_rate"] for r in rates[1:]], [0.5, 0.75, 0.9])
        for rate in rates:
            self.assertAlmostEqual(rate["tokens_per_second"] * (1 - rate["hit_rate"]) * seen["expert_bytes_per_token"] / 1e8, 1, places=5)
        self.assertGreater(seen["estimate"]["memory_tokens_per_second"], 0)
        out, err = run("plan", DEMO, "--experts", "64", "--disk", DEMO)
        self.assertRegex(out.decode(), r"at 25/50/75/90 % hits at most [0-9./]+ tokens/s by the disk's [0-9]+ MB/s")
        self.assertIn("assumed: ", out.decode())
        self.assertIn("the disk of ", err.decode())
        out, err = run("plan", DEMO, "--experts", "100%", "--disk", "100")  # nothing is read
        self.assertNotIn("% hits", out.decode())
        self.assertIn("by the memory", out.decode())
        out, err = run("plan", DEMO)
        self.assertNotIn("tokens/s", out.decode())
        self.assertIn("--disk", err.decode())
        run("plan", DEMO, "--disk", "0", code=2)
        for speed in ("3GB", "3000MB", "3000 MB/s", "2.5g", "800MiB/s"):
            self.assertIn("a number of MB/s without a unit", run("plan", DEMO, "--disk", speed, code=2)[1].decode())

    def test_perplexity_knows_prose_from_noise(self):
        found = {}
        for name, text in [("prose", "It was the best of times, it was the worst of times. " * 12), ("noise", "qx zvw kj! 93 ~{ vvq" * 25)]:
            with open(self.path(name), "w", encoding="utf-8") as out:
                out.write(text)
            seen = json.loads(run("perplexity", "-m", DEMO, "-f", self.path(name), "--ctx", "64", "--json", "-q")[0])
            self.assertGreater(seen["tokens_scored"], 0)
            found[name] = seen["perplexity"]
        self.assertLess(found["prose"] * 2, found["noise"])

    def test_texts_much_longer_than_the_context(self):
        with open(self.path("long"), "w", encoding="utf-8") as out:
            out.write("It was the best of times, it was the worst of times. " * 40)
        run("perplexity", "-m", DEMO, "-f", self.path("long"), "--ctx", "16", "-q")
        self.assertIn("context full (16 tokens)", run("run", "-m", DEMO, "-f", self.path("long"), "--ctx", "16", "-q", code=2)[1].decode())

    def test_bench_has_every_column(self):
        seen = json.loads(run("bench", "-m", DEMO, "-p", "8", "-n", "2", "-r", "1", "--experts", "64", "--json", "-q")[0])
        self.assertEqual([r["phase"] for r in seen["rows"]], ["prefill", "decode"])
        for row in seen["rows"]:
            self.assertGreater(row["tokens_per_s"], 0)
            for key in ["hit_percent", "bytes_per_token", "wait_percent"]:
                self.assertGreaterEqual(row[key], 0)

    def test_doctor_reads_little_and_leaves_nothing(self):
        seen = json.loads(run("doctor", self.folder.name, "--json")[0])
        self.assertTrue(seen["disk"]["scratch"])
        self.assertLessEqual(seen["disk"]["read_bytes"], 64 << 20)
        self.assertEqual(len(seen["disk"]["random_reads"]), 9)
        self.assertEqual(os.listdir(self.folder.name), [])
        seen = json.loads(run("doctor", DEMO, "--json")[0])
        self.assertEqual((seen["disk"]["scratch"], seen["disk"]["path"]), (False, DEMO))
        self.assertIn("not measured", run("doctor")[0].decode())
        said = run("doctor", DEMO)[0].decode()
        waits = re.search(r"a token of this model, which uses 4 MB of experts, waits at least ([0-9.]+) ms for the disk at 50 % hits, ([0-9.]+) ms at 90 %", said)
        self.assertTrue(waits, said)
        for ms in waits.groups():
            self.assertGreater(float(ms), 0, said)
            self.assertEqual("." in ms, float(ms) < 10, said)

    def test_a_split_model_is_measured_where_it_is_largest(self):
        first, second = split_gguf(DEMO, self.path("m"), 2)
        self.assertLess(os.path.getsize(first), 16 << 20)
        seen = json.loads(run("doctor", first, "--json")[0])["disk"]
        self.assertEqual((seen["path"], seen["file_bytes"]), (second, os.path.getsize(second)))
        said = run("doctor", first)[0].decode()
        self.assertIn("the largest of the model's 2 files", said)
        self.assertIn("a token of this model, which uses 4 MB of experts", said)
        self.assertIn("tokens/s by the disk's", run("plan", first, "--experts", "64", "--disk", first)[0].decode())
        small, _ = split_gguf(os.path.join(ARCH, "qwen3moe-moe.gguf"), self.path("small"), 2)
        self.assertIn("too few to measure a disk", run("doctor", small, code=2)[1].decode())

    @unittest.skipUnless(os.path.isdir("/proc/self/fd"), "needs names of open files")
    def test_doctor_killed_leaves_nothing(self):
        going = self.started([PROGRAM, "doctor", self.folder.name, "--full"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENV)
        for _ in range(1000):  # until it has its scratch file
            held = open_files(going.pid)
            if any(self.folder.name in name for name in held):
                break
            time.sleep(0.01)
        going.kill()
        going.wait()
        self.assertEqual(os.listdir(self.folder.name), [])

    def test_verbose_shows_what_quiet_words_hide(self):
        words = ["run", "-m", DEMO, "-p", "It was", "-n", "2", "--greedy"]
        self.assertIn("sluice: debug: ", run(*words, "-v")[1].decode())
        self.assertNotIn("debug", run(*words)[1].decode())


if __name__ == "__main__":
    if not HAVE_ORACLE:
        print("the larger set of golden files is absent: vocabulary vectors and refused models are left out")
    unittest.main(verbosity=1)
