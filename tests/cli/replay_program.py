#!/usr/bin/env python3
"""sluice replay and --trace with the real program, on synthetic routings and on a trace of the demo model."""
import json
import os
import shlex
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

SLUICE, SOURCE = os.environ["SLUICE_BIN"], os.environ["SLUICE_SOURCE"]


# Nothing is written beside the model of the repository.
ENV = {**os.environ, "SLUICE_NO_USAGE": "1"}


def sluice(*words):
    return subprocess.run([SLUICE, *words], capture_output=True, text=True, check=False, env=ENV)


def check(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def check_plots(folder):
    """The pictures of docs/CACHE.md are what the commands beside them draw, to the byte."""
    traces = os.path.join(os.environ.get("SLUICE_SHARED", ""), "traces")
    with open(os.path.join(SOURCE, "docs/CACHE.md"), encoding="utf-8") as page:
        commands = [shlex.split(line) for line in page if line.startswith(("    sluice replay ", "    sluice run ")) and (".svg" in line or ".trace" in line)]
    check(len(commands) == 3, f"the page's commands: {commands}")
    for words in commands:
        if "qwen.csv" in words and not os.path.isdir(traces):
            continue
        words = [os.path.join(traces, w) if w.endswith(".csv") else w for w in words]
        done = subprocess.run([SLUICE, *words[1:]], capture_output=True, check=False, cwd=folder, env={**ENV, "SLUICE_MODEL": os.path.join(SOURCE, "models/demo.gguf")})
        check(done.returncode == 0, f"{words}: {done.stderr}")
        if words[-1].endswith(".svg"):
            with open(os.path.join(folder, words[-1]), "rb") as drawn, open(os.path.join(SOURCE, "docs/plots", words[-1]), "rb") as kept:
                check(drawn.read() == kept.read(), f"docs/plots/{words[-1]} is what is drawn now")


def main():
    with tempfile.TemporaryDirectory() as folder:
        csv, plot = os.path.join(folder, "a.csv"), os.path.join(folder, "a.svg")
        with open(csv, "w", encoding="utf-8") as out:
            subprocess.run([sys.executable, os.path.join(SOURCE, "tools/traces/synth"), "--like", "gptoss", "--layers", "3",
                            "--decode", "60"], stdout=out, check=True)
        run = sluice("replay", csv, "--json", "--policy", "lru,auto", "--sizes", "2K,10,1000", "--disk", "1000", "--plot", plot)
        rows = json.loads(run.stdout)
        check(run.returncode == 0 and len(rows) == 9, f"three rows of three sizes: {run.stderr}")
        for row in rows:
            check(row["trace"] == csv and row["hits"] + row["misses"] == 60 * 3 * 2, f"all of decode is counted: {row}")
            check(abs(row["hit_rate"] - row["hits"] / 360) < 1e-6, "the rate is that of the counts")
            check(row["default"] == (row["policy"] == "recall"), "the default is marked")
            bytes_per_token = row["misses"] * 3000000 / 60
            check(abs(row["read_bytes_per_token"] - bytes_per_token) < 1, "misses are bytes")
            check(abs(row["tokens_per_second"] * bytes_per_token - 1e9) < 1e4, "the disk's speed divides by them")
        check([r["slots_per_layer"] for r in rows[:3]] == [4, 10, 1000], "2K is twice the experts used")
        check({r["policy"] for r in rows} == {"lru", "recall", "belady"}, "what was asked for, and the limit")
        svg = xml.etree.ElementTree.parse(plot).getroot()
        curves = svg.findall("{*}polyline")
        check(len(curves) == 3 and len({c.get("stroke") for c in curves}) == 3, "three curves of three colours")
        check(all(len(c.get("points").split()) == 3 for c in curves), "a point a size")
        check(svg.find("{*}rect").get("fill") == "#ffffff", "a background of its own, for dark pages")
        # Two traces are two panels; one size and names that XML would take for its own are no trouble.
        odd = os.path.join(folder, "b<&>.csv")
        with open(csv, encoding="utf-8") as whole, open(odd, "w", encoding="utf-8") as nameless:
            nameless.writelines(line for line in whole if "model=" not in line)
        run = sluice("replay", csv, odd, "--policy", "all", "--sizes", "2K", "--plot", plot)
        drawn = open(plot, encoding="utf-8").read()
        check(run.returncode == 0 and "nan" not in drawn and "inf" not in drawn, f"one size: {run.stderr}")
        svg = xml.etree.ElementTree.fromstring(drawn)
        words = [t.text for t in svg.findall("{*}text")]
        check(len(svg.findall("{*}polyline")) == 2 * 7 and "b<&>.csv" in words and "synthetic:gptoss:1" in words, f"two panels: {words}")
        text = sluice("replay", csv, "--sizes", "2K")
        check("tokens/s" not in text.stdout and "--disk" in text.stderr, "no speed without --disk, and a word about it")
        check("selections a second" in sluice("replay", csv, "--sizes", "2K", "-v").stderr, "--verbose tells the speed")
        # A file in place of a number: its disk is measured.
        big = os.path.join(folder, "big")
        with open(big, "wb") as out:
            out.write(os.urandom(16 << 20))
        run = sluice("replay", csv, "--json", "--sizes", "2K", "--policy", "lru", "--disk", big)
        rows = json.loads(run.stdout)
        check(rows[0]["tokens_per_second"] > 0 and f"the disk of {big} reads " in run.stderr, f"a measured disk: {run.stderr}")
        for words, code in ((["--disk", csv], 2), (["--disk", os.path.join(folder, "none")], 5), (["--disk", "0"], 2), (["--disk", "2000000"], 2)):
            check(sluice("replay", csv, *words).returncode == code, f"{words} is refused with {code}")
        # Where the picture goes is known before the work begins: that the trace is missing comes second.
        for words, say in ((["--plot", folder], "is a directory"), (["--plot", csv], "what is to be read")):
            run = sluice("replay", csv, os.path.join(folder, "none"), *words)
            check(run.returncode == 2 and say in run.stderr, f"{words}: {run.stderr}")
        for words in (["--sizes", "2X"], ["--policy", "fifo"], ["--sizes", "1"]):
            check(sluice("replay", csv, *words).returncode == 2, f"{words} is refused")
        check(sluice("replay", __file__).returncode == 3, "a file that is no trace is refused")

        model, trace = os.path.join(SOURCE, "models/demo.gguf"), os.path.join(folder, "b.trace")
        if os.path.exists(model):
            words = ["run", "-m", model, "-p", "Call me", "-n", "20", "--greedy"]
            plain, traced = sluice(*words), sluice(*words, "--trace", trace)
            check(plain.returncode == 0 and plain.stdout == traced.stdout, "a trace changes no answer")
            rows = json.loads(sluice("replay", trace, "--json", "--policy", "recall").stdout)
            check(rows[0]["tokens"] == 19, f"a step for each token but the last: {rows[0]}")
        if os.path.exists(model) and "SLUICE_TEST_COMPACT" not in os.environ:
            check_plots(folder)
    print("ok")


main()
