#!/usr/bin/env python3
"""Plants one violation at a time in a small tree and expects scripts/check-includes to find it, and nothing else."""
import os
import subprocess
import sys
import tempfile

SOURCE = os.environ["SLUICE_SOURCE"]
CHECKER = os.path.join(SOURCE, "scripts", "check-includes")

CLEAN = {
    "include/sluice_status.h": "enum sluice_status { SLUICE_OK };\n",
    "include/sluice.h": '#include "sluice_status.h"\n',
    "src/base/error.h": '#include "sluice_status.h"\n',
    "src/os/os.h": "#include <stddef.h>\nextern size_t os_page;\n",
    "src/os/linux/memory.c": '#include "os/os.h"\n\n#include <sys/mman.h>\n',
    "src/io/io.h": '#include "base/error.h"\n#include "os/os.h"\n',
    "src/expert/cache.h": '#include "io/io.h"\n',
    "src/kernel/x86/avx2.c": "#include <immintrin.h>\n",
    "src/model/arch.c": '#include "expert/cache.h"\n\n/* exp(x) and getenv() in a comment are no calls */\n'
                        'static const char *text = "printf(exit(";\n',
    "src/engine/step.c": '#include "sluice.h"\n#include "expert/cache.h"\n',
    "src/cli/main.c": '#include "sluice.h"\n\n#include <stdio.h>\n#include <unistd.h>\n',
    "src/cli/doctor.c": '#include "io/io.h"\n',
    "tests/io/test_io.c": '#include "io/io.h"\n',
}

# What is planted: path, text, a piece of the message.
PLANTED = [
    ("src/io/bad.c", '#include "expert/cache.h"\n', "room io may not include expert/cache.h"),
    ("src/base/bad.c", '#include "os/os.h"\n', "room base may not include os/os.h"),
    ("src/expert/bad.c", '#include "sluice.h"\n', "may not include the public sluice.h"),
    ("src/cli/run.c", '#include "expert/cache.h"\n', "room cli may not include expert/cache.h"),
    ("src/io/bad.c", '#include "io.h"\n', 'not written as "room/file.h"'),
    ("src/io/bad.c", '#include "../os/os.h"\n', 'not written as "room/file.h"'),
    ("src/io/bad.c", '#include "os/absent.h"\n', "os/absent.h does not exist"),
    ("src/attic/bad.c", "int a;\n", "src/attic is no room"),
    ("src/io/bad.c", "#include <liburing.h>\n", "<liburing.h> belongs in src/os alone"),
    ("src/expert/bad.c", "#include <sys/mman.h>\n", "<sys/mman.h> belongs in src/os alone"),
    ("src/cli/bad.c", "#include <sys/mman.h>\n", "<sys/mman.h> belongs in src/os alone"),
    ("src/model/bad.c", "#include <unistd.h>\n", "<unistd.h> belongs in src/os"),
    ("src/model/bad.c", "#include <immintrin.h>\n", "belongs in src/kernel/x86"),
    ("src/model/bad.c", "float f(float x) { return expf(x); }\n", "expf comes from base/math"),
    ("src/engine/bad.c", 'void f(void) { printf("x"); }\n', "the library never uses printf"),
    ("src/engine/bad.c", 'void f(void) { getenv("x"); }\n', "the library never uses getenv"),
    ("src/engine/bad.c", "void f(void) { exit(1); }\n", "the library never uses exit"),
    ("src/io/alone.h", "size_t bytes(void);\n", "does not compile alone"),
    ("src/io/twice.h", "struct twice { int a; };\n", "does not compile alone"),
    ("src/io/long.c", "int a;\n" * 801, "has 801 lines"),
    ("tests/io/test_bad.c", '#include "../../src/io/io.c"\n', "tests never include a .c file"),
]


def check(files):
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            full = os.path.join(root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            if path.endswith(".h") and "twice" not in path:
                text = f"#ifndef G_{abs(hash(path))}\n#define G_{abs(hash(path))}\n{text}#endif\n"
            with open(full, "w", encoding="utf-8") as out:
                out.write(text)
        run = subprocess.run([sys.executable, CHECKER, "--root", root], capture_output=True, text=True, check=False)
        return run.returncode, run.stdout.splitlines()


def main():
    failures = 0
    code, lines = check(CLEAN)
    if code != 0 or lines:
        failures += 1
        print("clean tree:", code, *lines, sep="\n  ")
    for path, text, expected in PLANTED:
        code, lines = check({**CLEAN, path: text})
        good = code == 1 and len(lines) == 1 and lines[0].startswith(path + ":") and expected in lines[0]
        if not good:
            failures += 1
            print(f"planted in {path}: expected one line with '{expected}', got {code}:", *lines, sep="\n  ")
    for path, text in (("src/io/big_tables.c", "int a;\n" * 900), ("src/gguf/write.c", "#include <unistd.h>\n")):
        code, lines = check({**CLEAN, path: text})
        if code != 0:
            failures += 1
            print(f"{path} is an exception, got:", *lines, sep="\n  ")
    print(f"{len(PLANTED) + 3 - failures} of {len(PLANTED) + 3} as expected")
    sys.exit(1 if failures else 0)


main()
