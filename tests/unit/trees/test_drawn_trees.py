"""Trees drawn over one or two columns: rows end where the laid-out forest sends them."""

import numpy as np
import pytest

from spinney.trees.binning import Binning
from spinney.trees.drawn_trees import DrawnTrees
from spinney.trees.layout import LeafValues, forest_of_leaves
from spinney.trees.noisy_edges import cell_counts, noisy_edges

EDGES = tuple(np.linspace(0, 1, 21)[1:-1].astype(np.float32) for _ in range(2))
NOTHING = np.zeros(0, np.uint8)


@pytest.fixture(scope="module")
def binning():
    categories = np.arange(5, dtype=np.uint8)
    return Binning(
        (*EDGES, np.zeros(0, np.float32)), (NOTHING, NOTHING, categories), np.ones(3, bool)
    )


@pytest.mark.parametrize("chosen", [[[0], [1], [2]], [[0, 2], [2, 1], [1, 0]]])
def test_rows_end_in_the_leaf_of_the_laid_out_forest(binning, chosen):
    trees = DrawnTrees.draw(binning.columns, np.array(chosen), 3, np.random.default_rng(0))
    random = np.random.RandomState(1)
    values = np.stack([random.rand(300), random.rand(300), random.randint(0, 5, 300)])
    values = values.astype(np.float32)
    values[:, ::17] = np.nan
    codes = np.empty((3, 300), np.uint8)
    binning.codes(values, codes, 1)
    numbers = np.arange(trees.n_trees * 8, dtype=np.int64)[:, None]
    forest = forest_of_leaves(3, trees.levels(), numbers, binning, LeafValues(np.ones(1)))
    rows = np.ascontiguousarray(values.T)
    for tree in range(3):
        found = forest.moments[forest.leaves(rows, tree), 0] - tree * 8
        assert np.array_equal(found, trees.leaves(codes, tree))
        assert np.unique(found).size > 3


def test_categories_end_in_leaves_of_their_own_while_there_are_leaves(binning):
    trees = DrawnTrees.draw(binning.columns, np.array([[2]] * 40), 4, np.random.default_rng(0))
    codes = np.zeros((3, 5), np.uint8)
    codes[2] = np.arange(5)
    apart = [np.unique(trees.leaves(codes, tree)).size for tree in range(40)]
    assert min(apart) >= 4
    assert max(apart) == 5


def test_whole_trees_have_a_leaf_for_every_bin_and_one_for_missing_values():
    sizes = (1, 2, 3, 128, 255)
    edges = tuple(np.arange(size - 1, dtype=np.float32) for size in sizes)
    categories = (np.arange(200, dtype=np.uint8),)
    binning = Binning(
        (*edges, np.zeros(0, np.float32)),
        (*(NOTHING for _ in sizes), *categories),
        np.ones(6, bool),
    )
    chosen = np.flatnonzero(binning.columns.n_bins > 1)
    trees = DrawnTrees.whole(binning.columns, chosen)
    n_leaves = 1 << trees.depth
    numbers = np.arange(trees.n_trees * n_leaves, dtype=np.int64)[:, None]
    levels = trees.levels()
    forest = forest_of_leaves(trees.n_trees, levels, numbers, binning, LeafValues(np.ones(1)))
    for tree, column in enumerate(chosen):
        n_bins = int(binning.columns.n_bins[column])
        codes = np.tile(np.append(np.arange(n_bins), 255).astype(np.uint8), (6, 1))
        leaf = trees.leaves(codes, tree)
        assert np.unique(leaf).size == n_bins + 1
        values = np.zeros((n_bins + 1, 6), np.float32)
        values[:, column] = np.append(np.arange(n_bins) - (column < 5) * 0.5, np.nan)
        found = forest.moments[forest.leaves(values, tree), 0] - tree * n_leaves
        assert np.array_equal(found, leaf)


def test_edges_are_fine_where_rows_are_however_wide_the_range():
    random = np.random.RandomState(0)
    counts = cell_counts(random.rand(5000).astype(np.float32), (0.0, 100.0), 1024)
    assert counts.sum() == 5000
    noisy = counts + np.rint(random.standard_normal(1024) * 30).astype(np.int64)
    edges = noisy_edges(noisy, 30.0, (0.0, 100.0), 255)
    assert np.count_nonzero(edges < 1.0) > 100  # 2 or 3 of equal bins
    assert np.all(np.diff(edges) > 0)
    assert edges.size <= 254


def test_edges_are_even_if_nothing_is_heard_above_the_noise():
    edges = noisy_edges(np.full(64, -3), 30.0, (0.0, 1.0), 5)
    assert edges == pytest.approx([0.2, 0.4, 0.6, 0.8])


def test_a_value_outside_its_range_counts_as_its_end_and_a_missing_one_not_at_all():
    values = np.array([-9, 0, 0.99, 1, 9, np.nan], np.float32)
    assert cell_counts(values, (0.0, 1.0), 4).tolist() == [2, 0, 0, 3]
