#!/usr/bin/env python3
"""Measures `iotoll inspect`: against `lspci -vvv` on this host, and how it grows with the host.

    bench/inspect_speed.py [ROUNDS]

Both programs run in turn, ROUNDS times each (default 30), so that a noisy machine disturbs them alike;
the ratio of the medians is what counts. Instructions are those of user space, by valgrind's callgrind,
if it is installed. Then made-up hosts of 100 to 10,000 adapters are written to a temporary folder and
inspected. Everything is printed as Markdown with the machine it ran on. The program is built with the profile `dist`,
as for an installation, which takes minutes.
"""

import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IOTOLL = ROOT / "target/dist/iotoll"
BIG_HOST = ROOT / "target/release/examples/big_host"
SIZES = [100, 1000, 10000]


def build():
    cargo = ["cargo", "build", "--quiet", "--locked"]
    subprocess.run([*cargo, "--profile", "dist", "-p", "iotoll"], cwd=ROOT, check=True)
    subprocess.run([*cargo, "--release", "-p", "iotoll-host", "--example", "big_host"], cwd=ROOT, check=True)


def wall_seconds(command):
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def peak_kib(command):
    """Seconds and peak resident memory of one run."""
    start = time.perf_counter()
    pid = os.posix_spawn(
        command[0],
        command,
        os.environ,
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)],
    )
    _, status, usage = os.wait4(pid, 0)
    if os.waitstatus_to_exitcode(status) > 1:
        sys.exit(f"{command} failed")
    return time.perf_counter() - start, usage.ru_maxrss


def instructions(command):
    if not shutil.which("valgrind"):
        return None
    with tempfile.NamedTemporaryFile() as out:
        run = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out.name}", *command],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        found = re.search(r"Collected : (\d+)", run.stderr)
        return int(found.group(1)) if found else None


def beside_lspci(rounds):
    ours = [str(IOTOLL), "inspect"]
    lspci = ["lspci", "-vvv"]
    times = {"iotoll inspect": [], "lspci -vvv": []}
    for command in (ours, lspci):
        wall_seconds(command)
    for _ in range(rounds):
        times["iotoll inspect"].append(wall_seconds(ours))
        times["lspci -vvv"].append(wall_seconds(lspci))
    medians = {name: statistics.median(values) for name, values in times.items()}
    print(f"\n| program | median of {rounds}, ms | fastest, ms | instructions (user) |\n|---|---|---|---|")
    counts = {"iotoll inspect": instructions(ours), "lspci -vvv": instructions(lspci)}
    for name, values in times.items():
        count = f"{counts[name]:,}" if counts[name] else "valgrind not installed"
        print(f"| {name} | {medians[name] * 1e3:.1f} | {min(values) * 1e3:.1f} | {count} |")
    ratio = medians["iotoll inspect"] / medians["lspci -vvv"]
    print(f"\nWall, iotoll / lspci: {ratio:.2f}")
    if all(counts.values()):
        print(f"Instructions, iotoll / lspci: {counts['iotoll inspect'] / counts['lspci -vvv']:.2f}")


def growth():
    print("\n| adapters | seconds | peak memory, MiB | microseconds per adapter |\n|---|---|---|---|")
    for size in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([str(BIG_HOST), str(size), folder], check=True)
            runs = [peak_kib([str(IOTOLL), "inspect", "--json", "--from", folder]) for _ in range(3)]
            seconds = min(run[0] for run in runs)
            memory = max(run[1] for run in runs) / 1024
            print(f"| {size} | {seconds:.3f} | {memory:.0f} | {seconds / size * 1e6:.0f} |")


def machine():
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    functions = len(os.listdir("/sys/bus/pci/devices")) if Path("/sys/bus/pci/devices").exists() else 0
    print(f"{cpu.group(1) if cpu else platform.machine()}, {os.cpu_count()} CPUs, Linux {platform.release()}, ", end="")
    print(f"{functions} PCI functions, {'root' if os.geteuid() == 0 else 'no root'}")


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    build()
    machine()
    beside_lspci(rounds)
    growth()


if __name__ == "__main__":
    main()
