"""Run the peers in turns, each in a process of its own; say of each that cannot run why."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import rmtree
from statistics import mean, median, quantiles, stdev
from typing import Any

from harness import RESULTS
from peers.child import MARK
from peers.peers import LEVELS, N_TUNED, TUNED_ON, Peer, Settings, Workload

_HERE = Path(__file__).parent
ENVIRONMENTS = RESULTS / "peers" / "envs"
_MINUTES = 5.0  # at most, to install or to run one setting
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


@dataclass(frozen=True, eq=False)
class Case:
    """A peer with one setting of its grid, and what it found or why not in each turn."""

    peer: Peer
    setting: Settings
    turns: list[Row] = field(default_factory=list)

    @property
    def ran(self) -> bool:
        return all("accuracy" in turn for turn in self.turns)

    def each(self, name: str) -> list[float]:
        """Return a number of every turn."""
        return [turn[name] for turn in self.turns]

    def row(self) -> Row:
        """Return the row of a table: medians, means and spreads, or why there are none."""
        facts: Row = {"learner": self.peer.name, "kind": self.peer.kind}
        if not self.ran:
            bad = next(turn for turn in self.turns if "accuracy" not in turn)
            return facts | {"note": " ".join(f"{word}: {why}" for word, why in bad.items())}
        last = self.turns[-1]
        moved = last["bytes"]
        chatter = next((turn["chatter"] for turn in self.turns if "chatter" in turn), "")
        said = f"; printed after its result: {chatter}" if chatter else ""
        return facts | {
            "version": last["version"],
            "rounds": last["rounds"],
            "seconds": round(median(self.each("seconds")), 3),
            "middle half": _middle(self.each("seconds")),
            "CPU seconds": round(median(self.each("cpu")), 3),
            "peak MB": round(median(self.each("peak MB")), 1),
            "MB that travel": None if moved is None else round(moved / 1e6, 2),
            "accuracy": round(mean(self.each("accuracy")), 4),
            "sd": round(spread(self.each("accuracy")), 4),
            "note": self.peer.note + said,
        }


Chooses = Callable[[list[Case]], list[Settings]]


def once(peer: Peer, python: str, rows: Path, n_threads: int = 2, n_tries: int = 3) -> list[Row]:
    """Run a peer once; return for each setting what it found, or what went wrong."""
    adapter = _HERE / "adapters" / f"{peer.adapter}.py"
    settings = json.dumps([peer.settings | one for one in peer.grid])
    command = [python, str(_HERE / "child.py"), str(adapter), str(rows), settings, str(n_tries)]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), str(n_threads))
    path = [str(_HERE.parent)] if peer.environment else sys.path
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False,
            timeout=60 * _MINUTES * len(peer.grid),
            env={**os.environ, **threads, "PYTHONPATH": os.pathsep.join(path)},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        slow = f"ran for more than {_MINUTES:g} minutes a setting"
        return [{"failed": slow}] * len(peer.grid)
    if done.returncode:
        ended = f"crashed (exit {done.returncode})"
        return [{"failed": f"{ended}: {_last(done.stderr)}"}] * len(peer.grid)
    _, mark, told = done.stdout.rpartition("\n" + MARK)
    if not mark:
        ended = f"ended without a result: {_last(done.stdout or done.stderr)}"
        return [{"failed": ended}] * len(peer.grid)
    result, _, after = told.partition("\n")
    found: list[Row] = json.loads(result)
    return [row | {"chatter": _last(after)} for row in found] if after.strip() else found


def tuned(
    peers: tuple[Peer, ...], workload: Workload, choose: Chooses, *, n_tries: int, install: bool
) -> tuple[tuple[Peer, ...], list[Case]]:
    """Return each peer with the settings chosen by turns that do not count, and all tries.

    They are on one thread: threads that wait for each other use CPU time if others use the cores.
    """
    tried = interleaved(
        peers, workload, N_TUNED, first=TUNED_ON, n_threads=1, n_tries=n_tries, install=install
    )
    return tuple(
        replace(peer, grid=tuple(choose([case for case in tried if case.peer is peer])))
        for peer in peers
    ), tried


def best_at_each_epsilon(tried: list[Case]) -> list[Settings]:
    """Return a peer's own setting and the best one, at every epsilon."""
    grid: list[Settings] = []
    for epsilon in dict.fromkeys(case.setting["epsilon"] for case in tried):
        cases = [case for case in tried if case.setting["epsilon"] == epsilon]
        ran = [case for case in cases if case.ran]
        own, best = cases[0], best_of(ran) if ran else cases[0]
        grid += [own.setting] if best is own else [own.setting, best.setting]
    return grid


def quickest_at_each_level(tried: list[Case]) -> list[Settings]:
    """Return a peer's own setting and its quickest ones of some accuracy, by CPU seconds.

    A peer that reaches no level is shown with its most accurate setting.
    """
    ran = [case for case in tried if case.ran]
    chosen = [tried[0]]
    for level in LEVELS:
        able = [case for case in ran if mean(case.each("accuracy")) >= level]
        chosen += [min(able, key=lambda case: mean(case.each("cpu")))] if able else []
    if ran and len(chosen) == 1:
        chosen += [best_of(ran)]
    return [case.setting for case in dict.fromkeys(chosen)]


def best_of(cases: list[Case]) -> Case:
    """Return the case that is right most often."""
    return max(cases, key=lambda case: mean(case.each("accuracy")))


def interleaved(
    peers: tuple[Peer, ...],
    workload: Workload,
    n_turns: int,
    *,
    first: int = 0,
    n_threads: int = 2,
    n_tries: int = 3,
    install: bool,
) -> list[Case]:
    """Run the peers in turns, each turn on rows of its own; return what every setting found.

    A training that others disturb is tried again, up to `n_tries` times.
    """
    pythons = {peer.name: python_of(peer, install=install) for peer in peers}
    cases = {peer.name: [Case(peer, one) for one in peer.grid] for peer in peers}
    with tempfile.TemporaryDirectory() as place:
        for turn in range(first, first + n_turns):
            rows = Path(place) / f"{turn}.npz"
            workload.save(rows, turn)
            start = turn % len(peers)
            for peer in peers[start:] + peers[:start]:  # nobody always comes first
                python, why = pythons[peer.name]
                skipped = [{"skipped": why}] * len(peer.grid)
                found = once(peer, python, rows, n_threads, n_tries) if python else skipped
                for case, row in zip(cases[peer.name], found, strict=True):
                    case.turns.append(row)
                    print(f"turn {turn}, {peer.name} {case.setting or ''}: {row}", flush=True)
            rows.unlink()
    return [case for peer in peers for case in cases[peer.name]]


def spread(values: list[float]) -> float:
    """Return the standard deviation over turns."""
    return stdev(values) if len(values) > 1 else 0.0


def _middle(values: list[float]) -> str:
    """Return the quartiles."""
    low, _, high = quantiles(values, method="inclusive") if len(values) > 1 else values * 3
    return f"{low:.3f} to {high:.3f}"


def _last(text: str | None) -> str:
    """Return the last line that says something."""
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
    return lines[-1] if lines else "no message"
