"""Measure the peers on their workload, and private learners at equal epsilon.

`tune` tries settings of two federated learners and keeps in docs/results/ those that `public` then
measures: they are chosen by CPU seconds of one thread, for which no quiet machine is needed. Unless
somebody has tuned, `public` does it first.
Run: python -m peers [public|private|all|tune] [--install] [--repeats 10] [--publish]
"""

import argparse
import json
import os
import sys
import time
from dataclasses import replace
from typing import Any

from harness import RESULTS, machine, versions
from papers.experiment import Shown
from papers.showing import PUBLISHED, keep, printed
from papers.store import commit
from peers import telling
from peers.peers import PEERS, PRIVATE, Peer, Workload
from peers.running import (
    Case,
    best_at_each_epsilon,
    interleaved,
    quickest_at_each_level,
    tuned,
)

MEASURED = {
    "public": (PEERS, Workload(50_000, 40_000), telling.workload),
    "private": (PRIVATE, Workload(20_000, 16_000), telling.private),
}
_TRIES = {"public": 3, "private": 1}  # of a training that others disturb: times, or accuracies
_TRIED = "peers_tried"  # what `tune` keeps


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m peers", description=__doc__)
    parser.add_argument("what", choices=[*MEASURED, "all", "tune"], nargs="?", default="all")
    parser.add_argument("--install", action="store_true", help="make missing environments by pip")
    parser.add_argument("--repeats", type=int, default=10, help="turns, each with rows of its own")
    parser.add_argument("--publish", action="store_true", help="into docs/results/ too")
    asked = parser.parse_args()
    was_tuned = (PUBLISHED / f"{_TRIED}.json").exists()
    if asked.what == "tune" or (asked.what in ("public", "all") and not was_tuned):
        _tune(install=asked.install)
    for name, (who, workload, told) in MEASURED.items():
        if asked.what in (name, "all"):
            origin = _origin()
            begin = time.perf_counter()
            if name == "public":
                peers, tried = _settled(who), []
            else:
                peers, tried = tuned(
                    who, workload, best_at_each_epsilon, n_tries=1, install=asked.install
                )
            cases = interleaved(
                peers, workload, asked.repeats, n_tries=_TRIES[name], install=asked.install
            )
            _end(origin, begin)
            _keep(f"peers_{name}", cases, told(cases, tried), origin, publish=asked.publish)
    return 0


def _tune(*, install: bool) -> None:
    """Try the settings of public peers on turns that do not count; keep which are measured."""
    peers, workload, _ = MEASURED["public"]
    origin, begin = _origin(), time.perf_counter()
    able = tuple(peer for peer in peers if len(peer.grid) > 1)
    settled, tried = tuned(able, workload, quickest_at_each_level, n_tries=3, install=install)
    _end(origin, begin)
    made = telling.tries(tried)
    printed(made)
    chosen = {peer.name: peer.grid for peer in settled}
    found = {
        "name": _TRIED, "runs": [origin], "facts": {"settings": chosen}, "tables": made.tables,
    }  # fmt: skip
    keep(found, made, PUBLISHED)


def _settled(peers: tuple[Peer, ...]) -> tuple[Peer, ...]:
    """Return the peers with the settings that were chosen for them."""
    found = json.loads((PUBLISHED / f"{_TRIED}.json").read_text(encoding="utf-8"))
    chosen = found["facts"]["settings"]
    return tuple(replace(peer, grid=tuple(chosen.get(peer.name, peer.grid))) for peer in peers)


def _end(origin: dict[str, Any], begin: float) -> None:
    """Note how long a run took, and how busy the machine was."""
    minutes = (time.perf_counter() - begin) / 60
    load = f"{origin['load']:.1f} before and {os.getloadavg()[0]:.1f} after"
    origin["note"] = f"{minutes:.0f} minutes, load {load}"


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
