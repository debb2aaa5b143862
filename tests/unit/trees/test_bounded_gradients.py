"""What one record can move in private boosting, tried on neighbouring tables."""

from fractions import Fraction

import numpy as np
import pytest

from spinney.trees.bounded_gradients import (
    SCALE,
    ClassCounts,
    ClippedSquares,
    ManyClasses,
    TwoClasses,
    leaf_sums,
)

LEAVES = 4
SCORES = np.concatenate([np.linspace(-40, 40, 4001), [0.0, 700.0, -700.0]])


def changes(loss, scores, target):
    """Return what leaf sums change by if each row in turn is taken away: all of them, by row."""
    leaf = np.arange(target.size) % LEAVES
    added = loss.added(scores, target)
    whole = leaf_sums(added, leaf, LEAVES)
    for row in range(0, target.size, 97):
        kept = np.arange(target.size) != row
        less = loss.added(scores[:, kept], target[kept])
        yield whole - leaf_sums(less, leaf[kept], LEAVES)


def require_within(moved, change):
    assert np.abs(change).sum() <= moved.absolute
    assert (change**2).sum() <= moved.squared


@pytest.mark.parametrize("weight", [1, 3])
def test_two_classes_move_a_leaf_by_at_most_what_is_charged(weight):
    loss = TwoClasses(weight)
    for label in (0, 1):
        target = np.full(SCORES.size, label)
        added = loss.added(SCORES[None], target)
        if weight == 1:
            assert np.abs(added).sum(axis=0).max() <= loss.moved.absolute
        else:
            assert (added**2).sum(axis=0).max() <= loss.moved.squared
    for change in changes(loss, SCORES[None], np.arange(SCORES.size) % 2):
        assert np.abs(change[0]).sum() <= SCALE


def test_a_curvature_counted_three_times_is_not_free_for_laplace_noise():
    """The planted fault: with c = 3 the sum of absolute changes exceeds S."""
    added = TwoClasses(3).added(SCORES[None], np.zeros(SCORES.size, np.int64))
    assert np.abs(added).sum(axis=0).max() > TwoClasses(1).moved.absolute


@pytest.mark.parametrize("n_classes", [3, 7])
def test_several_classes_move_a_leaf_by_at_most_what_is_charged(n_classes):
    loss, random = ManyClasses(n_classes), np.random.RandomState(0)
    scores = random.standard_normal((n_classes, 3000)) * random.choice([0.1, 3, 60], 3000)
    target = random.randint(0, n_classes, 3000)
    added = loss.added(scores, target)
    assert np.abs(added).sum(axis=0).max() <= loss.moved.absolute
    assert (added**2).sum(axis=0).max() <= loss.moved.squared
    assert np.abs(added).sum(axis=0).max() > loss.moved.absolute * Fraction(99, 100)
    for change in changes(loss, scores, target):
        require_within(loss.moved, change)


@pytest.mark.parametrize("clip", [1.0, 0.25, 1 / 256])
def test_numbers_move_a_leaf_by_at_most_what_is_charged(clip):
    loss, random = ClippedSquares(clip), np.random.RandomState(0)
    scores = random.uniform(-5, 5, (1, 3000))
    target = random.randint(0, 2**24, 3000)
    target[:2] = 0, 2**24 - 1
    added = loss.added(scores, target)
    assert np.abs(added).sum(axis=0).max() == loss.moved.absolute
    assert (added**2).sum(axis=0).max() == loss.moved.squared
    for change in changes(loss, scores, target):
        require_within(loss.moved, change)


@pytest.mark.parametrize("loss", [TwoClasses(1), ManyClasses(4), ClippedSquares()])
def test_the_first_scores_rest_on_sums_that_move_by_at_most_what_is_charged(loss):
    values = [0, 1] if loss.n_base == 2 and loss.link == "logistic" else [0, 1, 2, 3]
    if loss.link == "identity":
        values = [0, 2**24 - 1, 2**23, 12345]
    some = np.array(values * 3)
    for row in range(some.size):
        change = loss.base_sums(some) - loss.base_sums(np.delete(some, row))
        require_within(loss.base_moved, change)


@pytest.mark.parametrize("loss", [TwoClasses(1), TwoClasses(3), ManyClasses(3), ClippedSquares()])
def test_a_row_adds_the_same_wherever_it_stands(loss):
    """Or taking one row away would change what the rows after it add."""
    random = np.random.RandomState(0)
    scores = random.standard_normal((loss.n_outputs, 503)) * 3
    target = random.randint(0, 2, 503) * (2**24 - 1 if loss.link == "identity" else 1)
    whole = loss.added(scores, target)
    for first in (1, 3, 8, 250, 502):
        part = np.ascontiguousarray(scores[:, first:])
        assert np.array_equal(whole[:, first:], loss.added(part, target[first:]))


@pytest.mark.parametrize("n_classes", [2, 5])
def test_class_counts_move_by_one_and_tell_the_gradients_of_the_first_scores(n_classes):
    counting, random = ClassCounts(n_classes), np.random.RandomState(0)
    target = np.concatenate([np.arange(n_classes), random.randint(0, n_classes, 500)])
    leaf = np.arange(target.size) % LEAVES
    boosted = TwoClasses(1) if n_classes == 2 else ManyClasses(n_classes)
    base = counting.base_sums(target)
    scores = np.repeat(boosted.base(base, 0.0)[:, None], target.size, axis=1)
    for change in changes(counting, scores, target):
        require_within(counting.moved, change)
    found = []
    for loss in (counting, boosted):
        sums = leaf_sums(loss.added(scores, target), leaf, LEAVES).astype(float)
        found.append(loss.read(sums, 0.0, base))
    assert np.allclose(found[0][0], found[1][0], atol=0.1)  # but for rounding towards zero
    assert np.allclose(found[0][1], found[1][1], atol=0.1)
    *_, spread = counting.read(sums[: counting.n_sums], 2.0, base)
    assert np.all(np.asarray(spread) <= 2.0 * n_classes)
