"""Zhang and Shasha's distance: known answers, and a plain recursion as its twin."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney.trees import genome
from spinney.trees.edit_distance import edit_distance, normalised_distance


def structure(*genes):
    return np.array(genes, np.int16)


NOTHING = structure(-1, -1, -1)


def test_equal_structures_have_no_distance():
    one = structure(1, 0, 2)
    assert edit_distance(one, one, 2, 2) == 0
    assert normalised_distance(one, one, 2, 2) == 0.0
    assert normalised_distance(NOTHING, NOTHING, 2, 2) == 0.0


@pytest.mark.parametrize(
    ("one", "other", "distance"),
    [
        (structure(1, 0, 2), structure(1, 0, 3), 1),  # one renamed
        (structure(1, 0, 2), structure(1, 0, -1), 1),  # one removed
        (structure(1, 0, 2), structure(1, 2, 0), 2),  # children are ordered
        (structure(1, 0, 2), NOTHING, 3),
        (structure(1, 0, -1), structure(0, -1, -1), 1),  # the root removed
    ],
)
def test_known_distances(one, other, distance):
    assert edit_distance(one, other, 2, 2) == edit_distance(other, one, 2, 2) == distance


def test_detached_genes_do_not_count():
    assert edit_distance(structure(-1, 0, 2), NOTHING, 2, 2) == 0


def test_structures_of_two_depths_can_be_compared():
    assert edit_distance(structure(5), structure(5, -1, 6), 1, 2) == 1
    assert normalised_distance(structure(5), structure(5, -1, 6), 1, 2) == pytest.approx(1 / 3)


def test_nothing_in_common_is_one():
    assert normalised_distance(structure(1, 0, 2), NOTHING, 2, 2) == 1.0


def as_tree(genes, depth, gene=0, level=0):
    """Return nested tuples: label, children."""
    if level == depth or genes[gene] < 0:
        return None
    below = 1 << (depth - level - 1)
    children = (as_tree(genes, depth, child, level + 1) for child in (gene + 1, gene + below))
    return (int(genes[gene]), tuple(child for child in children if child))


def by_recursion(one, other):
    """The definition: on forests, remove, add, or match the last roots."""

    @cache
    def distance(a, b):
        if not a and not b:
            return 0
        if not a:
            return distance(a, b[:-1] + b[-1][1]) + 1
        if not b:
            return distance(a[:-1] + a[-1][1], b) + 1
        return min(
            distance(a[:-1] + a[-1][1], b) + 1,
            distance(a, b[:-1] + b[-1][1]) + 1,
            distance(a[:-1], b[:-1]) + distance(a[-1][1], b[-1][1]) + (a[-1][0] != b[-1][0]),
        )

    return distance(tuple(t for t in (one,) if t), tuple(t for t in (other,) if t))


@given(st.integers(0, 2**32 - 1))
def test_the_distance_is_that_of_the_definition(seed):
    one, other = genome.initial(np.random.default_rng(seed), 2, 3, 3, 0.25)
    assert edit_distance(one, other, 3, 3) == by_recursion(as_tree(one, 3), as_tree(other, 3))


def test_trees_too_large_to_wait_for_have_no_distance():
    whole = np.zeros(genome.n_genes(12), np.int16)
    assert edit_distance(whole, whole, 12, 12) is None
    assert normalised_distance(whole, whole, 12, 12) is None
    assert edit_distance(whole, NOTHING, 12, 2) == whole.size
