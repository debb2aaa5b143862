"""One tree that imitates other trees, on rows drawn from what is known of each column.

Nothing here reads a row of anybody: the drawn rows follow from shares of bins that carry noise, and
so does what the other trees guess for them. Columns are drawn independently, because nothing is
known of how they go together.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spinney.trees.dtypes import CATEGORY_WORDS, MISSING
from spinney.trees.frontier import ColumnCells
from spinney.trees.level import Level
from spinney.trees.public_trees import Splits, level_of
from spinney.typing import Bools, Codes, Floats, Integers

_BINS = MISSING + 1
_NO_GAIN = 1e-9  # of a split, relative to the rows: below it there is none


def draw_rows(shares: Floats, n_rows: int, generator: np.random.Generator) -> Codes:
    """Draw the bins of rows, (n_columns, n_rows), given the share of each bin, (n_columns, 256).

    Every bin has its share of the rows but for rounding; only their order is drawn.
    """
    places = (np.arange(n_rows) + 0.5) / n_rows
    found = np.empty((len(shares), n_rows), np.uint8)
    for column, share in enumerate(shares):
        below = np.cumsum(share / share.sum())
        bins = np.minimum(np.searchsorted(below, places), MISSING)
        found[column] = generator.permutation(bins.astype(np.uint8))
    return found


def grow_levels(
    codes: Codes, guesses: Floats, columns: ColumnCells, max_depth: int, min_rows: int
) -> tuple[Level, ...]:
    """Grow a tree whose leaves differ most in the mean of their guesses.

    Parameters
    ----------
    codes
        (n_columns, n_rows) bins.
    guesses
        (n_rows, n_classes) whole numbers, so that their sums are exact in any order.
    columns
        The public facts about the columns.
    max_depth, min_rows
        The largest depth, and the fewest rows of a leaf.
    """
    node, n_open = np.zeros(codes.shape[1], np.int64), 1
    levels: list[Level] = []
    while n_open and len(levels) < max_depth:
        rows = np.flatnonzero(node >= 0)  # of open nodes
        at = node[rows]
        column, left = _best_splits(
            codes[:, rows], guesses[rows], columns, _Open(at, n_open, min_rows)
        )
        words = np.packbits(left, axis=1, bitorder="little").view("<u8").astype(np.uint64)
        cut = np.maximum(left[:, :MISSING].sum(axis=1) - 1, 0)
        splits = Splits(column, cut, words.reshape(-1, CATEGORY_WORDS), left[:, MISSING])
        levels.append(level_of(columns, splits, opens=len(levels) + 1 < max_depth))
        is_split = column >= 0
        child = 2 * (np.cumsum(is_split) - 1)
        goes_right = ~left[at, codes[column[at], rows]]
        node[rows] = np.where(is_split[at], child[at] + goes_right, -1)
        n_open = 2 * int(is_split.sum())
    return tuple(levels)


@dataclass(frozen=True)
class _Open:
    """The open nodes: each row's, how many there are, and the fewest rows of a child."""

    of_row: Integers
    n: int
    min_rows: int


def _best_splits(
    codes: Codes, guesses: Floats, columns: ColumnCells, nodes: _Open
) -> tuple[NDArray[np.int32], Bools]:
    """Return the column of each open node's best split, or -1, and the bins that go left."""
    shape = (nodes.n, _BINS)
    best = np.full(nodes.n, _NO_GAIN * nodes.of_row.size)
    chosen = np.full(nodes.n, -1, np.int32)
    left, at = np.zeros(shape, np.bool_), np.arange(nodes.n)
    for column, bins in enumerate(codes):
        cell = nodes.of_row * _BINS + bins
        rows = np.bincount(cell, minlength=nodes.n * _BINS).reshape(shape)
        lines = [np.bincount(cell, line, nodes.n * _BINS).reshape(shape) for line in guesses.T]
        sums: Floats = np.stack(lines, axis=-1).astype(np.float64)
        for order in _orders(rows, sums, is_category=bool(columns.is_category[column])):
            gain = _gains(rows, sums, order, nodes.min_rows)
            cut = gain.argmax(axis=1)
            better = gain[at, cut] > best
            best[better] = gain[at, cut][better]
            chosen[better] = column
            sides = np.zeros(shape, np.bool_)
            np.put_along_axis(sides, order, np.arange(_BINS) <= cut[:, None], axis=1)
            left[better] = sides[better]
    return chosen, left


def _orders(rows: Integers, sums: Floats, *, is_category: bool) -> list[Integers]:
    """Return the orders in which bins may be cut: as they are, or by the mean guess of a class.

    Bins without rows come last, so that they go right.
    """
    if not is_category:
        return [np.broadcast_to(np.arange(_BINS), rows.shape)]
    means = np.where(rows[..., None] > 0, sums / np.maximum(rows, 1)[..., None], np.inf)
    classes = range(1, 2) if sums.shape[-1] == 2 else range(sums.shape[-1])
    return [np.argsort(means[..., k], axis=1, kind="stable") for k in classes]


def _gains(rows: Integers, sums: Floats, order: Integers, min_rows: int) -> Floats:
    """Return how much of the guesses' variance each cut explains; below zero: it cannot be made."""
    n_left = np.cumsum(np.take_along_axis(rows, order, axis=1), axis=1)
    of_left = np.cumsum(np.take_along_axis(sums, order[..., None], axis=1), axis=1)
    n_all, of_all = n_left[:, -1:], of_left[:, -1:]
    n_right, of_right = n_all - n_left, of_all - of_left
    gain = _squares(of_left, n_left) + _squares(of_right, n_right) - _squares(of_all, n_all)
    found: Floats = np.where((n_left >= min_rows) & (n_right >= min_rows), gain, -1.0)
    return found


def _squares(sums: Floats, rows: Integers) -> Floats:
    squares: Floats = (sums**2).sum(axis=-1) / np.maximum(rows, 1)
    return squares
