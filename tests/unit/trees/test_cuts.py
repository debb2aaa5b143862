"""Random cuts: inside their box, counted as a plain loop would, chosen as scikit-learn would."""

from dataclasses import replace

import numpy as np
import pytest

from spinney.errors import ProtocolError
from spinney.trees._kernels import cuts as kernels
from spinney.trees.binning import BinnedTable, Binning
from spinney.trees.cuts import (
    Candidates,
    CutFrontier,
    CutSearch,
    Drawing,
    ReportedBits,
    add_up,
    cut_counts,
    draw_candidates,
    grow_by,
)
from spinney.trees.frontier import Draws, Frontier, tree_keys
from spinney.trees.growth import Growth, StoppingRules
from spinney.trees.magnitudes import magnitude_edges
from spinney.trees.quantiles import LEAD_BITS
from spinney.trees.ranges import cuts_between, join_ranges, node_ranges
from spinney.trees.rows import standing_at_roots
from spinney.trees.split import Criterion, LeastLeaf

N = 500
BINNING = Binning(
    (
        np.linspace(0, 1, 12, dtype=np.float32),
        np.array([0.0, 0.001, 0.01, 100.0], np.float32),
        np.zeros(0, np.float32),
        np.array([0.5], np.float32),
    ),
    (
        np.zeros(0, np.uint8),
        np.zeros(0, np.uint8),
        np.arange(5, dtype=np.uint8),
        np.zeros(0, np.uint8),
    ),
    np.array([True, False, True, False]),
)


def table(kind):
    random = np.random.RandomState(0)
    values = np.stack(
        [
            np.where(random.random_sample(N) < 0.2, np.nan, random.random_sample(N)),
            random.lognormal(0, 4, N),
            np.where(random.random_sample(N) < 0.1, np.nan, random.randint(0, 5, N)),
            random.random_sample(N),
        ]
    ).astype(np.float32)
    n_classes = {"two classes": 2, "three classes": 3, "amount": 0}[kind]
    target = (
        random.randint(0, n_classes, N).astype(np.uint8)
        if n_classes
        else random.randint(0, 1000, N).astype(np.int32)
    )
    keys = random.randint(0, 2**62, N).astype(np.uint64)
    batches = [(values, target, keys)]
    return BinnedTable.of_batches(batches, BINNING, N, n_threads=1), n_classes


def roots(n_trees=6, seed=3):
    draws = Draws(2, 2, 2, shared_phase=False)
    return Frontier.of_roots(BINNING.columns, draws, seed=seed, n_trees=n_trees, bits=9)


def standing_of(found, n_trees=6, *, bootstrap=True):
    return standing_at_roots(found, tree_keys(3, n_trees), bootstrap=bootstrap, n_threads=1)


def sides(codes, candidates, node, slot):
    """Return the cell of each row, the long way."""
    feature = candidates.slots.feature[node, slot]
    column = codes[:, feature]
    if candidates.subset[node, slot] >= 0:
        words = candidates.sets[candidates.subset[node, slot]]
        bits = np.unpackbits(words.view(np.uint8), bitorder="little")
        cell = 1 - bits[column]
    else:
        cell = (column > candidates.cut[node, slot]).astype(int)
    return np.where(column == 255, 2, cell)


@pytest.mark.parametrize("bootstrap", [False, True])
@pytest.mark.parametrize("kind", ["two classes", "three classes", "amount"])
def test_counts_are_those_of_a_plain_loop(kind, bootstrap):
    found, n_classes = table(kind)
    frontier, drawing = roots(), Drawing(3, 2, 4, ((9, 4),))
    candidates = draw_candidates(frontier, drawing, BINNING)
    standing = standing_of(found, bootstrap=bootstrap)
    counted = cut_counts(
        found, standing, candidates, (0, 6), n_classes=n_classes, n_threads=2
    ).counters
    codes = found.rows(np.arange(N))
    slots = candidates.slots
    for node in range(6):
        entries = standing.entries[standing.starts[node, 0] : standing.ends[node, 0]]
        row, weight = (entries & 0xFFFF).astype(int), (entries >> 27).astype(int)
        for slot in np.flatnonzero(slots.feature[node] >= 0):
            cell = sides(codes, candidates, node, slot)[row]
            expected = np.zeros((3, counted.shape[1]), np.int64)
            if n_classes:
                np.add.at(expected, (cell, found.target[row]), weight)
            else:
                np.add.at(expected[:, 0], cell, weight)
                np.add.at(expected[:, 1], cell, weight * found.target[row])
            at, n = slots.offset[node, slot], slots.cells[node, slot]
            assert np.array_equal(counted[at : at + n], expected[:n])
            assert not expected[n:].any()
    assert add_up(candidates, counted)


def test_reported_bits_are_summed_beside_the_rows():
    found, _ = table("three classes")
    candidates = draw_candidates(roots(), Drawing(3), BINNING)
    standing = standing_of(found)
    words = np.random.RandomState(1).randint(0, 2**32, (N, 2)).astype(np.uint32)
    counted = cut_counts(
        found, standing, candidates, (0, 6), n_classes=3, n_threads=1, bits=ReportedBits(words, 40)
    ).counters
    bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")[:, :40].astype(int)
    entries = standing.entries[standing.starts[0, 0] : standing.ends[0, 0]]
    row, weight = (entries & 0xFFFF).astype(int), (entries >> 27).astype(int)
    cell = sides(found.rows(np.arange(N)), candidates, 0, 0)[row]
    for c in range(candidates.slots.cells[0, 0]):
        inside = cell == c
        assert counted[c, 0] == weight[inside].sum()
        assert np.array_equal(counted[c, 1:], weight[inside] @ bits[row[inside]])


def test_cuts_lie_in_the_box_and_are_everywhere_in_it():
    frontier = roots(4000)
    candidates = draw_candidates(frontier, Drawing(4, 2), BINNING)
    slots = candidates.slots
    for column, n_bins in ((0, 13), (1, 5), (3, 2)):
        mine = slots.feature == column
        cuts = candidates.cut[mine]
        assert set(cuts.tolist()) <= set(range(n_bins - 1))
    by_value = candidates.cut[slots.feature == 1]
    assert (by_value >= 2).mean() > 0.95  # even in values: nearly all of the range is up there
    counts = np.bincount(candidates.cut[slots.feature == 0], minlength=12)
    assert counts.min() > 0.6 * counts.mean()


def test_half_of_the_cuts_of_a_node_that_draws_on_are_even_in_bins():
    frontier = replace(roots(4000), stage=np.ones(4000, np.uint8))
    candidates = draw_candidates(frontier, Drawing(4, 2), BINNING)
    for column, n_bins in ((0, 13), (1, 5), (3, 2)):
        by_bins = candidates.cut[:, 4:8][candidates.slots.feature[:, 4:8] == column]
        counts = np.bincount(by_bins, minlength=n_bins - 1)
        assert counts.min() > 0.2 * counts.mean()


def test_random_sets_send_every_category_left_half_the_time():
    candidates = draw_candidates(roots(4000), Drawing(4), BINNING)
    bits = np.unpackbits(candidates.sets.view(np.uint8), axis=1, bitorder="little")[:, :5]
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 0.05


def test_small_nodes_are_asked_about_more_features_or_cuts():
    drawing = Drawing(2, 2, 6, ((8, 2), (5, 4)))
    nodes = replace(roots(5), bits=np.array([20, 8, 6, 5, 2], np.uint8))
    assert drawing.features_of_node(nodes).tolist() == [2, 4, 4, 4, 4]  # there are four
    assert drawing.draws_of_node(nodes).tolist() == [2, 6, 6, 6, 6]


def test_nodes_that_draw_on_draw_more_cuts_spread_over_all_bins():
    stage = np.array([0, 1, 2], np.uint8)
    nodes = replace(roots(3), bits=np.full(3, 2, np.uint8), stage=stage)
    drawing = Drawing(2, 2, 2, ((5, 4),))
    assert drawing.draws_of_node(nodes).tolist() == [2, 8, 8]
    found = draw_candidates(nodes, drawing, BINNING)
    for node in (1, 2):
        columns = found.slots.feature[node].tolist()
        assert len(set(columns)) == 2
        assert all(columns.count(column) == 8 for column in set(columns))


def chosen_of(splits, first, n_compared=2, *, cuts=(3, 9, 3, 9, 3, 9), is_set=False):
    """Return which slots are compared; of features 4, 7 and 2, two cuts each, those split."""
    feature = np.array([[4, 4, 7, 7, 2, 2]], np.int32)
    shape = (np.full((1, 6), 2, np.int32), np.arange(0, 12, 2)[None])
    counts = np.array([[3, 2] if one else [5, 0] for one in splits]).reshape(12, 1)
    subset = np.full((1, 6), 0 if is_set else -1, np.int32)
    box = (np.zeros((1, 8), np.uint16), np.full((1, 8), 999, np.uint16))
    chosen = np.empty((1, n_compared), np.int64)
    kernels.choose(
        counts, False, feature, np.array([cuts], np.uint16), subset, *shape, *box,
        np.array([first]), chosen,
    )  # fmt: skip
    return chosen[0].tolist()


def test_the_first_cut_that_splits_is_compared_of_each_feature():
    """A cut is uniform between smallest and largest, given that it splits."""
    assert chosen_of([0, 1, 1, 1, 1, 1], 2) == [1, 2]
    assert chosen_of([1, 1, 1, 1, 1, 1], 3, 3) == [0, 2, 4]


def test_a_column_whose_cuts_leave_few_codes_uses_up_a_draw():
    """All rows lie at or below code 3: the column is probably constant."""
    assert chosen_of([0, 1, 0, 0, 1, 1], 2) == [1, -1]
    assert chosen_of([0, 0, 0, 1, 1, 1], 2) == [3, -1]
    missed = (100, 900) * 3
    assert chosen_of([0, 1, 0, 0, 1, 1], 2, cuts=missed) == [1, 4]
    assert chosen_of([0, 1, 0, 0, 1, 1], 2, cuts=missed, is_set=True) == [1, -1]


def test_where_no_drawn_column_is_parted_the_next_one_that_is_is_taken():
    assert chosen_of([0, 0, 0, 0, 1, 1], 2) == [4, -1]
    assert chosen_of([0, 1, 1, 1, 1, 1], 0) == [1, -1]
    assert chosen_of([0, 0, 0, 0, 0, 0], 2) == [0, -1]


def test_a_column_that_the_box_leaves_one_bin_uses_up_a_draw():
    frontier = roots(400)
    frontier.high[:, 1] = 0
    found = draw_candidates(frontier, Drawing(2), BINNING)
    whole = draw_candidates(roots(400), Drawing(2), BINNING)
    was_drawn = (whole.slots.feature == 1).any(axis=1)
    assert was_drawn.any()
    assert (whole.first == 2).all()
    assert np.array_equal(found.first, np.where(was_drawn, 1, 2))
    assert not (found.slots.feature == 1).any()
    assert np.array_equal(found.part(7, 9).first, found.first[7:9])


def test_nothing_but_missing_values_may_go_right():
    """All known values on one side, missing ones on the other: a cut above every bin."""
    feature, cut = np.array([[0]], np.int32), np.array([[4]], np.uint8)
    cells = np.array([[3]], np.int32)
    candidates = Candidates.of(feature, cut, cells, np.ones(1, np.int64), roots(1))
    counts = np.array([[9, 0], [9, 0], [0, 5]], np.int32)
    search = CutSearch(Drawing(1), Criterion.of("gini", np.ones(2), 100), LeastLeaf(1), 1)
    found = search.best(counts, candidates, BINNING.columns, np.zeros(1))
    assert (found.best.cut[0], bool(found.best.missing_left[0])) == (254, False)
    assert found.best.left.tolist() == [[18, 0]]
    assert found.all_left.tolist() == [True]


def test_smallest_and_largest_bins_are_those_of_the_rows():
    found, _ = table("two classes")
    candidates = draw_candidates(roots(), Drawing(4), BINNING)
    standing = standing_of(found)
    ranges = node_ranges(found, standing, candidates, (0, 6), n_threads=1)
    low, high = (a.reshape(candidates.cut.shape) for a in (ranges.low, ranges.high))
    codes = found.rows(np.arange(N))
    for node in range(6):
        entries = standing.entries[standing.starts[node, 0] : standing.ends[node, 0]]
        row = (entries & 0xFFFF).astype(int)
        for slot in np.flatnonzero(candidates.subset[node] < 0):
            held = codes[row, candidates.slots.feature[node, slot]]
            held = held[held != 255]
            assert (low[node, slot], high[node, slot]) == (held.min(), held.max())
    both = join_ranges([ranges, ranges])
    assert np.array_equal(both.low, ranges.low)
    cuts = cuts_between(both, candidates, roots().key, BINNING)
    numbers = candidates.subset < 0
    assert (cuts[numbers] >= low[numbers]).all()
    assert (cuts[numbers] < np.maximum(high[numbers], 1)).all()


# --- edges by magnitude --------------------------------------------------------------------------


def leading(values):
    bits = np.asarray(values, np.float32).view(np.uint32)
    words = np.where(bits & 0x80000000, ~bits, bits | 0x80000000).astype(np.uint32)
    return np.bincount(words >> (32 - LEAD_BITS), minlength=1 << LEAD_BITS)


@pytest.mark.parametrize(
    "values",
    [
        np.arange(16.0),
        np.r_[np.zeros(60), np.arange(1, 40) / 7],
        -np.geomspace(1e-3, 1e6, 300),
        np.random.RandomState(0).standard_normal(500),
        np.full(9, 3.0),
        np.array([1.5e9, 1.6e9, 1.55e9]),
    ],
    ids=["small integers", "many zeros", "negative", "normal", "constant", "large"],
)
def test_edges_lie_between_the_bounds_and_part_what_differs(values):
    bounds = (float(values.min()), float(values.max()))
    edges = magnitude_edges(leading(values), bounds, 255)
    assert edges.size <= 254
    assert (np.diff(edges) > 0).all()
    assert ((edges >= np.float32(bounds[0])) & (edges < np.float32(bounds[1]))).all()
    distinct = np.unique(values.astype(np.float32))
    parted = np.unique(np.searchsorted(edges, distinct, side="left"))
    assert parted.size >= min(distinct.size, 100) * 0.7


def test_integers_that_begin_a_part_are_not_joined_with_those_below():
    edges = magnitude_edges(leading(np.arange(16.0)), (0.0, 15.0), 255)
    codes = np.searchsorted(edges, np.arange(16, dtype=np.float32), side="left")
    assert np.unique(codes).size == 16


def test_more_parts_than_bins_share_them():
    values = np.geomspace(1e-9, 1e9, 4000)
    edges = magnitude_edges(leading(values), (0.0, 1e9), 16)
    assert 8 <= edges.size <= 15
    counts = np.bincount(np.searchsorted(edges, values.astype(np.float32)), minlength=16)
    assert counts.max() < 3 * counts.mean()


# --- boxes that get narrower ---------------------------------------------------------------------


def test_cuts_with_rows_on_one_side_narrow_the_boxes_of_both_children():
    feature = np.array([[0, 0, 1, 3]], np.int32)
    cut = np.array([[3, 9, 2, 1]], np.uint8)
    subset = np.array([[-1, -1, -1, 0]], np.int32)
    sides = np.array([[1, 2, 0, 1]], np.uint8)
    low, high = np.zeros((2, 4), np.uint8), np.full((2, 4), 12, np.uint8)
    node, is_open = np.array([0]), np.array([True, True])
    kernels.narrow_to_sides(node, is_open, sides, feature, cut, subset, low, high)
    assert low.tolist() == [[4, 0, 0, 0]] * 2
    assert high.tolist() == [[9, 12, 12, 12]] * 2


def test_a_side_without_rows_is_seen_by_rows_not_by_sums_of_targets():
    feature, offset = np.array([[0, 1, 2, -1]], np.int32), np.array([[0, 2, 4, 6]])
    counts = np.array([[0, 0], [5, 0], [2, 0], [3, 7], [5, 9], [0, 0]])
    sides = np.empty((1, 4), np.uint8)
    kernels.empty_sides(counts, True, feature, offset, sides)
    assert sides.tolist() == [[1, 0, 2, 0]]


def grown(levels=6):
    """Return the frontiers of some levels, grown from one table, and where its rows stand."""
    found, n_classes = table("two classes")
    draws = Draws(2, 2, 2, shared_phase=False, goes_on=True)
    first = Frontier.of_roots(BINNING.columns, draws, seed=3, n_trees=6, bits=9)
    frontier = CutFrontier.of(first, Drawing(2, 4, 6, ((8, 2),)), BINNING)
    rules = StoppingRules(None, 2, 1, 0.0, is_regression=False)
    growth = Growth(frontier, rules, np.ones(2))
    search = CutSearch(
        frontier.drawing, Criterion.of("gini", np.ones(2), 1000), LeastLeaf(1), n_threads=1
    )
    standing = standing_of(found)
    for _ in range(levels):
        yield growth, standing, found
        here, n = growth.frontier, growth.frontier.n_open
        assert isinstance(here, CutFrontier)
        counted = cut_counts(
            found, standing, here.candidates, (0, n), n_classes=n_classes, n_threads=1
        ).counters
        later = here.line > 0
        part = search.best(
            counted, here.candidates, here.columns, growth.root_weight, only_first=later
        )
        grow_by(growth, [part])
        standing = standing.after(growth.levels[-1], found, 1)


def test_narrowed_boxes_hold_all_rows_of_their_nodes():
    n_narrowed = 0
    for growth, standing, found in grown():
        frontier = growth.frontier
        n_narrowed += sum(int((level.where > 0).sum()) for level in growth.levels[-1:])
        codes, numbers = found.rows(np.arange(N)), np.array([0, 1, 3])
        for node in range(frontier.n_open):
            entries = standing.entries[standing.starts[node, 0] : standing.ends[node, 0]]
            held = codes[(entries & 0xFFFF).astype(int)][:, numbers].astype(int)
            low, high = frontier.low[node, numbers], frontier.high[node, numbers]
            assert (((held >= low) & (held <= high)) | (held == 255)).all()
    assert n_narrowed > 100


def test_a_level_that_tells_of_cuts_which_nobody_drew_is_refused():
    growing = grown(2)
    first = next(growing)[0].frontier
    (known,) = next(growing)[0].levels
    forged = known.replaced(where=known.where[:, 1:])
    with pytest.raises(ProtocolError, match="A level of the forest does not fit its open nodes"):
        first.after(forged)
