#!/usr/bin/env python3
"""Reads documents of all commands into DuckDB with the columns that docs/reference/schemas publishes.

    bench/documents.py [--documents N] [--program iotoll]

Needs `pip install duckdb`. Each command's documents are repeated until there are N of its kind (2,000), in one file with a line
for each. Prints rows, fields, megabytes, seconds and the largest memory of the process that read them.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCHEMAS = ROOT / "docs/reference/schemas"
CAPTURES = sorted((ROOT / "crates/host/tests/captures").glob("*.tar.gz"))
SHEETS = sorted((ROOT / "data/tolls").glob("*-*.json"))
MODELS = ["engine", "two-hosts", "nvme", "flash-array", "infiniband", "memory-types"]
COMMANDS = [
    *(["inspect", "--json", "--from", str(capture)] for capture in CAPTURES),
    *(["inspect", "--json", "--range", range_, "--from", str(capture)]
      for capture in CAPTURES if capture.name.startswith("x86") for range_ in ("0x0+1M", "0x10000000+2M")),
    ["mtrr", "plan", "--json", "--want", "0x10000000:80M:uncachable", "--from", str(ROOT / "crates/host/tests/captures/x86-no-iommu.tar.gz")],
    ["lab", "list", "--json"],
    *(["lab", "show", "--json", str(sheet)] for sheet in SHEETS[:4]),
    *(["lab", "diff", "--json", str(a), str(b)] for a, b in zip(SHEETS, SHEETS[1:4])),
    ["bench", "iova", "--json", "--rounds", "2", "--pairs", "200", "--threads", "1,2"],
    ["bench", "map", "--json", "--rounds", "1", "--round-ms", "1"],
    ["bench", "memtype", "--json", "--rounds", "1", "--round-ms", "1"],
    ["blk", "list", "--json"],
    *(["model", "run", "--json", str(ROOT / f"experiments/{name}.toml")] for name in MODELS),
    *(["reproduce", "--json", study] for study in ("iotlb", "memmap", "power-window")),
]


def printed(program, command):
    done = subprocess.run([program, *command], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return json.loads(done.stdout)


def load(name, folder):
    """In a process of its own, so that its largest memory is that of one kind of document."""
    import duckdb

    sql = (SCHEMAS / f"{name}.sql").read_text().replace(f"'{name}.ndjson'", f"'{folder}/{name}.ndjson'")
    connection = duckdb.connect()
    connection.execute("SET threads = 2")
    began = time.monotonic()
    connection.execute(sql)
    seconds = time.monotonic() - began
    table = name.replace("-", "_")
    rows = connection.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0]
    schemas = connection.execute(f'SELECT count(DISTINCT schema) FROM "{table}"').fetchone()[0]
    types = [row[1] for row in connection.execute(f'DESCRIBE "{table}"').fetchall()]
    assert schemas == 1 and not any("JSON" in kind for kind in types), (name, types)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{name:16} {rows:6} {len(types):6} {(Path(folder) / f'{name}.ndjson').stat().st_size / 1e6:7.1f} {seconds:8.2f} {memory:7.0f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=2000)
    parser.add_argument("--program", default=str(ROOT / "target/release/iotoll"))
    parser.add_argument("--load", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.load:
        return load(*arguments.load)
    kinds = {}
    for command in COMMANDS:
        document = printed(arguments.program, command)
        kinds.setdefault(document["schema"].removeprefix("iotoll.").split("/")[0], []).append(json.dumps(document))
    print(f"{'document':16} {'rows':>6} {'fields':>6} {'MB':>7} {'seconds':>8} {'MiB':>7}")
    with tempfile.TemporaryDirectory() as folder:
        for name, lines in kinds.items():
            with open(f"{folder}/{name}.ndjson", "w") as file:
                for number in range(arguments.documents):
                    file.write(lines[number % len(lines)] + "\n")
            sys.stdout.flush()
            subprocess.run([sys.executable, __file__, "--load", name, folder], check=True)
            Path(f"{folder}/{name}.ndjson").unlink()


if __name__ == "__main__":
    main()
