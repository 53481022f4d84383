#!/usr/bin/env python3
"""The built program on real files: profile, hotlists, pins, the usage file, guesses, locks, routes, and the figures of them.

SLUICE_BIN names the program, SLUICE_SOURCE the repository."""
import json
import os
import re
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True  # the source folder stays as it is

from real_program import ARCH, DEMO, ENV, Folder, PROGRAM, UNITS, run


class Known(Folder):
    """What is known beforehand: profile, hotlists, the usage file; and what the options of the cache leave as it is."""

    def setUp(self):
        super().setUp()
        self.list = self.path("list")

    def profile(self, *words, model=DEMO):
        return json.loads(run("profile", "-m", model, "-p", "It was the best of times.", "--out", self.list, "--json", "-q", *words)[0])

    def assert_kept(self, line, folder):
        """The line counts what the end of the run has kept: what is in the folder then."""
        kept = re.search(r"kept ([0-9.]+) ([KM]?i?B) of .*, on the disk ([0-9.]+) ([KM]?i?B) of ", line)
        memory, disk = (float(kept[i]) * UNITS.get(kept[i + 1].encode(), 1) for i in (1, 3))
        held = sum(os.stat(os.path.join(folder, name)).st_blocks * 512 for name in os.listdir(folder))
        self.assertGreater(memory, 0, line)
        self.assertGreater(disk, 0, line)
        self.assertLess(abs(disk - held), 0.02 * held + 8192, (line, held))

    def test_prefixes_of_a_chat_are_counted(self):
        folder = self.path("kept")
        said = run("chat", "-m", DEMO, "-n", "8", "--greedy", "--ctx", "256", "--kv-dir", folder, text=b"Call me Ishmael.\n")[1].decode()
        self.assert_kept(next(line for line in said.splitlines() if line.startswith("prefixes")), folder)

    def test_prefixes_are_kept_over_runs(self):
        folder, text = self.path("not/yet/kept"), "Call me Ishmael. Some years ago, never mind how long precisely, "
        ask = lambda *words: [x.decode() for x in run("run", "-m", DEMO, "-n", "8", "--greedy", "--ctx", "256", "--memory", "400M", *words)[:2]]
        known = lambda said: [line for line in said.splitlines() if line.startswith("prefixes")]
        plain = ask("-p", text)
        self.assertEqual(known(plain[1]), [])
        first, again = ask("-p", text, "--kv-dir", folder), ask("-p", text, "--kv-dir", folder, "--prefix-memory", "8M")
        self.assertEqual((first[0], again[0]), (plain[0], plain[0]))
        self.assertTrue(known(first[1])[0].startswith("prefixes 0 tokens were known"), first[1])
        self.assert_kept(known(first[1])[0], folder)
        self.assertGreater(int(known(again[1])[0].split()[1]), 10)
        self.assertIn("of 8.00 MiB, on the disk", known(again[1])[0])
        counts = [{line.split()[0]: int(line.split()[1]) for line in said.splitlines() if line.startswith(("prefill ", "decode ", "prefixes "))}
                  for said in (first[1], again[1])]
        self.assertEqual(counts[1]["prefill"], 1)  # the prompt's last token, whose logits are needed
        self.assertEqual(counts[1]["prefill"] + counts[1]["prefixes"], counts[0]["prefill"])
        self.assertEqual((counts[0]["decode"], counts[1]["decode"]), (7, 7))
        for made in ("not", "not/yet", "not/yet/kept"):
            self.assertEqual(os.stat(self.path(made)).st_mode & 0o77, 0)
        plan = run("plan", "-m", DEMO, "--ctx", "256", "--kv-dir", self.path("unmade"), "--prefix-memory", "8M", "--json")[0]
        self.assertIn(b"prefixes", plan)
        self.assertFalse(os.path.exists(self.path("unmade")))

    def test_a_hotlist_is_made_and_taken(self):
        text = self.path("text")
        with open(text, "w", encoding="utf-8") as out:
            out.write("Call me Ishmael. Some years ago, never mind how long precisely, " * 8)
        seen = self.profile("-f", text, "-n", "4")
        self.assertEqual((seen["hotlist"], seen["experts_all"], seen["stats"]["tokens_decode"]), (self.list, 256, 8))
        self.assertLessEqual(seen["experts"], 256)
        self.assertEqual(seen["coverage"][-1]["experts"], seen["experts"])
        self.assertAlmostEqual(seen["coverage"][-1]["share"], 1, 4)
        shares = [c["share"] for c in seen["coverage"]]
        self.assertEqual(shares, sorted(shares))
        self.assertGreater(shares[0], seen["coverage"][0]["experts"] / seen["experts"])  # the hottest are chosen more than others
        with open(self.list, encoding="utf-8") as source:
            lines = [line for line in source.read().splitlines() if line and not line.startswith("#")]
        self.assertEqual(lines[0].split()[0], "sluice-hotlist")
        self.assertEqual(len(lines) - 2, seen["experts"])
        words = ["run", "-m", DEMO, "-p", "It was", "-n", "8", "--greedy"]
        first = run(*words)[0]
        out, err = run(*words, "--hotlist", self.list)
        self.assertEqual(out, first)
        self.assertRegex(err.decode(), r"loaded beforehand: [1-9]\d* experts")
        self.assertRegex(run(*words, "--hotlist", self.list, "--warm-experts", "5")[1].decode(), r"loaded beforehand: 5 experts")
        out, err = run(*words, "--hotlist", self.list, "--experts", "64", "-v")
        self.assertEqual(out, first)
        self.assertRegex(err.decode(), r"warm +no +6[0-4] ")  # all of the warm-up, also what began as the engine was opened
        self.assertIn("room for", run(*words, "--pin", self.list, "--experts", "64", code=4)[1].decode())  # more than the cache holds
        with open(self.list, "w", encoding="utf-8") as out:
            out.write("\n".join(lines[:22]) + "\n")
        out, err = run(*words, "--pin", self.list, "--experts", "64", "-v")
        self.assertEqual(out, first)
        self.assertRegex(err.decode(), r"pins     ([1-9]|1\d|20) experts")

    def test_the_same_texts_give_the_same_list(self):
        self.profile("-n", "6")
        with open(self.list, "rb") as source:
            first = source.read()
        self.profile("-n", "6", "--threads", "1", "--experts", "64", "--prefetch", "off")
        with open(self.list, "rb") as source:
            self.assertEqual(source.read(), first)

    def test_lists_of_others_are_refused(self):
        run("pack", DEMO, self.path("other.gguf"), "-q")
        self.profile(model=self.path("other.gguf"))
        for words in (["--hotlist", self.list], ["--pin", self.list]):
            self.assertIn("another model", run("run", "-m", DEMO, "-p", "x", *words, code=2)[1].decode())
        self.assertIn("no-such", run("run", "-m", DEMO, "-p", "x", "--hotlist", self.path("no-such"), code=5)[1].decode())
        self.assertIn("no routed experts", run("profile", "-m", os.path.join(ARCH, "llama-dense.gguf"), "-p", "x", code=2)[1].decode())

    def test_the_usage_file(self):
        usage = self.path("usage")
        env = {"SLUICE_NO_USAGE": "0"}
        for words in (["run", "-p", "It was", "-n", "4"], ["bench", "-p", "4", "-n", "2", "-r", "1"]):
            run(*words, "-m", DEMO, "--usage", usage, env=env)
            self.assertTrue(os.path.exists(usage))
            os.remove(usage)
        copy = self.path("demo.gguf")
        with open(DEMO, "rb") as source, open(copy, "wb") as out:
            out.write(source.read())
        before = os.listdir(self.folder.name)
        run("bench", "-m", copy, "-p", "4", "-n", "2", "-r", "1", env=env)
        run("profile", "-m", copy, "-p", "x", "--out", self.list, env=env)
        run("run", "-m", copy, "-p", "It was", "-n", "2", "--no-usage", env=env)
        self.assertEqual(sorted(os.listdir(self.folder.name)), sorted(before + ["list"]))
        run("run", "-m", copy, "-p", "It was", "-n", "2", env=env)
        self.assertIn("demo.gguf.sluice-usage", os.listdir(self.folder.name))
        with open(usage, "wb") as out:
            out.write(b"nonsense")
        self.assertIn(usage, run("run", "-m", DEMO, "-p", "x", "--usage", usage, code=2, env=env)[1].decode())

    def test_options_change_no_text(self):
        words = ["run", "-m", DEMO, "-p", "It is a truth universally acknowledged, that", "-n", "16", "--greedy", "--experts", "64"]
        first = run(*words)[0]
        for more in (["--prefetch", "off"], ["--prefetch", "lookahead,transitions,next"], ["--route", "token"], ["--route", "selected"],
                     ["--route", "layers"], ["--lock", "all"], ["--lock", "dense", "--lock-margin", "100M"], ["--pin", "auto"], ["--cold"]):
            self.assertEqual(run(*words, *more)[0], first, more)
        for more, say in ([["--prefetch", "sometimes"], "sometimes"], [["--lock", "all", "--lock-margin", "much"], "--lock-margin"],
                          [["--simulate-used-memory", "lots"], "--simulate-used-memory"]):
            self.assertIn(say, run(*words, *more, code=2)[1].decode())
        dense = ["run", "-m", os.path.join(ARCH, "llama-dense.gguf"), "-p", "x", "-n", "1"]
        self.assertIn("no experts", run(*dense, "--lock", "experts", code=2)[1].decode())

    def test_simulated_use_of_memory(self):
        full = json.loads(run("plan", "-m", DEMO, "--json")[0])
        less = json.loads(run("plan", "-m", DEMO, "--simulate-used-memory", "1G", "--json")[0])
        self.assertLess(less["machine_limit_bytes"] + (900 << 20), full["machine_limit_bytes"])

    def test_sizes_of_the_cache(self):
        def slots(size):
            rows = json.loads(run("plan", "-m", DEMO, "--experts", size, "--json", "-q")[0])["rows"]
            return next(r["bytes"] for r in rows if r["name"] == "expert slots")

        one = slots("64") // 64
        self.assertGreaterEqual(one, 3 * 36864)  # gate, up and down, and the edges of aligned reads
        self.assertEqual(slots("65"), 65 * one)
        for size, meant in (("7MiB", 7 << 20), ("7MB", 7000000), ("7M", 7 << 20), ("7340000B", 7340000), ("40%", 0.4 * 256 * one)):
            self.assertLessEqual(abs(slots(size) - meant), one, size)
        self.assertIn("--experts", run("plan", "-m", DEMO, "--experts", "4", code=4)[1].decode())  # below the floor

    def test_plan_of_a_server(self):
        """The rows are those that serve prints when it is ready."""
        words = ["-m", DEMO, "--ctx", "256", "--sessions", "3", "--max-body", "2", "--prefix-memory", "8M", "--memory", "300M"]
        server = subprocess.Popen([PROGRAM, "serve", *words, "--port", "0"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=ENV)
        said = []
        for line in server.stderr:
            said.append(line)
            if "ready" in line:
                server.terminate()
        server.stderr.close()
        self.assertEqual(server.wait(), 0)
        rows = lambda lines: {x[:30].strip(): x[30:].strip() for x in lines if x.startswith("  ") and "iB" in x[30:] and ":" not in x}
        planned = run("plan", "--serve", *words)[0].decode().splitlines()
        measured = ("process and tokenizer", "expert slots", "all together")  # the first is a measurement, the others follow from it
        seen, will = rows(said), rows(planned)
        self.assertIn("prefixes", will)
        self.assertIn("3 requests at once, each with a context of its own", planned)
        self.assertEqual({k: v for k, v in seen.items() if k not in measured}, {k: v for k, v in will.items() if k not in measured})
        run_alone = json.loads(run("plan", "-m", DEMO, "--ctx", "256", "--memory", "300M", "--json")[0])
        serve = json.loads(run("plan", "--serve", *words, "--json")[0])
        self.assertEqual((run_alone["sessions"], serve["sessions"]), (1, 3))
        process = [next(r["bytes"] for r in x["rows"] if r["name"] == "process and tokenizer") for x in (run_alone, serve)]
        self.assertGreater(process[1], process[0] + (3 << 20))  # a second vocabulary, and what schemas need
        said = run("plan", "--serve", *words, "--threads", "256")[1].decode()
        self.assertLessEqual(said.count("256 threads on"), 1, said)
        for alone in (["--sessions", "3"], ["--max-body", "2"]):
            self.assertIn("--serve", run("plan", "-m", DEMO, *alone, code=2)[1].decode())
        run("plan", "-m", DEMO, env={"SLUICE_SESSIONS": "3", "SLUICE_MAX_BODY": "2"})

    def test_policies_by_name(self):
        # That each does what its name says is the business of engine.trace.
        for name in ("lru", "lfu", "hotness", "freq-age", "expected", "recall"):
            self.assertRegex(run("plan", "-m", DEMO, "--policy", name)[0].decode(), f"policy {name}\\b")
            self.assertRegex(run("plan", "-m", DEMO, env={"SLUICE_POLICY": name})[0].decode(), f"policy {name}\\b")
        self.assertRegex(run("plan", "-m", DEMO, "--policy", "auto")[0].decode(), r"policy recall\b")
        self.assertIn("fifo", run("plan", "-m", DEMO, "--policy", "fifo", code=2)[1].decode())

    def test_figures(self):
        out, err = run("run", "-m", DEMO, "-p", "It was the best of times, it was the worst", "-n", "40", "--greedy", "--experts", "64", "-v", "--lock", "dense")
        for line in ["prompts  route", "guesses  source", "locked   "]:
            self.assertIn(line, err.decode())
        seen = json.loads(run("bench", "-m", DEMO, "-p", "32", "-n", "40", "-r", "1", "--experts", "64", "--json", "-q")[0])["stats"]
        self.assertEqual(sum(r["tokens"] for r in seen["routes"]), 32)
        self.assertIn("lookahead", [p["name"] for p in seen["prefetch"]])
        self.assertGreater(len(seen["sizes"]), 2)


if __name__ == "__main__":
    unittest.main(verbosity=1)
