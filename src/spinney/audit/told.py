"""The counts that a model tells its reader, exactly or between the lines.

A hardened model rounds the rows of a node to a power of two, but the shares of its classes may
still fit only one number of rows: 0.167 of about 8 rows is 1 of 6.
"""

import numpy as np

from spinney.protocols.model import ForestModel
from spinney.trees.forest import Forest
from spinney.typing import Bools, Integers

_UNKNOWN = -1
_MOST_ROWS = 64  # the shares of larger leaves fit many numbers of rows
_ROUNDED = 8e-4  # shares of three digits, made to sum to one


def has_exact_counts(model: ForestModel) -> bool:
    """Return whether nodes hold exact counts: then children add up to their parent everywhere."""
    forest = model.forest
    split = np.flatnonzero(forest.feature >= 0)
    rows = rows_told(model)
    if not split.size:
        return bool(np.any(rows != 2 ** np.rint(np.log2(np.maximum(rows, 1)))))
    left = forest.left[split].astype(np.int64)
    sums = forest.moments[left] + forest.moments[left + 1]
    adds_up = np.all(sums == forest.moments[split], axis=1)
    return bool(np.all(adds_up))


def rows_told(model: ForestModel) -> Integers:
    """Return how many rows each node says that it has."""
    moments = model.forest.moments
    is_class = model.schema.label.kind == "class"
    rows: Integers = moments.sum(axis=1) if is_class else moments[:, 0]
    return rows


def counts_told(model: ForestModel, *, is_noisy: bool) -> Integers:
    """Return the rows of each class in each leaf, (n_nodes, n_classes), or -1 if not told.

    A model of numbers has one class. Noise tells no count.
    """
    forest = model.forest
    is_class = model.schema.label.kind == "class"
    told = forest.moments if is_class else forest.moments[:, :1]
    if is_noisy:
        return np.full_like(told, _UNKNOWN)
    if has_exact_counts(model):
        return told
    found = np.full_like(told, _UNKNOWN)
    if is_class:
        for node in np.flatnonzero(_may_be_read(forest, rows_told(model))):
            found[node] = _between_the_lines(forest, int(node))
    return found


def _may_be_read(forest: Forest, rows: Integers) -> Bools:
    found: Bools = (forest.feature < 0) & (rows <= _MOST_ROWS)
    return found


def _between_the_lines(forest: Forest, node: int) -> Integers:
    """Return the counts that fit a leaf's shares, where all numbers of rows agree on them."""
    power, share = int(forest.moments[node].sum()), forest.value[node]
    rows = np.arange(max(1, int(np.ceil(power / 2**0.5))), int(power * 2**0.5) + 1)
    counts = share * rows[:, None]
    fits = np.all(np.abs(counts - np.rint(counts)) <= _ROUNDED * rows[:, None], axis=1)
    if not fits.any():
        return np.full(share.size, _UNKNOWN, np.int64)
    whole = np.rint(counts[fits]).astype(np.int64)
    same = np.all(whole == whole[0], axis=0)
    return np.where(same, whole[0], _UNKNOWN)
