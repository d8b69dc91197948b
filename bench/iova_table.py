#!/usr/bin/env python3
"""Prints results of `iotoll bench iova --json` as Markdown: times over those of the baseline, by scenario and threads.

    iotoll bench iova --pin --json ... > pinned.json
    iotoll bench iova --json ... > free.json
    bench/iova_table.py pinned.json free.json

A cell has a value for each document, in their order, separated by slashes.
"""

import json
import sys

MEASURES = {"CPU time": "cpu_over_baseline", "elapsed time": "over_baseline"}


def measured(documents, contestant):
    """Results by scenario and threads, one for each document: None if it has none."""
    cells = {}
    for place, document in enumerate(documents):
        for case in document["cases"]:
            key = (case["scenario"], case["threads"])
            for entry in case["entries"]:
                if entry["contestant"] == contestant and entry["measured"]:
                    cells.setdefault(key, [None] * len(documents))[place] = entry["measured"]
    return cells


def ratio(result, measure):
    if result is None or result[measure] is None:
        return "–"
    value = result[measure]["median"]
    return f"{value:.2f}" if value >= 0.005 else f"{value:.0e}".replace("e-0", "e-")


def table(documents, contestant, measure):
    cells = measured(documents, contestant)
    scenarios = list(dict.fromkeys(scenario for scenario, _ in cells))
    threads = sorted({count for _, count in cells})
    print(f"| {contestant} | " + " | ".join(map(str, threads)) + " |")
    print("|---" * (len(threads) + 1) + "|")
    for scenario in scenarios:
        row = [cells.get((scenario, count), [None] * len(documents)) for count in threads]
        values = [" / ".join(ratio(result, MEASURES[measure]) for result in results) for results in row]
        print(f"| {scenario} | " + " | ".join(values) + " |")
    print()


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    documents = []
    for name in sys.argv[1:]:
        with open(name, encoding="utf-8") as file:
            documents.append(json.load(file))
    baseline = documents[0]["baseline"]
    names = [one["name"] for one in documents[0]["contestants"] if one["name"] != baseline]
    for measure in MEASURES:
        print(f"{measure} over {baseline}'s:\n")
        for name in names:
            table(documents, name, measure)


if __name__ == "__main__":
    main()
