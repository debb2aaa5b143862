"""Measure the peers on their workload, and private learners at equal epsilon.

Run: python -m peers [public|private|all] [--install] [--repeats 3] [--publish]
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from harness import RESULTS, machine, versions
from papers.experiment import Shown, Table
from papers.showing import PUBLISHED, keep, printed
from papers.store import commit
from peers.peers import DEPTH, N_PARTIES, N_TREES, PEERS, PRIVATREE, Workload, private
from peers.running import interleaved


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m peers", description=__doc__)
    parser.add_argument("what", choices=["public", "private", "all"], nargs="?", default="all")
    parser.add_argument("--install", action="store_true", help="make missing environments by pip")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--publish", action="store_true", help="into docs/results/ too")
    asked = parser.parse_args()
    tables = {"public": public, "private": at_equal_epsilon}
    with tempfile.TemporaryDirectory() as place:
        for name, measure in tables.items():
            if asked.what in (name, "all"):
                made = measure(Path(place) / "rows.npz", asked.repeats, install=asked.install)
                _keep(f"peers_{name}", made, publish=asked.publish)
    return 0


def _keep(name: str, made: Shown, *, publish: bool) -> None:
    printed(made)
    rows = len(made.tables[0].rows)
    found = {
        "name": name,
        "title": "The peers",
        "cells": {"stored": rows, "wanted": rows},
        "runs": [_origin() | {"cells": rows}],
        "facts": made.facts,
        "tables": made.tables,
        "pictures": [],
    }
    for folder in (RESULTS / "peers", PUBLISHED) if publish else (RESULTS / "peers",):
        keep(found, made, folder)


def public(rows: Path, repeats: int, *, install: bool) -> Shown:
    """Run everybody in turns on the peers' workload."""
    Workload(50_000, 40_000).save(rows)
    lines = interleaved(PEERS, rows, repeats, install=install)
    note = f"{N_PARTIES} parties, {N_TREES} trees, depth {DEPTH}; medians of {repeats} turns"
    title = "The peers' workload: 40,000 rows for training, 20 columns"
    return Shown([Table(title, lines, note, timed=True)], _facts(lines))


def at_equal_epsilon(rows: Path, repeats: int, *, install: bool) -> Shown:
    """Run private learners in turns, at the epsilons that PrivaTree's numbers are known for."""
    Workload(20_000, 16_000).save(rows)
    lines, facts = [], {}
    for epsilon, published in PRIVATREE.items():
        ran = interleaved(private(epsilon), rows, repeats, install=install)
        theirs = {"learner": "PrivaTree", "kind": "pooled", "accuracy": published}
        theirs["note"] = "published, one site, depth 4"
        lines += [{"epsilon": epsilon, **line} for line in (*ran, theirs)]
        best = max(line.get("accuracy", 0.0) for line in ran if line["kind"] == "ours")
        facts |= {f"ours_{epsilon:g}": best, f"privatree_{epsilon:g}": published}
    title = "Private learners at the same epsilon: 16,000 rows for training, 20 columns"
    note = f"{N_PARTIES} parties where there are parties; medians of {repeats} turns"
    return Shown([Table(title, lines, note, timed=True)], facts)


def _facts(lines: list[dict[str, Any]]) -> dict[str, Any]:
    ran = {line["learner"]: line for line in lines if "accuracy" in line}
    theirs = [line for line in ran.values() if line["kind"] == "federated"]
    ours, pooled = ran["Spinney"], ran["scikit-learn"]
    fastest = min(theirs, key=lambda line: line["seconds"])
    return {
        "seconds": ours["seconds"],
        "masked_seconds": ran["Spinney, masked"]["seconds"],
        "accuracy": ours["accuracy"],
        "pooled_accuracy": pooled["accuracy"],
        "pooled_seconds": pooled["seconds"],
        "federated": len(theirs),
        "slower": sum(line["seconds"] > ours["seconds"] for line in theirs),
        "fastest": fastest["learner"],
        "fastest_seconds": fastest["seconds"],
        "fastest_accuracy": fastest["accuracy"],
        "missing": ", ".join(one["learner"] for one in lines if "accuracy" not in one) or "none",
    }


def _origin() -> dict[str, Any]:
    return {
        "id": f"peers-{os.getpid()}",
        "commit": commit(),
        "when": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "machine": machine(),
        "versions": versions(),
        "noise": "from the operating system",
    }


if __name__ == "__main__":
    sys.exit(main())
