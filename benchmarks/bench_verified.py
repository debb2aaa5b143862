"""What verified growth costs: this checkout against one without it, in turns.

100 trees of depth 10 on 200,000 x 30 drawn rows at five parties, in one process: open sums, masked
sums, and masked sums that a blind coordinator adds. Each checkout has a process of its own, which
grows a forest when it is its turn; only one computes at a time. The bounds: open 1.15 times the
commit before verified growth, masked 1.2; no more bytes down than up, plus the trees.
Run: python benchmarks/bench_verified.py [--fast] [--before ../the-other-checkout]
"""

import hashlib
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from data import drawn
from harness import Sample, arguments, foreign, median, ratio, save, table, timed
from spinney import HorizontalForestClassifier, deal_rows
from spinney.errors import PrivacyLeakWarning
from spinney.protocols.settings import ForestSettings

_KINDS = ("open", "masked", "blind")
_NOW, _BEFORE = "now", "before"


class Checkout:
    """A process that grows forests with one checkout's code."""

    def __init__(self, source: Path, n_rows: int, n_trees: int) -> None:
        command = [sys.executable, __file__, "--worker", "1"]
        self._process = subprocess.Popen(
            [*command, "--rows", str(n_rows), "--trees", str(n_trees)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(source / "src")},
        )

    def grown(self, kind: str) -> dict[str, Any]:
        """Grow one forest; return its times and sizes."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{kind}\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def end(self) -> None:
        """Let the process end."""
        self._process.communicate()


def work(n_rows: int, n_trees: int) -> None:
    """Grow a forest for each line that is read; print what it took as a line of JSON."""
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    # Nodes draw on since, if no drawn column can cut them: both checkouts shall grow one forest.
    ForestSettings.goes_on = False  # type: ignore[assignment,method-assign]
    split = drawn(n_rows, n_test=0)
    party = deal_rows(split.y, 5, random_state=0)
    for line in sys.stdin:
        kind = line.strip()
        forest = HorizontalForestClassifier(
            n_trees, max_depth=10, random_state=0, secure_sum=kind != "open"
        )
        with blinded() if kind == "blind" else nullcontext():
            sample, fitted = timed(partial(forest.fit, split.X, split.y, party=party))
        report, trees = fitted.report_, fitted.model_.to_bytes()
        found = {
            "sample": (sample.seconds, sample.cpu, sample.foreign),
            "up": max(report.bytes_up.values()),
            "down": max(report.bytes_down.values()),
            "rounds": report.rounds,
            "trees": len(trees),
            "digest": hashlib.sha256(trees).hexdigest()[:12],
        }
        print(json.dumps(found), flush=True)


@contextmanager
def blinded() -> Iterator[None]:
    """Let estimators connect their parties to a coordinator that sees no sums."""
    from spinney.protocols.verified import simulated  # noqa: PLC0415  not in older checkouts

    connect = simulated.connect_parties
    simulated.connect_parties = partial(connect, is_blind=True)
    try:
        yield
    finally:
        simulated.connect_parties = connect


def compare(
    checkouts: dict[str, Checkout], kinds: tuple[str, ...], repeats: int
) -> list[dict[str, Any]]:
    """Return a row for each kind of sum and each checkout, grown in turns."""
    cases = [
        (kind, name)
        for kind, name in product(kinds, checkouts)
        if not (kind == "blind" and name == _BEFORE)
    ]
    for kind, name in cases:
        checkouts[name].grown(kind)  # compiles, and fills the caches
    samples: dict[tuple[str, str], list[Sample]] = {case: [] for case in cases}
    last: dict[tuple[str, str], dict[str, Any]] = {}
    for repeat in range(repeats):
        for case in cases if repeat % 2 else reversed(cases):
            last[case] = checkouts[case[1]].grown(case[0])
            samples[case].append(Sample(*last[case]["sample"]))
    return [_row(case, samples, last[case]) for case in cases]


def _row(
    case: tuple[str, str], samples: dict[tuple[str, str], list[Sample]], last: dict[str, Any]
) -> dict[str, Any]:
    kind, name = case
    found = samples[case]
    base = samples.get(("masked" if kind == "blind" else kind, _BEFORE))
    row: dict[str, Any] = {"sums": kind, "checkout": name, "fit s": median(found)}
    if base is not None:
        cpu = [sample.cpu for sample in found], [sample.cpu for sample in base]
        row["x before"] = ratio(found, base)
        row["x before, least"] = min(s.seconds for s in found) / min(s.seconds for s in base)
        row["x before, CPU"] = sorted(a / b for a, b in zip(*cpu, strict=True))[len(base) // 2]
    if kind == "blind" and ("masked", name) in samples:
        row["x masked"] = ratio(found, samples["masked", name])
    return {
        **row,
        "rounds": last["rounds"],
        "MB up": last["up"] / 1e6,
        "MB down": last["down"] / 1e6,
        "MB trees": last["trees"] / 1e6,
        "trees' digest": last["digest"],
        "foreign": foreign(found),
    }


def main() -> None:
    asked = arguments(
        __doc__, before="", repeats=7, rows=200_000, trees=100, kinds=",".join(_KINDS), worker=0
    )
    if asked.worker:
        work(asked.rows, asked.trees)
        return
    n_rows, n_trees = (20_000, 20) if asked.fast else (asked.rows, asked.trees)
    sources = {_NOW: Path(__file__).parent.parent}
    if asked.before:
        sources[_BEFORE] = Path(asked.before)
    checkouts = {name: Checkout(source, n_rows, n_trees) for name, source in sources.items()}
    kinds = tuple(kind for kind in _KINDS if kind in asked.kinds.split(","))
    rows = compare(checkouts, kinds, 2 if asked.fast else asked.repeats)
    for checkout in checkouts.values():
        checkout.end()
    title = f"{n_rows:,} x 30 rows, five parties, {n_trees} trees, depth 10"
    table(title, rows)
    save("verified", "median over turns; ratios: median of the turns' ratios", {title: rows})


if __name__ == "__main__":
    main()
