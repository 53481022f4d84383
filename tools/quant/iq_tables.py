#!/usr/bin/env python3
"""Writes src/quant/iq_tables.c from ggml's header of format constants.

    iq_tables.py ggml-common.h > src/quant/iq_tables.c

The numbers are part of the formats; only their values are taken."""
import re
import sys

# name there, name here, C type, bytes a point
GRIDS = [("iq2xxs_grid", "quant_iq2xxs_grid", 8), ("iq2xs_grid", "quant_iq2xs_grid", 8),
         ("iq2s_grid", "quant_iq2s_grid", 8), ("iq3xxs_grid", "quant_iq3xxs_grid", 4),
         ("iq3s_grid", "quant_iq3s_grid", 4), ("iq1s_grid", "quant_iq1_grid", 8)]


def values(text, name):
    body = re.search(r"GGML_TABLE_BEGIN\(\w+, " + name + r", \w+\)(.*?)GGML_TABLE_END", text, re.S).group(1)
    return [int(v, 16) for v in re.findall(r"0x[0-9a-fA-F]+", body)]


def nibbles(point):
    """Eight values -1, 0, 1 as nibbles 0, 1, 2, the first one lowest."""
    return sum(((point >> 8 * i) + 1 & 0xff) << 4 * i for i in range(8))


def table(name, points, size):
    per_line = 5 if size == 8 else 10
    print(f"const uint{8 * size}_t {name}[{len(points)}] = {{")
    for i in range(0, len(points), per_line):
        print("    " + ", ".join(f"0x{p:0{2 * size}x}" for p in points[i:i + per_line]) + ",")
    print("};")


def main():
    text = open(sys.argv[1], encoding="utf-8").read()
    print("/* Grids of the IQ formats. Written by tools/quant/iq_tables.py; the values are those of ggml-common.h (ggml, MIT), which")
    print(" * defines the formats. What a point means is told in iq_tables.h. */")
    print('#include "quant/iq_tables.h"')
    for there, here, size in GRIDS:
        points = values(text, there)
        if here == "quant_iq1_grid":
            points, size = [nibbles(p) for p in points], 4
        print()
        table(here, points, size)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main()
