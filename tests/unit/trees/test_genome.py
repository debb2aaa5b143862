"""Structures as strings: encoding, reading, crossover and the three mutations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney.errors import SettingError
from spinney.trees import genome

# the paper's figure 2: a structure of depth 3, pre-order, whose root asks about column 1
FIGURE = np.array([[1, 0, 3, -1, 2, -1, 3]], np.int16)


def random(seed=0):
    return np.random.default_rng(seed)


def test_a_structure_of_depth_d_has_two_to_the_d_less_one_genes():
    assert [genome.n_genes(depth) for depth in (1, 2, 3, 15)] == [1, 3, 7, 32767]


def test_parents_stand_in_pre_order():
    assert genome.parents(3).tolist() == [-1, 0, 1, 1, 0, 4, 4]


def test_all_genes_that_hang_together_with_the_root_are_nodes():
    assert genome.find_connected(FIGURE, 3)[0].tolist() == [
        True,
        True,
        True,
        False,
        True,
        False,
        True,
    ]
    assert genome.n_nodes(FIGURE, 3).tolist() == [5]


def test_detached_subtrees_are_left_out():
    cut = FIGURE.copy()
    cut[0, 4] = genome.NIL
    assert genome.drop_detached(cut, 3)[0].tolist() == [1, 0, 3, -1, -1, -1, -1]
    assert cut[0, 6] == 3  # but not forgotten: a node above brings it back
    cut[0, 0] = genome.NIL
    assert genome.n_nodes(cut, 3).tolist() == [0]


def test_random_structures_lack_a_share_of_their_nodes():
    genes = genome.initial(random(), 400, 6, 9, 0.1)
    assert genes.shape == (400, 63)
    assert set(np.unique(genes)) == set(range(-1, 9))
    assert np.mean(genes == genome.NIL) == pytest.approx(0.1, abs=0.01)


def test_offspring_are_the_front_of_one_parent_and_the_rest_of_the_other():
    pool = np.array([[0] * 7, [1] * 7] * 20, np.int16)
    children = genome.cross(random(), pool, 40)
    for first, second in zip(children[0::2], children[1::2], strict=True):
        assert np.array_equal(first + second, np.ones(7))
        assert np.count_nonzero(np.diff(first)) == 1
        assert first[0] == 0


@given(st.integers(1, 6), st.integers(0, 2**32 - 1), st.integers(1, 9))
def test_a_mutation_changes_genes_and_nothing_else(depth, seed, n_columns):
    genes = genome.initial(random(seed), 3, depth, n_columns, 0.2)
    before = genes.copy()
    found = genome.mutate(random(seed), genes, n_columns, 0.3, 0.3)
    assert np.array_equal(genes, before)
    assert found.shape == genes.shape
    genome.require_structures(found, depth, n_columns)


def test_a_flip_puts_another_column_or_none_at_so_many_places():
    genes = np.full((50, 15), 2, np.int16)
    found = genome._flipped(random(), genes, 4, 3)
    assert np.all((found != genes).sum(axis=1) == 3)
    assert set(np.unique(found)) == {-1, 0, 1, 2, 3}


def test_a_swap_keeps_the_same_genes():
    genes = np.tile(np.arange(15, dtype=np.int16), (20, 1))
    found = genome._swapped(random(), genes, 1)
    assert np.all(np.sort(found, axis=1) == genes)
    assert np.all((found != genes).sum(axis=1) <= 2)
    assert (found != genes).any()


def test_parts_are_put_in_another_order():
    genes = np.tile(np.arange(15, dtype=np.int16), (20, 1))
    found = genome._reordered(random(), genes)
    assert np.all(np.sort(found, axis=1) == genes)
    assert np.all((np.diff(found, axis=1) != 1).sum(axis=1) <= 2)
    short = np.zeros((2, 1), np.int16)
    assert np.array_equal(genome._reordered(random(), short), short)


def test_a_share_of_genes_is_one_at_least_unless_it_is_none():
    assert [genome.share_of(7, share) for share in (0.0, 0.05, 0.5, 1.0)] == [0, 1, 4, 7]


@pytest.mark.parametrize(
    ("genes", "depth"),
    [
        (np.zeros((2, 6), np.int16), 3),
        (np.full((2, 7), 4, np.int16), 3),
        (np.full((2, 7), -2, np.int16), 3),
        (np.zeros((2, 0), np.int16), 0),
    ],
)
def test_structures_that_do_not_fit_are_refused(genes, depth):
    with pytest.raises(SettingError, match="do not fit their depth or the table's columns"):
        genome.require_structures(genes, depth, 4)
