"""How many random trees, how deep, and how sharp: chosen from public facts alone.

A leaf's counts carry noise of about T / e rows, for T trees and an epsilon of e, and hold about
n / 2^d rows at depth d. So rows and epsilon count only by their product s = n e: more trees average
out the luck of random cuts, but each adds noise; deeper trees see more of a row, until noise drowns
their leaves, which shrinkage softens. With k classes a leaf's rows are divided k ways.

| | chosen | at least | at most |
|---|---|---|---|
| trees T | 0.6 (2 s / k)^0.45 | 4, and 2 / d for each column: all columns are cut | 100 |
| depth d | log2 of s / (T sqrt(k / 2)) | 3 | 12 |
| sharpness | 2 for two or three classes, else 1 | | |

The mean over random trees is too cautious: every tree cuts only some of the columns that matter, so
its leaves stay near the classes' shares of all rows. A sharpness of b raises the ratio of a leaf's
share to the share of all rows to the power b. It reads no row and costs nothing. The constants are
measured on ten tables (`benchmarks/bench_private_forest.py`, `docs/private-trees.md`).
"""

from dataclasses import dataclass
from math import log2, sqrt
from typing import Final

from msgspec import UNSET

from spinney.protocols.accounts.budget import budget_of
from spinney.protocols.settings import PrivacySettings, require_int

_FEWEST_TREES, _MOST_TREES = 4, 100
_LEAST_DEPTH, _MOST_DEPTH = 3, 12
_SHARPNESS: Final = 2.0
_FEW_CLASSES: Final = 3
_COUNTER_BYTES: Final = 8
_USUAL_TREES: Final = 50
ASSUMED_ROWS: Final = 4000
"""How many rows are assumed if nobody says it."""


@dataclass(frozen=True)
class Size:
    """A forest's size and sharpness, and the public facts behind them, in words."""

    n_estimators: int
    max_depth: int
    sharpness: float
    why: str


def strength_of(privacy: PrivacySettings) -> float:
    """Return epsilon; with a delta, the pure epsilon whose noise would be as large.

    That is the noise of 50 trees: sqrt(50) / mu of Gaussian noise, sqrt(2) x 50 / epsilon of
    Laplace noise.
    """
    if privacy.delta is UNSET:
        return float(privacy.amount)
    return 2.0 * sqrt(_USUAL_TREES * float(budget_of(privacy).amount))


def choose_size(
    *,
    n_rows: int | None,
    epsilon: float,
    n_columns: int,
    n_classes: int,
    message_limit: int,
    n_estimators: int | None = None,
    max_depth: int | None = None,
    budget: str | None = None,
) -> Size:
    """Return the size for about this many rows of all parties; a given number is kept.

    Parameters
    ----------
    n_rows, epsilon, n_columns, n_classes
        The public facts; 0 columns if their number is not known, no rows if theirs is not.
    message_limit
        The most bytes of counters in one reply, which bounds the depth.
    n_estimators, max_depth
        What is already decided.
    budget
        The budget in words, if epsilon only stands for it.
    """
    for name, given in (("n_estimators", n_estimators), ("max_depth", max_depth)):
        if given is not None:
            require_int(name, given, 1)
    rows = ASSUMED_ROWS if n_rows is None else n_rows
    strength = max(1.0, rows * epsilon)
    trees = 0.6 * (2 * strength / n_classes) ** 0.45 if n_estimators is None else n_estimators
    depth = max_depth
    if depth is None:
        wanted = round(log2(max(1.0, strength / (trees * sqrt(n_classes / 2)))))
        depth = min(max(wanted, _LEAST_DEPTH), _MOST_DEPTH)
    if n_estimators is None:
        trees = min(max(trees, 2 * n_columns / depth, _FEWEST_TREES), _MOST_TREES)
    n_trees = round(trees)
    if max_depth is None:
        most = message_limit // (_COUNTER_BYTES * n_trees * n_classes)
        depth = max(1, min(depth, int(log2(max(2, most)))))
    sharpness = _SHARPNESS if n_classes <= _FEW_CLASSES else 1.0
    columns = f", {n_columns} columns" if n_columns else ""
    assumed = " (assumed, because n_rows is not given)" if n_rows is None else ""
    why = (
        f"{n_trees} trees of depth {depth}, chosen for about {rows:,} rows{assumed}, "
        f"{budget or f'epsilon {epsilon:g}'}{columns} and {n_classes} classes"
    )
    return Size(n_trees, depth, sharpness, why)
