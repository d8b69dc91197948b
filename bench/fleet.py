#!/usr/bin/env python3
"""Makes captures of many hosts, inspects them with `iotoll fleet`, and asks DuckDB about them.

    bench/fleet.py [--hosts N] [--program iotoll] [--trees FOLDER] [--keep FOLDER]
    bench/fleet.py --report-mb 50       # instead: one report of sos of 50 MB, most of it logs that no inspection reads

Needs `pip install duckdb`, and a program with the feature `fleet`. Half of the hosts are the captured kernels of crates/host/tests/captures, half are what people posted of
real machines (crates/host/tests/field) and the folders in FOLDER. Each has a name of its own and, in every third, other memory or another command line. One host in a thousand
is planted: named as the others of its machine, with the files of another kernel. Prints seconds and the largest memory of each step, and whether the page names the planted ones.
"""

import argparse
import io
import json
import os
import re
import resource
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from random import Random

ROOT = Path(__file__).resolve().parent.parent
CAPTURES = ROOT / "crates/host/tests/captures"
POSTED = ROOT / "crates/host/tests/field"
# Two kernels of one machine: the second is the odd one.
USUAL, ODD = "x86-no-iommu", "x86-vtd-lazy"
ODD_SHARE = 1000

QUERIES = {
    "adapters by path": "SELECT dma_path, count(*) FROM '{}/adapters/*.parquet' GROUP BY ALL ORDER BY 2 DESC",
    "hosts by finding": "SELECT id, severity, count(DISTINCT capture) FROM '{}/findings/*.parquet' GROUP BY ALL ORDER BY 3 DESC",
    "kernels of adapters that bounce": "SELECT kernel_release, count(*) FROM '{0}/hosts/*.parquet' JOIN '{0}/adapters/*.parquet' "
    "USING (capture, rules) WHERE dma_path = 'bounce' GROUP BY ALL",
    "commands to run": "SELECT command, count(*) FROM (SELECT unnest(commands) command FROM '{}/findings/*.parquet') GROUP BY ALL ORDER BY 2 DESC",
}


def members(path):
    """Files and links of a capture, by name."""
    if path.is_dir():
        files = [file for file in sorted(path.rglob("*")) if file.is_file()]
        return [(tarfile.TarInfo(str(file.relative_to(path))), file.read_bytes()) for file in files]
    with tarfile.open(path) as archive:
        return [(entry, archive.extractfile(entry).read() if entry.isfile() else b"") for entry in archive]


def posted(path):
    """Files and links of a case: each after a line `-- NAME --`, `-- NAME (hex) --` or `-- NAME -> TARGET --`."""
    _, *rest = re.split(r"(?m)^-- (.+) --\n", path.read_text())
    return [member(title, text) for title, text in zip(rest[::2], rest[1::2])]


def member(title, text):
    name, _, target = title.partition(" -> ")
    entry, data = tarfile.TarInfo(name.removesuffix(" (hex)")), text.encode()
    if target:
        entry.type, entry.linkname, data = tarfile.SYMTYPE, target, b""
    return entry, bytes.fromhex(text) if name.endswith(" (hex)") else data


def changed(name, data, number):
    """What a file of a host has, in every third host something else."""
    if number % 3 == 1 and name.endswith("proc/cmdline"):
        return data.rstrip() + f" host={number}\n".encode()
    if number % 3 == 2 and name.endswith("proc/meminfo"):
        return data.replace(b"MemTotal: ", b"MemTotal: 1")
    return data


def write_host(path, base, name, number):
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for entry, data in [*base, (tarfile.TarInfo("etc/hostname"), f"{name}\n".encode())]:
            data = changed(entry.name, data, number)
            entry.size = len(data) if entry.isfile() else 0
            archive.addfile(entry, io.BytesIO(data) if entry.isfile() else None)


def log(random, lines):
    """Lines such as a host's journal has; xz makes a tenth of them."""
    line = "Nov 24 {:02}:{:02}:{:02} node systemd[{}]: Started Session {} of user u{}, invocation {:04x}.\n"
    row = lambda one: line.format(one // 3600 % 24, one // 60 % 60, one % 60, random.randrange(8), one, random.randrange(4), random.randrange(1 << 16))
    return "".join(map(row, range(lines))).encode()


def write_report(path, size):
    """A report of sos with a host's files and logs, of at least so many bytes; returns the bytes of its members."""
    random, unpacked = Random(1), 0
    with path.open("wb") as file, tarfile.open(fileobj=file, mode="w:xz", preset=1) as archive:
        for entry, data in members(CAPTURES / f"{ODD}.tar.gz"):
            entry.name = f"sosreport-node-1/{entry.name}"
            archive.addfile(entry, io.BytesIO(data) if entry.isfile() else None)
            unpacked += len(data)
        for number in range(1 << 20):
            if file.tell() >= size:
                return unpacked
            entry, data = tarfile.TarInfo(f"sosreport-node-1/var/log/journal-{number}"), log(random, 1 << 18)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
            unpacked += len(data)


def inspect_report(program, size):
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "sosreport-node-1.tar.xz"
        unpacked = write_report(report, size)
        print(f"a report of {report.stat().st_size / 1e6:.0f} MB, {unpacked / 1e6:.0f} MB unpacked")
        for number in range(3):
            seconds, memory, printed = run([program, "fleet", str(report), "--out", f"{folder}/tables{number}"])
            print(f"iotoll fleet: {seconds:.2f} s, {memory} MiB; {printed.splitlines()[0]}")


def make(folder, hosts, trees):
    captured = {path.name.removesuffix(".tar.gz"): members(path) for path in sorted(CAPTURES.glob("*.tar.gz"))}
    cases = [posted(path) for path in sorted(POSTED.glob("*.txtar"))]
    cases += [members(path) for path in sorted(trees.iterdir()) if path.is_dir()] if trees else []
    usual, planted = [name for name in captured if name != ODD], []
    for number in range(hosts):
        copy, is_posted = divmod(number, 2)
        if is_posted:
            base = cases[copy % len(cases)]
        else:
            name = usual[copy % len(usual)]
            # Of its machine, one in 125.
            if name == USUAL and copy // len(usual) % (ODD_SHARE // 2 // len(usual)) == 1:
                planted.append(f"host{number:05}")
                name = ODD
            base = captured[name]
        rack = folder / f"rack{number // 100:03}"
        rack.mkdir(exist_ok=True)
        write_host(rack / f"host{number:05}.tar.gz", base, f"host{number:05}", number)
    return planted


def run(command, **environment):
    """Seconds, largest memory in MiB, and what it printed."""
    began = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment})
    printed = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        sys.exit(f"{' '.join(command)}: exit status {os.waitstatus_to_exitcode(status)}")
    return time.monotonic() - began, usage.ru_maxrss // 1024, printed


def ask(out):
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET threads = 2")
    for what, query in QUERIES.items():
        began = time.monotonic()
        rows = connection.execute(query.format(out)).fetchall()
        print(f"  {what}: {time.monotonic() - began:.3f} s, {len(rows)} rows, first {rows[:1]}")
    print(f"  largest memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--program", default=str(ROOT / "target/release/iotoll"))
    parser.add_argument("--trees", type=Path)
    parser.add_argument("--keep", type=Path, help="folder for captures and tables, which must be empty")
    parser.add_argument("--report-mb", type=float, help="inspect one report of so many MB instead")
    arguments = parser.parse_args()
    if arguments.report_mb:
        return inspect_report(arguments.program, arguments.report_mb * 1e6)
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        captures = folder / "captures"
        captures.mkdir(parents=True)
        planted = make(captures, arguments.hosts, arguments.trees)
        size = sum(file.stat().st_size for file in captures.rglob("*.tar.gz"))
        print(f"{arguments.hosts} hosts, {size / 1e6:.0f} MB of archives, {len(planted)} planted")
        for threads in ("1", "2"):
            command = [arguments.program, "fleet", str(captures), "--out", str(folder / f"tables{threads}")]
            seconds, memory, printed = run(command, RAYON_NUM_THREADS=threads)
            print(f"iotoll fleet, {threads} threads: {seconds:.1f} s, {arguments.hosts / seconds:.0f} hosts/s, {memory} MiB; {printed.splitlines()[0]}")
        tables = folder / "tables2"
        size = sum(file.stat().st_size for file in tables.rglob("*.parquet"))
        page = folder / "fleet.html"
        seconds, memory, printed = run([arguments.program, "fleet", "report", str(tables), "--json", "--html", str(page)])
        odd = {one["host"] for one in json.loads(printed)["odd"]}
        print(f"iotoll fleet report: {seconds:.2f} s, {memory} MiB; {len(odd & set(planted))} of {len(planted)} planted hosts are odd")
        print(f"DuckDB, of {size / 1e6:.1f} MB of tables, two threads:")
        ask(tables)


if __name__ == "__main__":
    main()
