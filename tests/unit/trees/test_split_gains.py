"""The best split of random nodes is as good as any that a slow search finds."""

from fractions import Fraction
from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spinney.trees._kernels.split import ALIKE, APART
from spinney.trees.split import Criterion, LeastLeaf
from unit.trees.split_cases import (  # type: ignore[import-not-found]
    found_in,
    sent_left,
)


def spread(counts, criterion):
    """Return a side's weight times its impurity, from its (weighted) class counts."""
    weight = counts.sum()
    if weight <= 0:
        return 0.0
    shares = counts[counts > 0] / weight
    if criterion == "gini":
        return float(weight * (1 - (shares**2).sum()))
    return float(-weight * (shares * np.log2(shares)).sum())


def gain_of(left, total, criterion, class_weight):
    if criterion == "squared_error":
        (n, s), (n_all, s_all) = map(Fraction, left), map(Fraction, total)  # nothing cancels
        both = s**2 / n + (s_all - s) ** 2 / (n_all - n)
        return float(both - s_all**2 / n_all)
    left, total = left * class_weight, total * class_weight
    return spread(total, criterion) - spread(left, criterion) - spread(total - left, criterion)


def rows_of(counts, criterion):
    return counts[0] if criterion == "squared_error" else counts.sum()


def number_sides(cells, *, has_missing):
    """Give every set of cells that a cut of a number sends left."""
    n = len(cells) - has_missing
    for cut in range(n):
        yield tuple(range(cut + 1))  # gaps right
        if has_missing:
            yield (*range(cut + 1), n)


def category_sides(cells):
    """Give every set of cells but none and all."""
    used = range(len(cells))
    return chain.from_iterable(combinations(used, size) for size in range(1, len(cells)))


def best_gain(cells, sides, criterion, class_weight, least=1):
    """Return the best gain over all sides that leave enough rows on both, or None."""
    total = cells.sum(axis=0)
    best = None
    for side in sides:
        left = cells[list(side)].sum(axis=0)
        n_left = rows_of(left, criterion)
        if n_left < max(least, 1) or rows_of(total, criterion) - n_left < max(least, 1):
            continue
        gain = gain_of(left.astype(float), total.astype(float), criterion, class_weight)
        best = gain if best is None else max(best, gain)
    return best


def require_sound(best, cells_of_slot, is_category, has_missing, criterion):
    """Raise unless the split's facts agree: the left side, its size and the gain."""
    slot = best.slot[0]
    cells = cells_of_slot[slot]
    left = sent_left(best, cells, is_category=is_category[slot], has_missing=has_missing[slot])
    assert cells[left].sum(axis=0).tolist() == best.left[0].tolist()
    assert cells.sum(axis=0).tolist() == best.total[0].tolist()
    weights = criterion.class_weight
    gain = gain_of(best.left[0].astype(float), best.total[0].astype(float), criterion.name, weights)
    assert best.gain[0] == pytest.approx(gain, rel=1e-9, abs=1e-6)


def slot_of(data, total, n_cells, n_kinds):
    """Draw cells whose sums are `total`: every slot of a node holds the same rows."""
    cells = np.zeros((n_cells, n_kinds), np.int64)
    for kind, n in enumerate(total):
        places = data.draw(st.lists(st.integers(0, n_cells - 1), min_size=n, max_size=n))
        np.add.at(cells[:, kind], places, 1)
    return cells


@settings(max_examples=150)
@given(
    data=st.data(),
    n_classes=st.integers(2, 4),
    name=st.sampled_from(["gini", "entropy"]),
    least=st.integers(1, 4),
    weighted=st.booleans(),
)
def test_a_number_is_cut_where_it_gains_most(data, n_classes, name, least, weighted):
    total = data.draw(st.lists(st.integers(0, 6), min_size=n_classes, max_size=n_classes))
    has_missing = data.draw(st.lists(st.booleans(), min_size=1, max_size=3))
    cells_of_slot = [
        slot_of(data, total, data.draw(st.integers(0 if gap else 1, 6)) + gap, n_classes)
        for gap in has_missing
    ]
    weights = np.arange(1, n_classes + 1) / 2 if weighted else np.ones(n_classes)
    criterion = Criterion.of(name, weights, sum(total) + 1)
    is_category = [False] * len(cells_of_slot)
    best = found_in(cells_of_slot, is_category, has_missing, criterion, least=LeastLeaf(least))
    gains = [
        best_gain(cells, number_sides(cells, has_missing=gap), name, weights, least)
        for cells, gap in zip(cells_of_slot, has_missing, strict=True)
    ]
    known = [gain for gain in gains if gain is not None]
    if not known:
        is_apart = any((cells.sum(axis=1) > 0).sum() > 1 for cells in cells_of_slot)
        assert best.slot[0] == (APART if is_apart else ALIKE)
        return
    assert best.gain[0] == pytest.approx(max(known), rel=1e-9, abs=1e-9)
    require_sound(best, cells_of_slot, is_category, has_missing, criterion)
    assert min(best.left[0].sum(), (best.total[0] - best.left[0]).sum()) >= least


@settings(max_examples=150)
@given(
    data=st.data(),
    name=st.sampled_from(["gini", "entropy"]),
    has_missing=st.booleans(),
    weighted=st.booleans(),
)
def test_of_two_classes_the_best_subset_of_categories_is_found(data, name, has_missing, weighted):
    total = data.draw(st.lists(st.integers(0, 8), min_size=2, max_size=2))
    cells = slot_of(data, total, data.draw(st.integers(1, 6)) + has_missing, 2)
    weights = np.array([2.5, 0.5]) if weighted else np.ones(2)
    criterion = Criterion.of(name, weights, sum(total) + 1)
    best = found_in([cells], [True], [has_missing], criterion)
    expected = best_gain(cells, category_sides(cells), name, weights)
    if expected is None:
        assert best.slot[0] == -1
    else:
        assert best.gain[0] == pytest.approx(expected, rel=1e-9, abs=1e-9)
        require_sound(best, [cells], [True], [has_missing], criterion)


@settings(max_examples=150)
@given(data=st.data(), n_classes=st.integers(3, 4), has_missing=st.booleans())
def test_of_more_classes_a_subset_at_least_as_good_as_any_one_against_the_rest_is_found(
    data, n_classes, has_missing
):
    total = data.draw(st.lists(st.integers(0, 5), min_size=n_classes, max_size=n_classes))
    cells = slot_of(data, total, data.draw(st.integers(2, 5)) + has_missing, n_classes)
    weights = np.ones(n_classes)
    criterion = Criterion.of("gini", weights, sum(total) + 1)
    best = found_in([cells], [True], [has_missing], criterion)
    optimum = best_gain(cells, category_sides(cells), "gini", weights)
    if optimum is None:
        assert best.slot[0] == -1
        return
    require_sound(best, [cells], [True], [has_missing], criterion)
    used = np.flatnonzero(cells.sum(axis=1))
    prefixes = set()
    for kind in range(n_classes):
        share = cells[used, kind] / cells[used].sum(axis=1)
        order = used[np.argsort(share, kind="stable")]
        prefixes |= {tuple(order[: i + 1]) for i in range(len(order) - 1)}
    tried = best_gain(cells, prefixes, "gini", weights)
    assert tried is not None
    assert best.gain[0] >= tried - 1e-9
    assert best.gain[0] <= optimum + 1e-9


@settings(max_examples=200)
@given(
    data=st.data(), is_category=st.booleans(), has_missing=st.booleans(), least=st.integers(1, 4)
)
def test_amounts_are_parted_where_their_means_differ_most(data, is_category, has_missing, least):
    if is_category:
        least = 1  # otherwise the best subset may not be a prefix in the order of the means
    n_cells = data.draw(st.integers(1, 6)) + has_missing
    top = data.draw(st.sampled_from([3, 1000, 2**24 - 1, 2**40 - 1]))
    base = data.draw(st.sampled_from([0, 2**40]))  # sums of many rows with a far-off mean
    weights = data.draw(st.lists(st.integers(0, 5), min_size=n_cells, max_size=n_cells))
    sums = [n * base + sum(data.draw(st.integers(0, top)) for _ in range(n)) for n in weights]
    cells = np.array([weights, sums], np.int64).T
    criterion = Criterion.of("squared_error", np.zeros(0), 0)
    best = found_in([cells], [is_category], [has_missing], criterion, least=LeastLeaf(least))
    sides = category_sides(cells) if is_category else number_sides(cells, has_missing=has_missing)
    centred = cells.copy()  # the gain does not depend on where zero is
    centred[:, 1] -= cells[:, 0] * base
    expected = best_gain(centred, sides, "squared_error", np.zeros(0), least)
    if expected is None or expected <= 1e-3:
        assert best.slot[0] == -1 or best.gain[0] <= 1e-3 + 1e-9 * top**2
        return
    assert best.gain[0] == pytest.approx(expected, rel=1e-9)
    left = sent_left(best, cells, is_category=is_category, has_missing=has_missing)
    assert cells[left].sum(axis=0).tolist() == best.left[0].tolist()
    assert best.left[0, 0] >= least
    assert best.total[0, 0] - best.left[0, 0] >= least
