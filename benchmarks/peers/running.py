"""Run the peers in turns, each in a process of its own; say of each that cannot run why."""

import json
import os
import subprocess
import sys
from pathlib import Path
from shutil import rmtree
from statistics import median
from typing import Any

from harness import RESULTS
from peers.peers import Peer

_HERE = Path(__file__).parent
ENVIRONMENTS = RESULTS / "peers" / "envs"
_MINUTES = 5.0  # at most, to install or to run once
Row = dict[str, Any]


def python_of(peer: Peer, *, install: bool) -> tuple[str, str]:
    """Return the Python that has a peer, or why there is none."""
    if not peer.environment:
        return sys.executable, ""
    folder = ENVIRONMENTS / peer.environment
    python = folder / "bin" / "python"
    if python.exists():
        return str(python), ""
    command = f"pip install {' '.join(peer.packages)}"
    if not install:
        return "", f"not installed: run with --install, which does {command} in {folder}"
    try:
        for step in (
            [sys.executable, "-m", "venv", str(folder)],
            [str(python), "-m", "pip", "install", "-q", *peer.packages],
        ):
            subprocess.run(step, check=True, capture_output=True, text=True, timeout=60 * _MINUTES)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        rmtree(folder, ignore_errors=True)  # half an environment would pass for a whole one
        if isinstance(error, subprocess.TimeoutExpired):
            return "", f"{command} took more than {_MINUTES:g} minutes"
        return "", f"{command} failed: {_last(error.stderr)}"
    return str(python), ""


def once(peer: Peer, python: str, rows: Path) -> Row:
    """Run a peer once; return what it found, or what went wrong."""
    adapter = _HERE / "adapters" / f"{peer.adapter}.py"
    command = [python, str(_HERE / "child.py"), str(adapter), str(rows), json.dumps(peer.settings)]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "2")
    kept = {} if peer.environment else {"PYTHONPATH": os.pathsep.join(sys.path)}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=60 * _MINUTES,
            env={**os.environ, "PYTHONPATH": "", **threads, **kept},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"failed": f"ran for more than {_MINUTES:g} minutes"}
    if done.returncode:
        ended = f"crashed (exit {done.returncode})"
        return {"failed": f"{ended}: {_last(done.stderr)}"}
    found: Row = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def interleaved(peers: tuple[Peer, ...], rows: Path, repeats: int, *, install: bool) -> list[Row]:
    """Run the peers in turns; return a row for each: medians, or why there are none."""
    pythons = {peer.name: python_of(peer, install=install) for peer in peers}
    found: dict[str, list[Row]] = {peer.name: [] for peer in peers}
    for turn in range(repeats):
        start = turn % len(peers)
        for peer in peers[start:] + peers[:start]:  # nobody always comes first
            python, why = pythons[peer.name]
            row = once(peer, python, rows) if python else {"skipped": why}
            found[peer.name].append(row)
            print(f"{peer.name}: {row}", flush=True)
    return [_summary(peer, found[peer.name]) for peer in peers]


def _summary(peer: Peer, runs: list[Row]) -> Row:
    facts = {"learner": peer.name, "kind": peer.kind}
    bad = next((run for run in runs if "accuracy" not in run), None)
    if bad is not None:
        return facts | {"note": " ".join(f"{word}: {why}" for word, why in bad.items())}
    moved = runs[0]["bytes"]
    return facts | {
        "version": runs[0]["version"],
        "seconds": round(median(run["seconds"] for run in runs), 3),
        "CPU seconds": round(median(run["cpu"] for run in runs), 3),
        "peak MB": round(median(run["peak MB"] for run in runs), 1),
        "MB that travel": None if moved is None else round(moved / 1e6, 2),
        "accuracy": round(float(median(run["accuracy"] for run in runs)), 4),
        "note": peer.note,
    }


def _last(text: str | None) -> str:
    """Return the last line that says something."""
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
    return lines[-1] if lines else "no message"
