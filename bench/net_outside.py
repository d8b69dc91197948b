#!/usr/bin/env python3
"""Holds `iotoll bench net` against other tools on one pair of virtual interfaces: iperf3 for TCP streams, sockperf for UDP round trips.

    bench/net_outside.py [--program target/release/iotoll] [--rounds 9] [--seconds 2]

Two network namespaces of an own user namespace, so no root is needed; needs ip, iperf3 and sockperf. The tools take turns. Prints each figure, and
the ratio of medians, ours by theirs, with the least and the greatest ratio of two rounds that followed each other.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

ADDRESS = "192.0.2.2"
BYTES_STREAM = 8192
BYTES_ROUND_TRIP = 64


def own_namespaces():
    """Starts again in namespaces of its own, unless this is that start."""
    if os.environ.get("IOTOLL_NET_NAMESPACE"):
        return
    os.environ["IOTOLL_NET_NAMESPACE"] = "1"
    os.execvp("unshare", ["unshare", "-Urnm", sys.executable, *sys.argv])


def joined_namespace():
    """The other side, joined by a pair of virtual interfaces; its process."""
    other = subprocess.Popen(["unshare", "-n", "sh", "-c", "ip link set lo up; echo; exec sleep 3600"], stdout=subprocess.PIPE)
    other.stdout.readline()
    inside = ["nsenter", "-t", str(other.pid), "-n"]
    for command in [
        ["ip", "link", "add", "left", "type", "veth", "peer", "name", "right"],
        ["ip", "link", "set", "right", "netns", str(other.pid)],
        ["ip", "addr", "add", "192.0.2.1/24", "dev", "left"],
        ["ip", "link", "set", "left", "up"],
        [*inside, "ip", "addr", "add", f"{ADDRESS}/24", "dev", "right"],
        [*inside, "ip", "link", "set", "right", "up"],
    ]:
        subprocess.run(command, check=True)
    return other, inside


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr or done.stdout}")
    return done.stdout


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--program", default="target/release/iotoll")
    arguments.add_argument("--rounds", type=int, default=9)
    arguments.add_argument("--seconds", type=int, default=2)
    options = arguments.parse_args()
    own_namespaces()
    other, inside = joined_namespace()
    folder = tempfile.TemporaryDirectory()
    secret = pathlib.Path(folder.name, "secret")
    secret.write_text("a secret of this comparison")
    secret.chmod(0o600)
    served = [
        [options.program, "bench", "net", "--listen", ADDRESS, "--secret", str(secret)],
        ["iperf3", "-s", "-B", ADDRESS],
        ["sockperf", "server", "-i", ADDRESS],
    ]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    servers = [subprocess.Popen([*inside, *command], **quiet) for command in served]
    time.sleep(1)

    def ours(test, size, figure):
        document = json.loads(run([
            options.program, "bench", "net", ADDRESS, "--secret", str(secret), "--json", "--test", test, "--size", str(size),
            "--instances", "1", "--rounds", "1", "--seconds", str(options.seconds)]))
        return document["cells"][0][figure]["median"]

    def iperf():
        document = json.loads(run(["iperf3", "-c", ADDRESS, "-l", str(BYTES_STREAM), "-t", str(options.seconds), "-J"]))
        return document["end"]["sum_received"]["bits_per_second"]

    def sockperf():
        said = run(["sockperf", "ping-pong", "-i", ADDRESS, "-m", str(BYTES_ROUND_TRIP), "-t", str(options.seconds), "--full-rtt"])
        return float(re.search(r"percentile 50.000 =\s+([\d.]+)", said).group(1))

    comparisons = {
        f"TCP stream of {BYTES_STREAM} bytes, Gbit/s, iperf3": (
            lambda: ours("tcp-stream", BYTES_STREAM, "bytes_per_second") * 8 / 1e9, lambda: iperf() / 1e9),
        f"UDP round trip of {BYTES_ROUND_TRIP} bytes, median in µs, sockperf": (
            lambda: ours("udp-rr", BYTES_ROUND_TRIP, "round_trip_p50_ns") / 1e3, sockperf),
    }
    try:
        for name, (mine, theirs) in comparisons.items():
            pairs = [(mine(), theirs()) for _ in range(options.rounds)]
            ratios = sorted(mine / theirs for mine, theirs in pairs)
            medians = [statistics.median(side) for side in zip(*pairs)]
            print(f"{name}: ours {medians[0]:.2f}, theirs {medians[1]:.2f}, ratio {statistics.median(ratios):.3f} "
                  f"({ratios[0]:.3f} to {ratios[-1]:.3f}, {options.rounds} rounds of {options.seconds} s)")
    finally:
        for process in [*servers, other]:
            process.terminate()
            process.wait()


main()
