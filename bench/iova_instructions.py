#!/usr/bin/env python3
"""Counts the instructions of an allocation and a free of one page, for each allocator of I/O addresses.

    bench/iova_instructions.py [NAME=LIB.so ...]

Libraries join as in `iotoll bench iova --peer`. One thread allocates and frees N times, then 2 N times, under
valgrind's callgrind; the difference, divided by N, is a pair's, the call through the table of functions among it.
Printed as Markdown. Needs valgrind.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
PAIRS = TARGET / "release/examples/pairs"
N = 100_000
# Valgrind has no restartable sequences: the program pretends.
COUNTED = {name: f"{name}-counted" for name in ["percpu", "percpu-audited", "percpu-checked"]}


def names():
    """Those of ours, which the program prints when it is not told any."""
    return subprocess.run([PAIRS], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.split()


def instructions(name, count):
    with tempfile.NamedTemporaryFile() as out:
        valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out.name}"]
        run = subprocess.run([*valgrind, PAIRS, name, str(count)], capture_output=True, text=True)
    found = re.search(r"Collected : (\d+)", run.stderr)
    if run.returncode or not found:
        sys.exit(f"{name}: {run.stderr.strip().splitlines()[-1]}")
    return int(found.group(1))


def main():
    if not shutil.which("valgrind"):
        sys.exit("valgrind is not installed (Debian's package valgrind)")
    build = ["cargo", "build", "--release", "--quiet", "--locked", "-p", "iotoll-bench", "--example", "pairs"]
    subprocess.run(build, cwd=ROOT, check=True)
    print(f"| allocator | instructions per pair, of {N:,} |\n|---|---|")
    for name in [*names(), *sys.argv[1:]]:
        counted = COUNTED.get(name, name)
        pair = (instructions(counted, 2 * N) - instructions(counted, N)) / N
        print(f"| {name.split('=')[0]} | {pair:.2f} |")


if __name__ == "__main__":
    main()
