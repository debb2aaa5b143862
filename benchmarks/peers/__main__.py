"""Measure the peers on their workload, and private learners at equal epsilon.

Run: python -m peers [public|private|all] [--install] [--repeats 10] [--publish]
"""

import argparse
import os
import sys
import time
from typing import Any

from harness import RESULTS, machine, versions
from papers.experiment import Shown
from papers.showing import PUBLISHED, keep, printed
from papers.store import commit
from peers import telling
from peers.peers import PEERS, PRIVATE, Workload
from peers.running import Case, interleaved, tuned

MEASURED = {
    "public": (PEERS, Workload(50_000, 40_000), telling.workload),
    "private": (PRIVATE, Workload(20_000, 16_000), telling.private),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m peers", description=__doc__)
    parser.add_argument("what", choices=[*MEASURED, "all"], nargs="?", default="all")
    parser.add_argument("--install", action="store_true", help="make missing environments by pip")
    parser.add_argument("--repeats", type=int, default=10, help="turns, each with rows of its own")
    parser.add_argument("--publish", action="store_true", help="into docs/results/ too")
    asked = parser.parse_args()
    for name, (peers, workload, told) in MEASURED.items():
        if asked.what in (name, "all"):
            origin = _origin()
            begin = time.perf_counter()
            settled, tried = peers, list[Case]()
            if name == "private":
                settled, tried = tuned(peers, workload, install=asked.install)
            cases = interleaved(settled, workload, asked.repeats, install=asked.install)
            minutes = (time.perf_counter() - begin) / 60
            load = f"{origin['load']:.1f} before and {os.getloadavg()[0]:.1f} after"
            origin["note"] = f"{minutes:.0f} minutes, load {load}"
            _keep(f"peers_{name}", cases, told(cases, tried), origin, publish=asked.publish)
    return 0


def _keep(
    name: str, cases: list[Case], made: Shown, origin: dict[str, Any], *, publish: bool
) -> None:
    printed(made)
    ran = sum(case.ran for case in cases)
    found = {
        "name": name,
        "title": "The peers",
        "cells": {"stored": ran, "wanted": len(cases)},
        "runs": [origin | {"cells": ran}],
        "facts": made.facts,
        "tables": made.tables,
        "turns": [_turns(case) for case in cases if case.ran],
        "pictures": [],
    }
    for folder in (RESULTS / "peers", PUBLISHED) if publish else (RESULTS / "peers",):
        keep(found, made, folder)


def _turns(case: Case) -> dict[str, Any]:
    """Return what the tables sum up."""
    numbers = {name: case.each(name) for name in ("seconds", "accuracy")}
    return {"learner": case.peer.name, **case.setting, **numbers}


def _origin() -> dict[str, Any]:
    return {
        "id": f"peers-{os.getpid()}",
        "commit": commit(),
        "when": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "machine": machine(),
        "versions": versions(),
        "noise": "from the operating system",
        "load": os.getloadavg()[0],
    }


if __name__ == "__main__":
    sys.exit(main())
