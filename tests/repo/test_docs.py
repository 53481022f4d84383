#!/usr/bin/env python3
"""Links between our documents lead somewhere; what they call by path, and what the tour calls by name, exists."""
import os
import re
import sys

SOURCE = os.environ["SLUICE_SOURCE"]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
# `src/engine/step.c`, `scripts/demo`, ...: paths in code marks. Patterns and placeholders are not paths.
PATH = re.compile(r"`((?:src|include|scripts|tests|tools|models|docs|fuzz|man|bench)/[A-Za-z0-9_./-]+)`")

# `expert_want`, `sluice_eval`: identifiers in code marks, in the documents that walk through the code.
NAME = re.compile(r"`([a-z][a-z0-9]*(?:_[a-z0-9]+)+)`")
WALKS = {"docs/TOUR.md"}


def code():
    """All words of our sources."""
    words = set()
    for folder in ("src", "include"):
        for where, _, names in os.walk(os.path.join(SOURCE, folder)):
            for name in names:
                if name.endswith((".c", ".h")):
                    with open(os.path.join(where, name), encoding="utf-8") as source:
                        words.update(re.findall(r"\w+", source.read()))
    return words


def documents():
    for where, folders, names in os.walk(SOURCE):
        folders[:] = sorted(f for f in folders if not f.startswith(("build", ".", "node_modules")))
        for name in sorted(names):
            if name.endswith(".md"):
                yield os.path.join(where, name)


def main():
    failures = n = 0
    words = code()
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
            if "ROOM" in target or "NAME" in target:
                continue
            n += 1
            bare = target.rstrip("/")
            if not os.path.exists(os.path.join(SOURCE, bare)):
                failures += 1
                print(f"{shown}: names {target}, which does not exist")
        for name in NAME.findall(text) if shown in WALKS else []:
            n += 1
            if name not in words:
                failures += 1
                print(f"{shown}: names {name}, which is in no source")
    print(f"{n - failures} of {n} lead somewhere")
    sys.exit(1 if failures or not n else 0)


main()
