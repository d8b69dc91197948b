#!/usr/bin/env python3
"""Measures README's first command with nothing built: the seconds until the program begins.

    bench/build.py                  # seconds and CPU seconds
    bench/build.py --crates         # a second build, too, for the CPU seconds of each crate
    bench/build.py -- --features sweep,fleet       # with cargo's options

Sources of dependencies are fetched before. The second build runs each compiler through this script, which costs some seconds of its own. The CPU
seconds of a crate are those of all its compilations, with code generation and linking, by the kernel's accounting (getrusage).
"""

import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOG = "IOTOLL_BUILD_LOG"


def compile_crate(command):
    """Runs a compiler for cargo, and writes down what it cost."""
    child = os.posix_spawnp(command[0], command, os.environ)
    _, status, usage = os.wait4(child, 0)
    with open(os.environ[LOG], "a") as log:
        log.write(f"{os.environ.get('CARGO_PKG_NAME', 'questions of cargo')}\t{usage.ru_utime + usage.ru_stime:.3f}\n")
    return os.waitstatus_to_exitcode(status)


def names_of_ours():
    """Names of the workspace's packages."""
    command = ["cargo", "metadata", "--locked", "--no-deps", "--format-version", "1"]
    packages = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)["packages"]
    return {package["name"] for package in packages}


def build(options, folder, environment):
    """Builds and begins the program in a new folder; returns wall and CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    command = ["cargo", "run", "--release", "--locked", *options, "--", "--version"]
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "CARGO_TARGET_DIR": f"{folder}/target", **environment})
    seconds = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def crates(options):
    """CPU seconds of each crate."""
    with tempfile.TemporaryDirectory(prefix="iotoll-build-") as folder:
        log = pathlib.Path(folder, "log")
        build(options, folder, {"RUSTC_WRAPPER": __file__, LOG: str(log)})
        costs = {}
        for line in log.read_text().splitlines():
            name, cpu_seconds = line.split("\t")
            costs[name] = costs.get(name, 0) + float(cpu_seconds)
        return costs


def show_crates(costs):
    own = names_of_ours()
    of_ours = sum(cost for name, cost in costs.items() if name in own)
    print(f"compilers: {of_ours:.0f} CPU s for our crates, {sum(costs.values()) - of_ours:.0f} for those of others\n\nCPU s  crate")
    for name, cost in sorted(costs.items(), key=lambda item: -item[1]):
        if cost >= 1:
            print(f"{cost:5.1f}  {name}{'' if name in own else ' (of others)'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--crates", action="store_true", help="build again, for the CPU seconds of each crate")
    parser.add_argument("options", nargs="*", help="options of cargo, after --")
    arguments = parser.parse_args()
    subprocess.run(["cargo", "fetch", "--locked", "--quiet"], cwd=ROOT, check=True)
    with tempfile.TemporaryDirectory(prefix="iotoll-build-") as folder:
        seconds, cpu_seconds = build(arguments.options, folder, {})
        program_bytes = pathlib.Path(folder, "target/release/iotoll").stat().st_size
    print(f"{seconds:.0f} s on {os.cpu_count()} CPUs, {cpu_seconds:.0f} CPU s; program {program_bytes / 1e6:.1f} MB")
    if arguments.crates:
        show_crates(crates(arguments.options))


if __name__ == "__main__":
    # As cargo calls a wrapper of the compiler.
    if LOG in os.environ:
        sys.exit(compile_crate(sys.argv[1:]))
    main()
