#!/usr/bin/env python3
"""Links between our documents lead somewhere, and what the documents call by path exists."""
import os
import re
import sys

SOURCE = os.environ["SLUICE_SOURCE"]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
# `src/engine/step.c`, `scripts/demo`, ...: paths in code marks. Patterns and placeholders are not paths.
PATH = re.compile(r"`((?:src|include|scripts|tests|tools|models|docs|fuzz|man|bench)/[A-Za-z0-9_./-]+)`")


def documents():
    for where, folders, names in os.walk(SOURCE):
        folders[:] = sorted(f for f in folders if not f.startswith(("build", ".")))
        for name in sorted(names):
            if name.endswith(".md"):
                yield os.path.join(where, name)


def main():
    failures = n = 0
    for path in documents():
        shown = os.path.relpath(path, SOURCE)
        with open(path, encoding="utf-8") as document:
            text = document.read()
        for target in LINK.findall(text):
            if re.match(r"[a-z]+:|#", target):
                continue
            n += 1
            if not os.path.exists(os.path.join(os.path.dirname(path), target.split("#")[0])):
                failures += 1
                print(f"{shown}: link to {target}, which does not exist")
        # DESIGN.md also speaks of rooms that are to come.
        for target in [] if shown == "docs/DESIGN.md" else PATH.findall(text):
            n += 1
            bare = target.rstrip("/")
            if not os.path.exists(os.path.join(SOURCE, bare)):
                failures += 1
                print(f"{shown}: names {target}, which does not exist")
    print(f"{n - failures} of {n} lead somewhere")
    sys.exit(1 if failures or not n else 0)


main()
