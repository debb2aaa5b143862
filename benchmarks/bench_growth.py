"""How the cost of a forest grows with rows, columns, trees, depth and parties.

A slope is that of log seconds over log size: 1 is linear. With `--threads 1` times are CPU times,
which a busy machine hardly disturbs. Run: python benchmarks/bench_growth.py [--fast]
"""

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from data import tiled
from harness import (
    CORES,
    Sample,
    arguments,
    foreign,
    interleaved,
    median,
    save,
    table,
    timed,
    timed_by_cpu,
)
from spinney import HorizontalForestClassifier, deal_rows
from spinney.errors import PrivacyLeakWarning

_USUAL = {"rows": 200_000, "columns": 30, "trees": 20, "depth": 10, "parties": 1}
_FULL = {
    "rows": (50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000),
    "columns": (10, 30, 100, 200),
    "trees": (10, 20, 50, 100, 200),
    "depth": (4, 6, 8, 10, 12, 14),
    "parties": (1, 2, 5, 10, 20),
}
_FAST = {
    "rows": (10_000, 20_000),
    "columns": (10, 30),
    "trees": (10, 20),
    "depth": (4, 8),
    "parties": (1, 5),
}


def fit(size: dict[str, int], X: np.ndarray, y: np.ndarray, threads: int) -> Any:
    """Grow a forest of some size on the first rows and columns."""
    rows = slice(0, size["rows"])
    party = deal_rows(y[rows], size["parties"], random_state=0) if size["parties"] > 1 else None
    forest = HorizontalForestClassifier(
        size["trees"], max_depth=size["depth"], n_jobs=threads, random_state=0
    )
    return forest.fit(X[rows, : size["columns"]], y[rows], party=party)


def cases(
    name: str, values: Sequence[int], usual: dict[str, int], threads: int
) -> dict[str, Callable[[], Any]]:
    """Return a fit for each value of one size, the others as usual."""
    most = {**usual, name: max(values)}
    X, y = tiled(most["rows"], most["columns"])
    return {str(value): partial(fit, {**usual, name: value}, X, y, threads) for value in values}


def growth(name: str, found: dict[str, list[Sample]]) -> list[dict[str, Any]]:
    """Return the seconds at each size, and the slope from the size before."""
    rows: list[dict[str, Any]] = []
    for value, samples in found.items():
        size, seconds = int(value), median(samples)
        row = {
            name: size,
            "seconds": seconds,
            f"ms / {name}": 1000 * seconds / size,
            "foreign": foreign(samples),
        }
        if rows:
            rise = np.log(seconds / rows[-1]["seconds"])
            row["slope"] = float(rise / np.log(size / rows[-1][name]))
        rows.append(row)
    return rows


def main() -> None:
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    asked = arguments(__doc__, repeats=3, threads=CORES)
    clock = timed if asked.threads > 1 else timed_by_cpu
    usual = {**_USUAL, "rows": 20_000} if asked.fast else _USUAL
    tables = {}
    for name, values in (_FAST if asked.fast else _FULL).items():
        todo = cases(name, values, usual, asked.threads)
        todo[str(values[0])]()  # kernels warm
        samples, _ = interleaved(todo, 1 if asked.fast else asked.repeats, clock=clock)
        others = ", ".join(f"{value:,} {key}" for key, value in usual.items() if key != name)
        title = f"growth with {name} ({others})"
        tables[title] = growth(name, samples)
        table(title, tables[title])
    save(f"growth_{asked.threads}_threads", "median over turns", tables)


if __name__ == "__main__":
    main()
