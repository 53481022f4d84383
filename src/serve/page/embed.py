#!/usr/bin/env python3
"""Writes the page's files as a C table: embed.py OUT.c FILE..."""
import hashlib
import os
import sys

TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


def main(out_path, paths):
    arrays, rows = [], []
    for i, path in enumerate(sorted(paths, key=os.path.basename)):
        with open(path, "rb") as source:
            data = source.read()
        name = os.path.basename(path)
        lines = (",".join(map(str, data[at:at + 40])) for at in range(0, len(data), 40))
        arrays.append(f"static const unsigned char file_{i}[] = {{ /* {name} */\n" + ",\n".join(lines) + "};\n")
        address = "/" if name == "index.html" else "/page/" + name
        rows.append(f'    {{"{address}", "{TYPES[os.path.splitext(name)[1]]}", '
                    f'"\\"{hashlib.sha256(data).hexdigest()[:24]}\\"", file_{i}, sizeof file_{i}}},\n')
    with open(out_path, "w", encoding="utf-8") as out:
        out.write('/* Made by src/serve/page/embed.py. */\n#include "serve/page.h"\n\n' + "\n".join(arrays) +
                  "\nconst struct page_file page_files[] = {\n" + "".join(rows) + "};\n"
                  "const size_t page_n_files = sizeof page_files / sizeof *page_files;\n")


main(sys.argv[1], sys.argv[2:])
