"""Trees from the noisy counts of their leaves: sums, shrinkage, gains, bounds, pruning."""

import numpy as np
import pytest

from spinney.errors import ProtocolError
from spinney.trees.binning import Binning
from spinney.trees.leaf_counts import NumberedLeaves, finish_trees, prune, share_intervals
from spinney.trees.public_trees import frontiers, random_levels


@pytest.fixture
def binning():
    edges = tuple(np.linspace(0, 1, 21)[1:-1].astype(np.float32) for _ in range(3))
    return Binning(edges, (np.zeros(0, np.uint8),) * 3, np.ones(3, np.bool_))


def grown(binning, n_trees=1, depth=2, seed=0):
    generator = np.random.default_rng(seed)
    levels = random_levels(binning.columns, n_trees, depth, generator)
    return NumberedLeaves(n_trees, levels, binning)


def test_random_trees_are_whole_and_repeat_with_their_seed(binning):
    first, same, other = (grown(binning, 3, 4, seed) for seed in (0, 0, 1))
    assert first.n_leaves == 3 * 2**4
    assert first.shape.depths.tolist() == [4, 4, 4]
    assert np.array_equal(first.shape.threshold, same.shape.threshold)
    assert not np.array_equal(first.shape.threshold, other.shape.threshold)
    assert frontiers(binning.columns, 3, first.levels)[-1].n_open == 0


def test_random_cuts_stay_within_what_the_path_leaves(binning):
    leaves = grown(binning, 20, 4)
    rows = np.random.RandomState(0).random_sample((4000, 3)).astype(np.float32)
    held = leaves.counts([(rows, np.zeros(4000, np.int64))], 1)
    assert np.mean(held > 0) > 0.95  # hardly a leaf is out of reach


def test_leaves_are_numbered_as_their_counts_are(binning):
    leaves = grown(binning, 2, 3)
    rows = np.random.RandomState(0).random_sample((500, 3)).astype(np.float32)
    classes = np.random.RandomState(1).randint(0, 2, 500)
    counts = leaves.counts([(rows[:200], classes[:200]), (rows[200:], classes[200:])], 2)
    forest, _ = finish_trees(leaves, counts, np.zeros(leaves.n_leaves), 0.0)
    assert forest.moments[forest.tree_start[:-1]].tolist() == [np.bincount(classes).tolist()] * 2
    for tree in range(2):
        at = forest.leaves(rows, tree)
        for leaf in np.unique(at):
            assert (
                forest.moments[leaf].tolist()
                == np.bincount(classes[at == leaf], minlength=2).tolist()
            )
    assert leaves.depth.tolist() == [3] * 16


def test_without_noise_leaves_hold_shares_and_gains_are_exact(binning):
    leaves = grown(binning, 1, 1)
    counts = np.array([[30, 10], [5, 55]])
    forest, noise = finish_trees(leaves, counts, np.zeros(2), 0.3)
    assert forest.value[1:].tolist() == pytest.approx(np.array([[0.75, 0.25], [5 / 60, 55 / 60]]))
    gini = 100 * (1 - 0.35**2 - 0.65**2) - 40 * 2 * 0.75 * 0.25 - 60 * 2 * (5 * 55) / 3600
    assert forest.gain[0] == pytest.approx(gini)
    assert noise.gain[0] == 0


def test_noise_draws_a_leaf_to_its_parent_and_an_empty_one_all_the_way(binning):
    leaves = grown(binning, 1, 1)
    counts = np.array([[30, 10], [-3, 2]])
    shares = [
        finish_trees(leaves, counts, np.full(2, variance), 1.0)[0].value
        for variance in (0.0, 1e2, 1e6)
    ]
    parent = shares[0][0]
    distance = [np.abs(found[1] - parent).max() for found in shares]
    assert distance[0] > distance[1] > distance[2]
    nothing = finish_trees(leaves, np.array([[30, 10], [-3, -2]]), np.full(2, 4.0), 1.0)[0].value
    assert nothing[2].tolist() == pytest.approx(nothing[0].tolist())


def test_roots_share_the_mean_of_all_trees(binning):
    leaves = grown(binning, 2, 1)
    counts = np.array([[10, 0], [10, 0], [0, 30], [0, 30]])
    forest, _ = finish_trees(leaves, counts, np.ones(4), 0.5)
    roots = forest.value[forest.tree_start[:-1]]
    assert roots.tolist() == pytest.approx(np.full((2, 2), [0.25, 0.75]))


def test_a_gain_s_standard_error_is_that_of_many_draws(binning):
    leaves = grown(binning, 1, 1)
    exact, random = np.array([[300, 100], [50, 550]]), np.random.RandomState(0)
    gains = []
    for _ in range(400):
        noise = np.rint(random.laplace(0, 5, (2, 2))).astype(np.int64)
        gains.append(finish_trees(leaves, exact + noise, np.full(2, 50.0), 0.0)[0].gain[0])
    said = finish_trees(leaves, exact, np.full(2, 50.0), 0.0)[1].gain[0]
    assert said == pytest.approx(np.std(gains), rel=0.2)


def test_bounds_hold_the_exact_share_as_often_as_they_say():
    random = np.random.RandomState(0)
    exact = random.randint(0, 60, (4000, 3))
    noisy = exact + np.rint(random.laplace(0, 4, exact.shape)).astype(np.int64)
    low, high = share_intervals(noisy, np.full(4000, 4 * np.sqrt(2.0)))
    shares = exact / np.maximum(exact.sum(axis=1, keepdims=True), 1)
    held = ((low <= shares + 1e-12) & (shares <= high + 1e-12)).all(axis=1)
    assert held.mean() > 0.95
    assert (high - low).mean() < 0.6  # and they are of some use


def test_nodes_of_few_noisy_rows_become_leaves(binning):
    leaves = grown(binning, 1, 2)
    counts = np.array([[2, 1], [1, 3], [20, 5], [-1, 30]])
    whole, noise = finish_trees(leaves, counts, np.full(4, 2.0), 0.3)
    forest, kept = prune(whole, noise, 10)
    assert forest.n_nodes == kept.counts.size == 5
    assert sorted(forest.moments[forest.feature < 0].sum(axis=1).tolist()) == [7, 25, 29]
    rows = np.random.RandomState(0).random_sample((200, 3)).astype(np.float32)
    pair = [f.moments[f.leaves(rows, 0)].sum(axis=1) for f in (whole, forest)]
    assert set(pair[1][np.isin(pair[0], [3, 4])]) <= {7}
    assert np.array_equal(pair[1][~np.isin(pair[0], [3, 4])], pair[0][~np.isin(pair[0], [3, 4])])


def test_a_tree_that_holds_next_to_nothing_is_one_leaf(binning):
    leaves = grown(binning, 1, 2)
    forest, _ = prune(*finish_trees(leaves, np.zeros((4, 2), np.int64), np.ones(4), 0.3), 10)
    assert forest.n_nodes == 1
    assert forest.value[0].tolist() == [0.5, 0.5]


def test_counts_that_do_not_fit_are_refused(binning):
    leaves = grown(binning, 1, 2)
    with pytest.raises(ProtocolError, match="do not fit the trees"):
        finish_trees(leaves, np.zeros((3, 2), np.int64), np.zeros(3), 0.0)
