#!/usr/bin/env python3
"""The tests with the official clients, or 77 and a line that says what is missing for them.

Further arguments go to node: run.py --test-name-pattern=WORD"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "serve"))

from server_rig import with_template
from written import FAMILIES

FILES = ("openai.test.mjs", "responses.test.mjs", "anthropic.test.mjs", "curl.test.mjs", "families.test.mjs")


def skip(why):
    print("skipped: " + why)
    sys.exit(77)


def main(words):
    node = shutil.which("node") or shutil.which("nodejs")
    if not node:
        skip("node is not here (scripts/bootstrap page)")
    version = subprocess.run([node, "--version"], capture_output=True, text=True).stdout.strip()
    if int(version.lstrip("v").split(".")[0] or 0) < 18:
        skip(f"node is {version}, 18 or later is needed")
    if not shutil.which("curl"):
        skip("curl is not here (scripts/bootstrap page)")
    for package in ("openai", "@anthropic-ai/sdk", "zod"):
        if not os.path.isfile(os.path.join(HERE, "node_modules", package, "package.json")):
            skip(f"{package} of npm is not here (scripts/bootstrap page, or npm ci in tests/sdk)")
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(HERE, "tools.jinja"), encoding="utf-8") as template:
            model = with_template(template.read(), os.path.join(folder, "demo-tools.gguf"))
        families = os.path.join(folder, "families.json")
        with open(families, "w", encoding="utf-8") as file:
            json.dump({name: FAMILIES[name] for name in ("hermes", "harmony", "deepseek", "glm")}, file)
        env = {**os.environ, "SLUICE_TOOLS_MODEL": model, "SLUICE_FAMILIES": families}
        return subprocess.call([node, "--test", "--test-concurrency=2", *words, *(os.path.join(HERE, f) for f in FILES)], env=env)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
