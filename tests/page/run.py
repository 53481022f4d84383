#!/usr/bin/env python3
"""run.py unit|browser: the page's tests, or 77 and a line that says what is missing for them."""
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def skip(why):
    print("skipped: " + why)
    sys.exit(77)


def main(what):
    node = shutil.which("node") or shutil.which("nodejs")
    if not node:
        skip("node is not here (scripts/bootstrap page)")
    version = subprocess.run([node, "--version"], capture_output=True, text=True).stdout.strip()
    if int(version.lstrip("v").split(".")[0] or 0) < 18:
        skip(f"node is {version}, 18 or later is needed")
    if what == "unit":
        sys.exit(subprocess.call([node, "--test"] + [os.path.join(HERE, f) for f in ("markdown.test.mjs", "modules.test.mjs")]))
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not chromium:
        skip("Chromium is not here (scripts/bootstrap page, or CHROMIUM=PATH)")
    if not os.path.isdir(os.path.join(HERE, "node_modules", "playwright-core")):
        skip("playwright-core is not here (scripts/bootstrap page, or npm ci in tests/page)")
    sys.exit(subprocess.call([node, os.path.join(HERE, "browser.mjs")] + sys.argv[2:], env={**os.environ, "CHROMIUM": chromium}))


main(sys.argv[1])
