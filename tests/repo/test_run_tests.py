#!/usr/bin/env python3
"""scripts/run-tests must count what Meson's log says, refuse an empty run, and never repeat an earlier count."""
import json
import os
import subprocess
import sys
import tempfile

RUN_TESTS = os.path.join(os.environ["SLUICE_SOURCE"], "scripts", "run-tests")

# (results in Meson's log, or None for no log; Meson's exit code; expected last line; expected exit code)
CASES = [
    (["OK", "OK"], 0, "2 passed, 0 failed", 0),
    (["OK", "SKIP", "EXPECTEDFAIL"], 0, "2 passed, 0 failed, 1 skipped", 0),
    (["OK", "FAIL", "TIMEOUT", "ERROR"], 3, "1 passed, 3 failed", 1),
    (["UNEXPECTEDPASS"], 1, "0 passed, 1 failed", 1),
    (["SKIP"], 0, "0 passed, 0 failed, 1 skipped", 1),
    ([], 0, "0 passed, 0 failed", 1),
    (None, 1, "0 passed, 1 failed", 1),
]


def run(results, code):
    with tempfile.TemporaryDirectory() as directory:
        logs = os.path.join(directory, "build", "meson-logs")
        os.makedirs(logs)
        log = os.path.join(logs, "testlog.json")
        with open(log, "w", encoding="utf-8") as out:
            out.write(json.dumps({"name": "earlier", "result": "OK"}) + "\n")
        lines = "" if results is None else "".join(json.dumps({"name": "t", "result": r}) + "\n" for r in results)
        write = "" if results is None else f"open({log!r}, 'w').write({lines!r})"
        fake = os.path.join(directory, "meson")
        with open(fake, "w", encoding="utf-8") as out:
            out.write(f"#!{sys.executable}\nimport sys\n{write}\nsys.exit({code})\n")
        os.chmod(fake, 0o755)
        env = {**os.environ, "PATH": directory + os.pathsep + os.environ["PATH"]}
        return subprocess.run([sys.executable, RUN_TESTS, os.path.join(directory, "build")], env=env, text=True,
                              capture_output=True, check=False)


def main():
    failures = 0
    for results, code, line, exit_code in CASES:
        ran = run(results, code)
        last = ran.stdout.splitlines()[-1] if ran.stdout else ""
        if last != line or ran.returncode != exit_code:
            failures += 1
            print(f"{results}: expected '{line}' and {exit_code}, got '{last}' and {ran.returncode}\n{ran.stderr}")
    print(f"{len(CASES) - failures} of {len(CASES)} as expected")
    sys.exit(1 if failures else 0)


main()
