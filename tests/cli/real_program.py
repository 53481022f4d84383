#!/usr/bin/env python3
"""The built program, with the real engine, on real files: exit codes, inspect, tokenize, logits, quantize, run, plan, bench, doctor.

SLUICE_BIN names the program, SLUICE_SOURCE the repository, SLUICE_SHARED the larger set of golden files (parts that need it are
left out, with a line, where it is absent)."""
import array
import json
import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.environ["SLUICE_BIN"]
SOURCE = os.environ["SLUICE_SOURCE"]
ORACLE = os.path.join(os.environ.get("SLUICE_SHARED", ""), "oracle")
HAVE_ORACLE = os.path.isdir(ORACLE)
DEMO = os.path.join(SOURCE, "models", "demo.gguf")
GOLDEN = os.path.join(SOURCE, "tests", "golden")
ARCH = os.path.join(GOLDEN, "arch")
ENV = {k: v for k, v in os.environ.items() if not k.startswith("SLUICE_")}


def run(*words, code=0, text=None, env=None):
    """Runs the program; checks the exit code; gives standard output and standard error (bytes)."""
    done = subprocess.run([PROGRAM, *words], input=text if text is not None else b"", capture_output=True, env={**ENV, **(env or {})})
    if done.returncode != code:
        raise AssertionError(f"sluice {' '.join(words)}: exit code {done.returncode}, not {code}:\n{done.stderr.decode(errors='replace')}")
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


class ExitCodes(Folder):
    def test_each_kind_of_failure_has_its_code(self):
        with open(DEMO, "rb") as model, open(self.path("cut.gguf"), "wb") as cut:
            cut.write(model.read(1 << 20))
        for code, words, say in [
            (5, ["run", "-m", self.path("missing.gguf"), "-p", "x"], "missing.gguf"),
            (3, ["run", "-m", os.path.join(SOURCE, "meson.build"), "-p", "x"], "meson.build"),
            (3, ["run", "-m", self.path("cut.gguf"), "-p", "x"], "cut.gguf"),
            (3, ["inspect", self.path("cut.gguf")], "cut.gguf"),
            (3, ["quantize", self.path("cut.gguf"), self.path("out"), "--type", "F16"], "cut.gguf"),
            (2, ["run", "-m", DEMO, "-p", "x", "--memory", "lots"], "lots"),
            (2, ["run", "-m", DEMO, "-p", "x", "--ctx", "0"], "--ctx"),
            (4, ["run", "-m", DEMO, "-p", "x", "--memory", "1M"], "--memory"),
            (4, ["plan", "-m", DEMO, "--memory", "900T"], "900"),
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
        self.assertEqual(seen["sluice"], {"runs": True, "verdict": "yes", "why": ""})
        self.assertEqual((seen["experts"]["per_layer"], seen["experts"]["used"]), (8, 3))
        self.assertEqual(seen["files"], [{"path": model, "bytes": os.path.getsize(model)}])
        self.assertEqual(sum(t["bytes"] for t in seen["tensors"]), seen["tensor_bytes"])
        self.assertEqual(sum(seen["type_bytes"].values()), seen["tensor_bytes"])
        self.assertEqual(seen["experts"]["bytes"], 8 * sum(l["bytes_per_expert"] for l in seen["layers"]))
        self.assertLess(max(t["offset"] + t["bytes"] for t in seen["tensors"]), os.path.getsize(model) + 1)

    def test_text_of_the_bundled_model(self):
        out = run("inspect", DEMO)[0].decode()
        for line in ["runs          yes", 'architecture  "qwen3moe"', "experts       32 a layer, 4 used",
                     "(gate Q4_K, up Q4_K, down Q4_K)", "tokenizer.ggml.pre", "blk.7.ffn_down_exps.weight"]:
            self.assertIn(line, out)

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
            (2, [self.model, self.folder.name, "--type", "Q8_0"], "directory"),
            (5, [self.model, self.path("none/x"), "--type", "Q8_0"], "none/x"),
        ]:
            with self.subTest(words=words):
                self.assertIn(say, run("quantize", *words, code=code)[1].decode())
                self.assertFalse(os.path.exists(self.path("x")) or os.path.exists(self.path("x.part")))
        run("quantize", self.out, self.path("x"), "--type", "Q4_0", "--requantize", "-q")


class Run(Folder):
    def test_memory_does_not_change_the_text(self):
        words = ["run", "-m", DEMO, "-p", "It is a truth universally acknowledged, that", "-n", "24", "--ctx", "256", "--seed", "11"]
        first, err = run(*words)
        self.assertGreater(len(first), 20)
        first.decode("utf-8")
        for line in ["memory budget", "expert slots", "prefill", "tokens/s", "% hits", "first token after", "memory   peak"]:
            self.assertIn(line, err.decode())
        self.assertEqual(run(*words, "--experts", "64")[0], first)
        self.assertEqual(run(*words, env={"SLUICE_EXPERTS": "10%", "SLUICE_THREADS": "1"})[0], first)
        self.assertNotEqual(run(*words[:-1], "12")[0], first)

    def test_context_end_has_a_reason(self):
        out, err = run("run", "-m", DEMO, "-p", "It was", "--ctx", "16", "--greedy", "-q")
        self.assertIn("context full (16 tokens)", err.decode())
        self.assertGreater(len(out), 0)
        self.assertIn("context full", run("run", "-m", DEMO, "-p", "many words " * 40, "--ctx", "16", code=2)[1].decode())

    def test_chat_computes_only_what_is_new(self):
        out, err = run("chat", "-m", DEMO, "-n", "8", "--seed", "1", "--ctx", "512", text=b"One two three.\n/stats\nFour.\n/stats\n")
        self.assertEqual(len(out.strip().splitlines()) > 1, True)
        prefill = [int(line.split()[1]) for line in err.decode().splitlines() if line.startswith("prefill ")]
        context = [int(line.split()[1]) for line in err.decode().splitlines() if line.startswith("context  ")]
        self.assertEqual(len(prefill), 3)  # two orders and the end
        self.assertEqual(prefill[1], prefill[2])
        # The second turn's prompt holds the first turn and its answer; had all been computed again, this would be larger.
        self.assertLess(prefill[1], context[1])


class Others(Folder):
    def test_plan_is_within_the_budget(self):
        seen = json.loads(run("plan", "-m", DEMO, "--memory", "512M", "--ctx", "256", "--json")[0])
        self.assertLessEqual(sum(r["bytes"] for r in seen["rows"]), 512 << 20)
        self.assertEqual((seen["budget_bytes"], seen["ctx"]), (512 << 20, 256))
        self.assertLess(seen["slots_floor_bytes"], seen["slots_bytes"])
        self.assertIn("expert slots", run("plan", DEMO, "--memory", "512M")[0].decode())

    def test_perplexity_knows_prose_from_noise(self):
        found = {}
        for name, text in [("prose", "It was the best of times, it was the worst of times. " * 12), ("noise", "qx zvw kj! 93 ~{ vvq" * 25)]:
            with open(self.path(name), "w", encoding="utf-8") as out:
                out.write(text)
            seen = json.loads(run("perplexity", "-m", DEMO, "-f", self.path(name), "--ctx", "64", "--json", "-q")[0])
            self.assertGreater(seen["tokens_scored"], 0)
            found[name] = seen["perplexity"]
        self.assertLess(found["prose"] * 2, found["noise"])

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


if __name__ == "__main__":
    if not HAVE_ORACLE:
        print("the larger set of golden files is absent: vocabulary vectors and refused models are left out")
    unittest.main(verbosity=1)
