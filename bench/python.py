#!/usr/bin/env python3
"""Measures the Python package on Dask: captures and points in a second with 1 and 2 workers, what the distribution costs, and how long chunks take.

    bench/python.py [--captures N] [--points N]

Needs the package iotoll with `dask` (`crates/python/check` leaves an environment: target/python/newest/bin/python), of a release build.
"""

import argparse
import shutil
import tempfile
import time
from pathlib import Path

import distributed
import iotoll.dask
from iotoll import folders

ROOT = Path(__file__).resolve().parent.parent
CAPTURES = sorted((ROOT / "crates/host/tests/captures").glob("*.tar.gz"))
PLAN = (ROOT / "experiments/sweep.toml").read_text()


def copies(number, folder):
    """So many captures."""
    folder.mkdir()
    for copy in range(number):
        shutil.copy(CAPTURES[copy % len(CAPTURES)], folder / f"{copy}-{CAPTURES[copy % len(CAPTURES)].name}")
    return folder


def plan(points):
    """The shipped plan, with so many points by values of its last axis."""
    head, axes = PLAN.split('"iommu.walk_ns"')
    number = max(1, points // 1000)
    return f'{head}"iommu.walk_ns" = {[60 + 10 * one for one in range(number)]}\n', number * 1000


def in_one_process(kind, source, out):
    """The seconds of the work itself, without any distribution."""
    began = time.monotonic()
    if kind == "captures":
        with folders.Fleet(out) as fleet:
            folders.inspect_into(out, fleet.unfinished(source))
    else:
        with folders.Sweep(source, out) as sweep:
            folders.run_points(source, out, sweep.unfinished())
    return time.monotonic() - began


def watch_chunks():
    """The seconds of every chunk that ends from now on, as `iotoll.dask` learns them."""
    seconds, learn = [], iotoll.dask._Size.add

    def add(size, items, taken):
        seconds.append(taken)
        learn(size, items, taken)

    iotoll.dask._Size.add = add
    return seconds


def distributed_to(workers, kind, source, out):
    with distributed.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0") as cluster:
        with distributed.Client(cluster) as client:
            # Its processes import the package first.
            client.run(lambda: __import__("iotoll.dask"))
            began = time.monotonic()
            counts = (iotoll.dask.fleet if kind == "captures" else iotoll.dask.sweep)(source, client, out)
            return time.monotonic() - began, counts


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--captures", type=int, default=2000)
    arguments.add_argument("--points", type=int, default=4000)
    asked = arguments.parse_args()
    print(f"{'what':10} {'workers':>8} {'seconds':>8} {'per second':>11} {'chunks':>7} {'overhead':>9} {'longest':>8} {'5 to 30 s':>10}")
    chunks = watch_chunks()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        text, points = plan(asked.points)
        for kind, source, number in (("captures", copies(asked.captures, folder / "c"), asked.captures), ("points", text, points)):
            alone = in_one_process(kind, source, folder / f"{kind}-0")
            print(f"{kind:10} {'none':>8} {alone:8.2f} {number / alone:11.0f} {1:7} {'':>9}")
            for workers in (1, 2):
                chunks.clear()
                seconds, counts = distributed_to(workers, kind, source, folder / f"{kind}-{workers}")
                assert counts.rows == number, counts
                # Of the seconds that all workers have together.
                overhead = 1 - alone / (seconds * workers)
                # How much of the work was in chunks of the length that is wanted.
                as_wanted = sum(one for one in chunks if 5 <= one <= 30) / sum(chunks)
                print(
                    f"{kind:10} {workers:8} {seconds:8.2f} {number / seconds:11.0f} {counts.chunks:7} {overhead:9.1%} {max(chunks):8.1f} {as_wanted:10.1%}"
                )


if __name__ == "__main__":
    main()
