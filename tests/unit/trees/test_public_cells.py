"""Cells over public boxes: what is counted, what a cut does, what a record can change."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from spinney.trees.binning import BinnedTable, Binning
from spinney.trees.leaf_counts import NumberedLeaves
from spinney.trees.public_cells import (
    COST_BITS,
    PublicCells,
    fixed_costs,
    noisy_gain,
    noisy_impurity,
)
from spinney.trees.public_trees import frontiers, level_of, random_levels, roots

ROW = 1 << COST_BITS


@pytest.fixture
def binning():
    numbers = np.linspace(0, 1, 51)[1:-1].astype(np.float32)
    nothing = np.zeros(0, np.uint8)
    return Binning(
        (numbers, np.zeros(1, np.float32), np.zeros(0, np.float32)),
        (nothing, nothing, np.arange(4, dtype=np.uint8)),
        np.ones(3, np.bool_),
    )


@pytest.fixture
def table(binning):
    random = np.random.RandomState(0)
    n = 400
    values = np.stack(
        [random.random_sample(n), random.randint(0, 2, n), random.randint(0, 4, n)]
    ).astype(np.float32)
    values[random.random_sample(values.shape) < 0.1] = np.nan
    target = random.randint(0, 3, n).astype(np.uint8)
    keys = np.arange(n, dtype=np.uint64)
    return BinnedTable.of_batches([(values, target, keys)], binning, n, n_threads=1)


def stand_ins(table, binning):
    """Return a number for each code, which trees split in the same way."""
    codes = table.rows(np.arange(table.n_rows))
    rows = codes.astype(np.float32)
    for column, edges in enumerate(binning.edges):
        if not len(binning.bin_of_category[column]):
            ends = np.append(edges, np.float32(np.inf))
            rows[:, column] = ends[np.minimum(codes[:, column], len(edges))]
    rows[codes == 255] = np.nan
    return rows


def test_cells_are_counted_as_by_hand(binning, table):
    cells = PublicCells(binning.columns, 5)
    assert cells.parts.tolist() == [5, 2, 4]
    assert cells.start.tolist() == [0, 6, 9, 14]
    counts = cells.counts(table, np.zeros(table.n_rows, np.int64), roots(binning.columns, 1), 3)
    codes = table.rows(np.arange(table.n_rows)).astype(int)
    for column, width in enumerate((50, 2, 4)):
        own = codes[:, column]
        cell = own * cells.parts[column] // width
        cell[own == 255] = cells.parts[column]
        for number, klass in itertools.product(range(cells.parts[column] + 1), range(3)):
            expected = int(np.sum((cell == number) & (table.target == klass)))
            assert counts[0, cells.start[column] + number, klass] == expected
    assert (np.add.reduceat(counts, cells.start[:-1], axis=1).sum(axis=2) == 400).all()


def test_rows_of_no_open_node_are_not_counted(binning, table):
    cells = PublicCells(binning.columns, 5)
    nowhere = np.full(table.n_rows, -1, np.int64)
    assert not cells.counts(table, nowhere, roots(binning.columns, 1), 3).any()


@pytest.mark.parametrize("n_parts", [2, 5, 7, 50])
def test_every_cut_sends_left_what_was_counted_left(binning, table, n_parts):
    """The oracle of the whole tree: the sides of a cut are the leaves it makes, at any depth."""
    cells, columns = PublicCells(binning.columns, n_parts), binning.columns
    rows = stand_ins(table, binning)
    levels = random_levels(columns, 1, 2, np.random.default_rng(1))
    grown = (levels[0], levels[1].replaced(**opened(levels[1])))
    frontier = frontiers(columns, 1, grown)[-1]
    leaves = NumberedLeaves(1, grown, binning)
    node = leaves.open_node[leaves.of_rows(rows, 0)]
    counts = cells.counts(table, node, frontier, 3)
    left, right = cells.cuts.sides(counts, cells.start)
    able = cells.can_cut(frontier)
    for cut in range(cells.cuts.n):
        chosen = np.full(frontier.n_open, cut)
        splits = cells.splits(frontier, chosen, able[:, cut])
        after = NumberedLeaves(1, (*grown, level_of(columns, splits, opens=False)), binning)
        found = after.counts([(rows, table.target.astype(np.int64))], 3)[-2 * able[:, cut].sum() :]
        if able[:, cut].any():
            assert np.array_equal(found[0::2], left[able[:, cut], cut])
            assert np.array_equal(found[1::2], right[able[:, cut], cut])


def opened(level):
    n = level.child_open.size
    return {
        "child_open": np.ones(n, np.bool_),
        "child_bits": np.ones(n, np.uint8),
        "child_derived": np.zeros(n, np.bool_),
        "child_lines": np.ones(n, np.uint16),
    }


def test_cuts_that_part_nothing_are_told(binning):
    cells = PublicCells(binning.columns, 5)
    frontier = roots(binning.columns, 1)
    narrow = frontier.high.copy()
    narrow[0, 0] = 1  # two bins are left of the number
    able = cells.can_cut(type(frontier)(**(vars(frontier) | {"high": narrow})))
    of_number = able[0, cells.cuts.column == 0]
    assert of_number.tolist() == [True, False, False, False, True]  # one cut, and missing or not


def test_pairs_are_counted_as_by_hand(binning, table):
    cells, root = PublicCells(binning.columns, 5), roots(binning.columns, 1)
    pairs = cells.pairs(table, root, 3)
    each = [
        cells.counts(table, np.where(np.arange(table.n_rows) == row, 0, -1), root, 3)[0].sum(axis=1)
        for row in range(table.n_rows)
    ]
    held = np.stack(each)  # (n_rows, n_cells): which cells a row is in
    for klass in range(3):
        of_class = held[table.target == klass]
        assert np.array_equal(pairs[:, :, klass], of_class.T @ of_class)


def test_a_cost_ahead_is_that_of_the_best_two_further_cuts(binning, table):
    cells, root = PublicCells(binning.columns, 5), roots(binning.columns, 1)
    found = cells.costs_ahead(cells.pairs(table, root, 3))
    single = [
        cells.counts(table, np.where(np.arange(table.n_rows) == row, 0, -1), root, 3)[0].sum(axis=1)
        for row in range(table.n_rows)
    ]
    for cut in range(cells.cuts.n):
        goes_left = np.stack(single)[:, cells.cuts.begin[cut] : cells.cuts.end[cut]].any(axis=1)
        node = np.where(goes_left, 0, 1)
        two = frontiers_of_two(root)
        counts = cells.counts(table, node, two, 3)
        best = fixed_costs(*cells.cuts.sides(counts, cells.start)).min(axis=1)
        assert found[cut] == best.sum()


def frontiers_of_two(root):
    """Return two nodes that are open as the root is."""
    low, high = np.repeat(root.low, 2, axis=0), np.repeat(root.high, 2, axis=0)
    return replace(root, tree=np.zeros(2, np.int32), low=low, high=high)


# --- what one record can change -------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_record_more_raises_a_cost_by_at_most_a_row_and_never_lowers_it(n_classes):
    counts = np.array(list(itertools.product(range(9), repeat=n_classes)), np.int64)
    nothing = np.zeros_like(counts)
    for klass in range(n_classes):
        more = counts.copy()
        more[:, klass] += 1
        change = fixed_costs(more, nothing) - fixed_costs(counts, nothing)
        assert change.min() >= 0
        assert change.max() <= ROW


def test_the_cost_s_sensitivity_holds_for_large_counts_too():
    random = np.random.RandomState(0)
    counts = random.randint(0, 2**30, (20_000, 2)).astype(np.int64)
    for klass in (0, 1):
        more = counts.copy()
        more[:, klass] += 1
        change = fixed_costs(more, counts) - fixed_costs(counts, counts)
        assert change.min() >= 0
        assert change.max() <= ROW


@pytest.mark.parametrize("seed", range(5))
def test_a_record_more_raises_a_cost_ahead_by_at_most_a_row_and_never_lowers_it(binning, seed):
    random = np.random.RandomState(seed)
    cells, root = PublicCells(binning.columns, 4), roots(binning.columns, 1)
    n = 24
    values = np.stack(
        [random.random_sample(n), random.randint(0, 2, n), random.randint(0, 4, n)]
    ).astype(np.float32)
    values[random.random_sample(values.shape) < 0.1] = np.nan
    target, keys = random.randint(0, 2, n).astype(np.uint8), np.arange(n, dtype=np.uint64)
    costs = []
    for rows in range(1, n + 1):
        part = [(values[:, :rows], target[:rows], keys[:rows])]
        held = BinnedTable.of_batches(part, binning, rows, n_threads=1)
        costs.append(cells.costs_ahead(cells.pairs(held, root, 2)))
    change = np.diff(np.stack(costs), axis=0)
    assert change.min() >= 0
    assert change.max() <= ROW
    assert change.max() > 0


def test_a_cost_is_the_paper_s_impurity_times_rows():
    left, right = np.array([[30, 10]]), np.array([[5, 55]])
    expected = 40 * 0.25 * 0.75 + 60 * (5 / 60) * (55 / 60)
    assert fixed_costs(left, right)[0] / ROW == pytest.approx(expected, abs=2 / ROW)
    assert noisy_impurity(left, right)[0] == pytest.approx(expected / 100)
    whole = 100 * 0.35 * 0.65
    assert noisy_gain(left, right)[0] == pytest.approx(whole - expected)


def test_noisy_sides_that_are_empty_cannot_be_cut():
    left, right = np.array([[-4, 0], [3, 4]]), np.array([[3, 9], [-1, -2]])
    assert np.isinf(noisy_impurity(left, right)).all()
    assert np.isneginf(noisy_gain(left, right)).all()
