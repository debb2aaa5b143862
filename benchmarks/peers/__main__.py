"""Measure the peers on their workload, and private learners at equal epsilon.

Run: python -m peers [--install] [--repeats 3] [--publish]
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

_PUBLIC = Workload(50_000, 40_000)
_PRIVATE = Workload(20_000, 16_000)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m peers", description=__doc__)
    parser.add_argument("--install", action="store_true", help="make missing environments by pip")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--publish", action="store_true", help="into docs/results/ too")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        made = measured(Path(place), asked.repeats, install=asked.install)
    printed(made)
    found = {
        "name": "peers",
        "title": "The peers",
        "cells": {"stored": len(PEERS), "wanted": len(PEERS)},
        "runs": [_origin()],
        "facts": made.facts,
        "tables": made.tables,
        "pictures": [],
    }
    for folder in (RESULTS / "peers", PUBLISHED) if asked.publish else (RESULTS / "peers",):
        keep(found, made, folder)
    return 0


def measured(place: Path, repeats: int, *, install: bool) -> Shown:
    """Run everybody in turns; return the tables."""
    rows = place / "rows.npz"
    _PUBLIC.save(rows)
    public = interleaved(PEERS, rows, repeats, install=install)
    _PRIVATE.save(rows)
    by_epsilon = []
    for epsilon, published in PRIVATREE.items():
        lines = interleaved(private(epsilon), rows, max(repeats, 3), install=install)
        note = "published, one site"
        theirs = {"learner": "PrivaTree", "kind": "pooled", "accuracy": published, "note": note}
        by_epsilon += [{"epsilon": epsilon, **line} for line in (*lines, theirs)]
    work = f"{N_PARTIES} parties, {N_TREES} trees, depth {DEPTH}; medians of {repeats} turns"
    return Shown(
        [
            Table("The peers' workload: 40,000 rows for training, 20 columns", public, work, True),
            Table("Private learners at the same epsilon: 16,000 rows, 20 columns", by_epsilon),
        ],
        _facts(public),
    )


def _facts(public: list[dict[str, Any]]) -> dict[str, Any]:
    ran = {line["learner"]: line for line in public if "accuracy" in line}
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
        "missing": ", ".join(one["learner"] for one in public if "accuracy" not in one) or "none",
    }


def _origin() -> dict[str, Any]:
    return {
        "id": f"peers-{os.getpid()}",
        "commit": commit(),
        "when": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "machine": machine(),
        "versions": versions(),
        "noise": "from the operating system",
        "cells": len(PEERS),
    }


if __name__ == "__main__":
    sys.exit(main())
