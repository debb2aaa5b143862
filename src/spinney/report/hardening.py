"""Harden a model before it leaves the federation: close small leaves, round numbers and counts.

Hardening is not differential privacy, and it does not take back what the coordinator has seen.
It hides three things from a reader of the model: exact counts, leaves that describe only a few
people, and thresholds that equal one person's value to the last digit.

A count is hidden only if the numbers beside it do not tell it: 0.167 of about 8 rows is 1 of 6. So
predictions of a node are as coarse as its count. A node that is told to hold 2^k rows divides them
into lots of four; its shares are those lots', and no lot tells how many of its rows are of which
class. A gain, however coarse, would tell which of the few counts that are left it belongs to; so
what is told is the gain that follows from the counts and predictions that are told.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from spinney.protocols.model import Boosted, ForestModel
from spinney.protocols.private_evaluation.measures import PrivateQuality
from spinney.protocols.release_terms import Hardening
from spinney.report.narrowing import LOT, bounds_told, lots_of, smallest_power
from spinney.report.words import some
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.withheld import (
    UndeclaredRows,
    rounded_outward,
    without_categories,
    without_classes,
)
from spinney.trees.forest import Forest
from spinney.typing import Floats, Integers

Place = TypeVar("Place", Column, Label)

_WEIGHT_STEPS = 8  # of a class's weight, in a doubling


def harden(model: ForestModel, how: Hardening) -> tuple[ForestModel, tuple[str, ...]]:
    """Return the hardened model, and a description of each change; `door.release` calls it.

    Small leaves and exact counts are there to hide only where counts are exact. Counts with noise
    are neither (`ForestModel.noise`): closing leaves by them would cost accuracy and hide nothing
    that the noise does not. A tree that holds no rows, such as an evolved structure, has none.
    """
    forest, done, is_class = model.forest, [], counts_classes(model)
    has_counts = holds_exact_rows(model)
    if how.smallest_leaf > 1 and has_counts:
        small = _small_splits(forest, fewest_rows(model), how.smallest_leaf)
        forest, n_closed = _without(forest, small)
        splits = some(n_closed, "split", "splits")
        done.append(f"{splits} with fewer than {how.smallest_leaf} rows on a side closed")
    if how.rounds_thresholds:
        forest = replace(forest, threshold=_rounded_thresholds(forest, how.threshold_digits))
        done.append(
            f"thresholds rounded to {how.threshold_digits} digits of their column's span; a row "
            "between a threshold and its rounded value now goes the other way"
        )
    if not how.exact_counts and has_counts:
        if model.boosted is not None:
            model = replace(model, boosted=_coarse_start(model.boosted, forest, how))
        forest, n_closed = _without_told_counts(forest, how, is_class)
        done.append("counts of nodes rounded to powers of two, and predictions as coarsely")
        if n_closed:
            splits = some(n_closed, "split", "splits")
            done.append(f"{splits} closed from which an exact count would have followed")
    if how.rounds_values:
        forest = replace(forest, value=_rounded_values(forest.value, how.value_digits, is_class))
        done.append(f"predictions of leaves rounded to {how.value_digits} digits")
    if not how.exact_counts and has_counts:
        forest = replace(forest, gain=_told_gains(forest))
    named, n_withheld = withhold(replace(model, forest=forest), how.smallest_leaf)
    done += _withheld_in_words(n_withheld, how.smallest_leaf)
    if not done:
        return model, ()
    named.check("the hardened model")
    return named, tuple(done)


class Withheld(NamedTuple):
    """How many values lost their text."""

    categories: int
    classes: int
    ranges: int


def withhold(model: ForestModel, fewest: int) -> tuple[ForestModel, Withheld]:
    """Return the model without the text of undeclared values that a reader must not see.

    These are the categories and classes that fewer than `fewest` rows hold, and all categories of a
    column by which no tree splits. Also return how many there are.
    """
    used = set(np.unique(model.forest.feature).tolist())
    columns, label, n_withheld, n_classes = list(model.schema.columns), model.schema.label, 0, 0
    for place, rows in enumerate(model.undeclared.of_category):
        if rows is not None:
            hidden = (rows < fewest) | (place not in used)
            columns[place] = without_categories(columns[place], hidden)
            n_withheld += int(hidden.sum())
    if model.undeclared.of_class is not None:
        rare = model.undeclared.of_class < fewest
        label, n_classes = without_classes(label, rare), int(rare.sum())
    read = model.undeclared.ranges
    schema = Schema(tuple(_wider(column, read) for column in columns), _wider(label, read))
    shown = replace(model, schema=schema, undeclared=UndeclaredRows())
    return shown, Withheld(n_withheld, n_classes, _n_widened(model))


def _wider(place: Place, read: Collection[str]) -> Place:
    """Return a column or a label without the ends that were read from rows."""
    if place.range is None or place.name not in read:
        return place
    return replace(place, range=rounded_outward(*place.range))


def _n_widened(model: ForestModel) -> int:
    places: tuple[Column | Label, ...] = (*model.schema.columns, model.schema.label)
    return sum(one.range is not None and one.name in model.undeclared.ranges for one in places)


def _withheld_in_words(found: Withheld, fewest: int) -> list[str]:
    said = []
    if found.ranges:
        what = some(found.ranges, "range", "ranges")
        said.append(f"{what} that nobody declared rounded outward: the ends are cells of rows")
    if found.categories:
        what = some(found.categories, "category", "categories")
        why = "too few rows hold them, or no split asks for them"
        said.append(f"{what} that nobody declared withheld: {why}")
    if found.classes:
        what = some(found.classes, "class", "classes")
        why = f"fewer than {fewest} rows hold them; declare them, or mend their spelling"
        said.append(f"{what} that nobody declared withheld: {why}")
    return said


def with_shown_classes(quality: PrivateQuality, model: ForestModel, fewest: int) -> PrivateQuality:
    """Return a measured quality that names the model's classes as a reader may see them."""
    shown, _ = withhold(model, fewest)
    return structs.replace(quality, classes=tuple(map(str, shown.schema.label.classes or ())))


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
    terms = model.released
    if terms is None or terms.exact_counts:
        return rows
    is_least = rows <= smallest_power(terms.smallest_leaf)
    return np.where(is_least, terms.smallest_leaf, np.ceil(rows / np.sqrt(2)))


def _rows(forest: Forest, is_class: bool) -> Integers:  # noqa: FBT001  it selects the moments
    rows: Integers = forest.moments.sum(axis=1) if is_class else forest.moments[:, 0]
    return rows


def _small_splits(forest: Forest, rows: Floats, least: int) -> Integers:
    """Return the splits whose smaller child has too few rows."""
    splits: Integers = np.flatnonzero(forest.feature >= 0)
    left = forest.left[splits].astype(np.int64)
    return splits[np.minimum(rows[left], rows[left + 1]) < least]


def _without_told_counts(forest: Forest, how: Hardening, is_class: bool) -> tuple[Forest, int]:  # noqa: FBT001
    """Return the forest with coarse counts, after closing the splits that would still tell one."""
    n_closed = 0
    while True:
        coarse = _coarse(forest, how, is_class)
        least, most = bounds_told(coarse, how, is_class=is_class)
        told = np.any(least == most, axis=1)
        splits = np.flatnonzero(forest.feature >= 0)
        left = forest.left[splits].astype(np.int64)
        is_leaf = forest.feature < 0
        tells = told[splits] | (told & is_leaf)[left] | (told & is_leaf)[left + 1]
        if not tells.any():
            return coarse, n_closed
        forest, n = _without(forest, splits[tells])
        n_closed += n


def _without(forest: Forest, closed: Integers) -> tuple[Forest, int]:
    """Return the forest after closing some splits, and how many of them a row could reach."""
    left = forest.left.astype(np.int64)
    feature = forest.feature.copy()
    feature[closed] = -1
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
    return kept, int(np.isin(np.flatnonzero(keep), closed).sum())


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


def _rounded_values(value: Floats, digits: int, is_class: bool) -> Floats:  # noqa: FBT001
    """Return rounded shares that still sum to one, or rounded numbers."""
    if not is_class:
        return _rounded(value, digits)
    rounded = np.round(value, digits)
    total = rounded.sum(axis=1, keepdims=True)
    shares: Floats = np.where(total > 0, rounded / np.where(total > 0, total, 1.0), value)
    return shares


def coarse_counts(moments: Integers, how: Hardening, *, is_class: bool) -> Integers:
    """Return counts as powers of two, divided among the classes in lots of four rows or more.

    There are no more lots than shares of so many digits. Those with the largest remainders are
    rounded up, so that a node's counts add up to its power of two. Noise may have left a count
    below zero, or no row at all: then classes share alike.
    """
    moments = np.maximum(moments, 0)
    rows = moments.sum(axis=1) if is_class else moments[:, 0]
    nearest = (2.0 ** np.rint(np.log2(np.maximum(rows, 1)))).astype(np.int64)
    power = np.maximum(nearest, smallest_power(how.smallest_leaf))
    if not is_class:
        return np.where(np.arange(moments.shape[1]) == 0, power[:, None], 0)
    n_lots = lots_of(power, how.value_digits)
    shares = np.where(
        rows[:, None] > 0, moments / np.maximum(rows, 1)[:, None], 1 / moments.shape[1]
    )
    wanted = shares * n_lots[:, None]
    counts: Integers = np.floor(wanted).astype(np.int64)
    left = n_lots - counts.sum(axis=1)
    order = np.argsort(counts - wanted, axis=1, kind="stable")
    rank = np.argsort(order, axis=1, kind="stable")
    counts += rank < left[:, None]
    return counts * (power // n_lots)[:, None]


def _coarse(forest: Forest, how: Hardening, is_class: bool) -> Forest:  # noqa: FBT001
    """Return the forest with coarse counts, and predictions that tell no more."""
    moments = coarse_counts(forest.moments, how, is_class=is_class)
    power = moments.sum(axis=1)
    if is_class:
        shares = moments * _class_weights(forest)
        total = shares.sum(axis=1, keepdims=True)
        value = np.where(total > 0, shares / np.where(total > 0, total, 1.0), forest.value)
    else:
        value = _coarse_numbers(forest, power)
    return replace(forest, moments=moments, value=value)


def _told_gains(forest: Forest) -> Floats:
    """Return how far each split moves its rows' predictions, squared, by what the forest tells."""
    splits = np.flatnonzero(forest.feature >= 0)
    left, rows = forest.left[splits].astype(np.int64), forest.moments.sum(axis=1).astype(np.float64)
    apart = ((forest.value[left] - forest.value[left + 1]) ** 2).sum(axis=1)
    gain = np.zeros(forest.n_nodes)
    gain[splits] = apart / (1.0 / rows[left] + 1.0 / rows[left + 1])
    return gain


def _coarse_start(boosted: Boosted, forest: Forest, how: Hardening) -> Boosted:
    """Round where boosting starts as coarsely as a root: log odds of all rows are two counts."""
    root = coarse_counts(forest.moments[:1], how, is_class=False)
    lots = float(lots_of(root[:, 0], how.value_digits)[0])
    if boosted.link in ("logistic", "softmax"):
        shares = boosted.predicted(np.zeros((1, boosted.base.size)))[0]
        told = np.maximum(np.rint(shares * lots), 0.5)
        odds = np.log(told / told.sum())
        return replace(boosted, base=odds[1:] - odds[:1] if odds.size == 2 else odds)
    # A tree that is one leaf has no spread; then the start tells its own magnitude.
    spread = float(np.std(forest.tree(0).value)) or float(np.abs(boosted.base).max())
    unit = float(_power_of_two(np.array(spread))) / lots
    return replace(boosted, base=np.rint(boosted.base / unit) * unit)


def _power_of_two(size: Floats) -> Floats:
    """Return sizes rounded down to powers of two: an exact spread would tell sums and counts."""
    powers: Floats = 2.0 ** np.floor(np.log2(np.where(size > 0, size, 1.0)))
    return powers


def _class_weights(forest: Forest) -> Floats:
    """Return the weight of each class in the predictions, read from nodes that hold two classes."""
    counts, value = forest.moments, forest.value
    common = int(counts.sum(axis=0).argmax())
    weights = np.ones(counts.shape[1])
    for other in range(counts.shape[1]):
        both = np.minimum(counts[:, other], counts[:, common])
        node = int(both.argmax())
        if both[node] > 0 and value[node, common] > 0:
            ratio = value[node, other] / value[node, common]
            weights[other] = ratio * counts[node, common] / counts[node, other]
    # Balanced weights are ratios of exact counts.
    doublings = np.log2(np.where(weights > 0, weights, 1.0))
    coarse: Floats = 2.0 ** (np.rint(doublings * _WEIGHT_STEPS) / _WEIGHT_STEPS)
    return np.where(weights > 0, coarse, 0.0)


def _coarse_numbers(forest: Forest, power: Integers) -> Floats:
    """Round predicted numbers to four parts in the node's rows of how far its tree spreads."""
    tree = np.repeat(np.arange(forest.n_trees), np.diff(forest.tree_start))
    n_nodes = np.bincount(tree)[:, None]
    value = forest.value
    mean = np.add.reduceat(value, forest.tree_start[:-1]) / n_nodes
    square = (value - mean[tree]) ** 2
    spread = np.sqrt(np.add.reduceat(square, forest.tree_start[:-1]) / n_nodes)
    unit = _power_of_two(spread)[tree] * (LOT / power)[:, None]
    rounded: Floats = np.where(spread[tree] > 0, np.rint(value / unit) * unit, value)
    return rounded
