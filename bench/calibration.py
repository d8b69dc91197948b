#!/usr/bin/env python3
"""Fits the IOTLB of three published hosts anew, and compares with what the study iotlb takes (docs/validation/calibration.md).

    bench/calibration.py [--seed N]

Needs Python 3.11 and the package iotoll with `calibrate` (`crates/python/check` leaves an environment: target/python/newest/bin/python).
"""

import argparse
import time
import tomllib
from pathlib import Path

from iotoll.model import Figure, calibrate

ROOT = Path(__file__).resolve().parent.parent
CURVES = {curve["name"]: curve for curve in tomllib.loads((ROOT / "experiments/iotlb.toml").read_text())["curves"]}
# Memory in the processor's cache is nearer, as the study has it.
WARM_PATH_NS, WRITE_GAP_NS = 540.0, 21.1
PARAMETERS = {
    ("iommu.entries", "iommu.ways"): (16, 512),
    "iommu.walk_ns": (50.0, 500.0),
    "iommu.walk_gap_ns": (10.0, 200.0),
    "engine.path_ns": (300.0, 900.0),
}


def figures(curve, read, unit, changes, is_fitted):
    """The points of a published curve. One seed is enough: it changes a figure by 0.1 %, and a run takes a fifth of the time."""
    for point in CURVES[curve]["points"]:
        x = point["x"]
        yield Figure(
            point["published"],
            read,
            unit,
            f"published: {CURVES[curve]['source']}",
            {"seeds": 1, "engine.window_bytes": x << 10, **changes},
            "calibration" if is_fitted(x) else "held-out",
            name=f"{curve}, {x} KiB",
        )


def of_host(host):
    """Latencies and the rate in the largest window are fitted to; the other rates test the fit."""
    rate, warm = "engine.gigabits_per_second", {"engine.path_ns": WARM_PATH_NS}
    alone = {"engine.in_flight_max": 1}
    writes = {**warm, "engine.operation": "write", "engine.gap_ns": WRITE_GAP_NS}
    yield from figures(f"{host}, reads of 64 B, one at a time, cold", "engine.latency_mean_ns", "ns", alone, lambda _: True)
    yield from figures(f"{host}, reads of 64 B, as many as there can be, warm", rate, "Gb/s", warm, lambda x: x == 65536)
    name = f"{host}, writes of 64 B, as many as there can be, warm"
    if name in CURVES:
        yield from figures(name, rate, "Gb/s", writes, lambda _: False)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seed", type=int, default=0)
    seed = arguments.parse_args().seed
    for host in ("Ivy Bridge", "Haswell", "Sandy Bridge"):
        began = time.monotonic()
        fit = calibrate(ROOT / "experiments/engine.toml", PARAMETERS, list(of_host(host)), seed=seed)
        print(f"{host}: {fit}\n  {time.monotonic() - began:.0f} s\n", flush=True)


if __name__ == "__main__":
    main()
