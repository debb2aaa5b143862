"""Harden a model before it leaves the federation: close small leaves, round numbers and counts.

Hardening is not differential privacy, and it does not take back what the coordinator has seen.
It hides three things from a reader of the model: exact counts, leaves that describe only a few
people, and thresholds that equal one person's value to the last digit.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from spinney.protocols.model import ForestModel
from spinney.protocols.release_terms import Hardening
from spinney.report.words import some
from spinney.trees.forest import Forest
from spinney.typing import Floats, Integers


def harden(model: ForestModel, how: Hardening) -> tuple[ForestModel, tuple[str, ...]]:
    """Return the hardened model, and a description of each change; `door.release` calls it.

    Small leaves and exact counts are there to hide only where counts are exact. Counts with noise
    are neither (`ForestModel.noise`): closing leaves by them would cost accuracy and hide nothing
    that the noise does not. A tree that holds no rows, such as an evolved structure, has none.
    """
    forest, done, is_class = model.forest, [], counts_classes(model)
    has_counts = holds_exact_rows(model)
    if how.smallest_leaf > 1 and has_counts:
        rows = fewest_rows(model)
        forest, n_closed = _without_small_leaves(forest, rows, how.smallest_leaf)
        splits = some(n_closed, "split", "splits")
        done.append(f"{splits} with fewer than {how.smallest_leaf} rows on a side closed")
    if how.rounds_thresholds:
        forest = replace(forest, threshold=_rounded_thresholds(forest, how.threshold_digits))
        done.append(f"thresholds rounded to {how.threshold_digits} digits of their column's span")
    if how.rounds_values:
        forest = replace(forest, value=_rounded_values(forest.value, how.value_digits, is_class))
        done.append(f"predictions of leaves rounded to {how.value_digits} digits")
    if not how.exact_counts and has_counts:
        moments = coarse_counts(forest.value, _rows(forest, is_class), is_class=is_class)
        moments = moments[:, : forest.moments.shape[1]]  # boosted trees hold only rows
        forest = replace(forest, moments=moments, gain=_significant(forest.gain, 2))
        done.append("counts of nodes rounded to powers of two; no exact count is left")
    if not done:
        return model, ()
    changed = replace(model, forest=forest)
    changed.check("the hardened model")
    return changed, tuple(done)


def holds_exact_rows(model: ForestModel) -> bool:
    """Return whether nodes hold rows that were counted without noise."""
    return model.noise is None and bool(rows_in(model).any())


def rows_in(model: ForestModel) -> Integers:
    """Return how many rows each node holds, by its counts."""
    return _rows(model.forest, counts_classes(model))


def counts_classes(model: ForestModel) -> bool:
    """Return whether nodes count classes; a boosted tree adds numbers, whatever is predicted."""
    return model.schema.label.kind == "class" and model.boosted is None


def fewest_rows(model: ForestModel) -> Floats:
    """Return the fewest rows that each node may have held, if its count was rounded."""
    rows: Floats = rows_in(model).astype(np.float64)
    is_rounded = model.released is not None and not model.released.exact_counts
    return rows / np.sqrt(2) if is_rounded else rows


def _rows(forest: Forest, is_class: bool) -> Integers:  # noqa: FBT001  it selects the moments
    rows: Integers = forest.moments.sum(axis=1) if is_class else forest.moments[:, 0]
    return rows


def _without_small_leaves(forest: Forest, rows: Floats, least: int) -> tuple[Forest, int]:
    """Return the forest after closing every split whose smaller child has too few rows."""
    left = forest.left.astype(np.int64)
    splits = np.flatnonzero(forest.feature >= 0)
    small = splits[np.minimum(rows[left[splits]], rows[left[splits] + 1]) < least]
    feature = forest.feature.copy()
    feature[small] = -1
    keep = _reached(forest, feature)
    number = np.cumsum(keep) - 1
    is_leaf = feature[keep] < 0
    new_left = np.where(is_leaf, np.arange(int(keep.sum())), number[left[keep]])
    start = np.concatenate(
        [[0], np.cumsum(np.add.reduceat(keep.astype(np.int64), forest.tree_start[:-1]))]
    )
    subset = np.where(is_leaf, -1, forest.subset[keep])
    has_set = subset >= 0  # sets of splits that were closed do not leave
    bin_sets = forest.bin_sets[subset[has_set]]
    subset[has_set] = np.arange(len(bin_sets))
    kept = Forest(
        start.astype(np.int64),
        feature[keep],
        np.where(is_leaf, np.float32(0), forest.threshold[keep]),
        new_left.astype(np.uint32),
        forest.missing_left[keep] & ~is_leaf,
        subset.astype(np.int32),
        bin_sets,
        forest.moments[keep],
        np.where(is_leaf, 0.0, forest.gain[keep]),
        forest.value[keep],
    )
    return kept, int(np.isin(np.flatnonzero(keep), small).sum())


def _reached(forest: Forest, feature: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return which nodes a row can still reach."""
    keep = np.zeros(forest.n_nodes, np.bool_)
    level = forest.tree_start[:-1]
    while level.size:
        keep[level] = True
        splits = level[feature[level] >= 0]
        left = forest.left[splits].astype(np.int64)
        level = np.concatenate([left, left + 1])
    return keep


def _rounded_thresholds(forest: Forest, digits: int) -> NDArray[np.float32]:
    """Round thresholds column by column, except those that only separate missing values."""
    rounded = forest.threshold.copy()
    is_number = (forest.feature >= 0) & (forest.subset < 0) & np.isfinite(forest.threshold)
    for column in np.unique(forest.feature[is_number]):
        here = is_number & (forest.feature == column)
        exact = forest.threshold[here].astype(np.float64)
        rounded[here] = _rounded(exact, digits).astype(np.float32)
    return rounded


def _rounded(values: Floats, digits: int) -> Floats:
    """Round numbers to digits of their range; a single number to digits of its magnitude.

    Years and times of day lie far from 0 and close together. Digits of their magnitude would make
    them all equal.
    """
    span = float(values.max() - values.min()) or float(np.abs(values).max()) or 1.0
    unit = 10.0 ** (np.floor(np.log10(span)) - digits + 1)
    found: Floats = np.rint(values / unit) * unit
    return found


def _significant(values: Floats, digits: int) -> Floats:
    size = np.where(values == 0, 1.0, np.abs(values))
    unit = 10.0 ** (np.floor(np.log10(size)) - digits + 1)
    rounded: Floats = np.rint(values / unit) * unit
    return rounded


def _rounded_values(value: Floats, digits: int, is_class: bool) -> Floats:  # noqa: FBT001
    """Return rounded shares that still sum to one, or rounded numbers."""
    if not is_class:
        return _rounded(value, digits)
    rounded = np.round(value, digits)
    total = rounded.sum(axis=1, keepdims=True)
    shares: Floats = np.where(total > 0, rounded / np.where(total > 0, total, 1.0), value)
    return shares


def coarse_counts(value: Floats, rows: Integers, *, is_class: bool) -> Integers:
    """Return counts as powers of two, divided among the classes by the node's value.

    The largest remainders are rounded up, so that a node's counts add up to its power of two.
    """
    power = (2.0 ** np.rint(np.log2(np.maximum(rows, 1)))).astype(np.int64)
    if not is_class:
        return np.stack([power, np.zeros_like(power)], axis=1)
    share = np.maximum(value, 0.0)
    share = share / np.where(share.sum(axis=1) > 0, share.sum(axis=1), 1.0)[:, None]
    wanted = share * power[:, None]
    counts: Integers = np.floor(wanted).astype(np.int64)
    left = power - counts.sum(axis=1)
    order = np.argsort(counts - wanted, axis=1, kind="stable")
    rank = np.argsort(order, axis=1, kind="stable")
    counts += rank < left[:, None]
    return counts
