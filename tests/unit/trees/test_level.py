"""The open nodes of a level: their keys, their open bins, their candidate features."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney import seeds
from spinney.errors import ProtocolError, StorageError
from spinney.trees.frontier import (
    ColumnCells,
    Draws,
    Frontier,
    bit_lengths,
    line_sums,
    tree_keys,
)
from spinney.trees.level import Level

NO_SETS = np.zeros((0, 4), np.uint64)


def level_of(feature, cut=None, child_open=None, **facts):
    """Return decisions; all children are open by default."""
    feature = np.array(feature, np.int32)
    n_split = int((feature >= 0).sum())
    child_open = np.ones(2 * n_split, bool) if child_open is None else np.array(child_open)
    n_children = int(child_open.sum())
    cut = np.zeros(feature.size, np.uint8) if cut is None else cut
    given_facts = {
        "cut": cut if isinstance(cut, np.ndarray) else np.array(cut, np.uint8),
        "missing_left": np.zeros(feature.size, bool),
        "subset": np.full(feature.size, -1, np.int32),
        "bin_sets": NO_SETS,
        "child_bits": np.full(n_children, 20, np.uint8),
        "child_derived": np.zeros(n_children, bool),
        "threshold": np.zeros(0, np.float32),
    } | facts
    return Level(feature=feature, child_open=child_open, **given_facts)


def frontier_of(n_bins, n_slots, max_cells=33, n_trees=3, **facts):
    n_bins = np.array(n_bins)
    columns = ColumnCells(
        n_bins,
        np.array(facts.get("is_category", [False] * n_bins.size)),
        np.array(facts.get("has_missing", [False] * n_bins.size)),
    )
    draws = Draws(
        n_slots, max_cells, least_cells=4, shared_phase=facts.get("shared", False),
        goes_on=facts.get("goes_on", False),
    )  # fmt: skip
    return Frontier.of_roots(columns, draws, seed=9, n_trees=n_trees, bits=facts.get("bits", 30))


# --- drawing features and cells ------------------------------------------------------------------


def mixed(word):
    return int(seeds.mix(np.array([word & (2**64 - 1)], np.uint64))[0])


def twin_of_draw(frontier, node):
    """Draw one node's slots in Python's whole numbers: (feature, add, shift, cells)."""
    columns = frontier.columns
    n_columns = columns.n_columns
    most = int(frontier.draws.cells(frontier.bits)[node])
    order, state = list(range(n_columns)), int(frontier.key[node])
    drawn: list[tuple[int, int, int, int]] = []
    for i in range(n_columns):
        n_slots, uses_up = frontier.draws.n_slots, frontier.draws.goes_on
        if len(drawn) == n_slots or (drawn and i >= n_slots and uses_up):
            break
        state = mixed(state)
        other = i + state % (n_columns - i)
        order[i], order[other] = order[other], order[i]
        column = order[i]
        low, high = int(frontier.low[node, column]), int(frontier.high[node, column])
        gaps = bool(columns.has_missing[column])
        if low == high and not gaps and not (not drawn and i == n_columns - 1):
            continue
        if columns.is_category[column]:
            drawn.append((column, 0, 0, int(columns.n_bins[column]) + gaps))
            continue
        width, bits = high - low + 1, 0
        while ((width - 1 + 2**bits - 1) >> bits) + 1 > most:
            bits += 1
        phase = mixed(int(frontier.phase_key[node]) ^ mixed(column)) & (2**bits - 1)
        drawn.append((column, phase - low, bits, ((width - 1 + phase) >> bits) + 1 + gaps))
    return drawn


def require_twin(frontier):
    slots = frontier.slots
    for node in range(frontier.n_open):
        expected = twin_of_draw(frontier, node)
        unused = frontier.draws.n_slots - len(expected)
        expected += [(-1, 0, 0, 0)] * unused
        columns = (slots.feature, slots.add, slots.shift, slots.cells)
        assert [tuple(int(a[node, s]) for a in columns) for s in range(len(expected))] == expected
    ends = np.cumsum(slots.cells.ravel())
    assert slots.ends.ravel().tolist() == ends.tolist()
    assert slots.offset.ravel().tolist() == (ends - slots.cells.ravel()).tolist()
    assert slots.n_cells == ends[-1]


@given(
    n_bins=st.lists(st.integers(1, 255), min_size=1, max_size=6),
    max_cells=st.sampled_from([2, 4, 33, 255]),
    bits=st.integers(1, 20),
    data=st.data(),
)
def test_every_root_draws_as_the_plain_rules_say(n_bins, max_cells, bits, data):
    n = len(n_bins)
    flags = st.lists(st.booleans(), min_size=n, max_size=n)
    frontier = frontier_of(
        n_bins,
        data.draw(st.integers(1, n)),
        max_cells,
        is_category=data.draw(flags),
        has_missing=data.draw(flags),
        bits=bits,
        goes_on=data.draw(st.booleans()),
    )
    require_twin(frontier)


def test_a_column_that_cannot_split_uses_up_a_draw_unless_it_would_be_the_only_one():
    nodes = frontier_of([9, 1, 1, 1], 2, n_trees=60, goes_on=True)
    assert (nodes.slots.feature[:, 0] == 0).all()
    assert (nodes.slots.feature[:, 1] == -1).all()
    wide = frontier_of([9, 9, 9, 1], 2, n_trees=60, goes_on=True)
    n_drawn = line_sums(wide.slots.feature >= 0)
    assert set(n_drawn.tolist()) == {1, 2}
    skipping = frontier_of([9, 9, 9, 1], 2, n_trees=60)
    assert (skipping.slots.feature >= 0).all()
    later = replace(wide, stage=np.ones(60, np.uint8))
    assert (later.slots.feature >= 0).all()
    assert wide.has_more(np.arange(60), by_cells=True).all()


@given(data=st.data(), shared=st.booleans(), n_columns=st.integers(1, 5))
def test_every_open_bin_has_a_cell_however_deep(data, shared, n_columns):
    """Cut at random, ten levels deep; cells stay in their slot, and every bin has a cell."""
    frontier = frontier_of(
        data.draw(st.lists(st.integers(1, 255), min_size=n_columns, max_size=n_columns)),
        n_columns,
        data.draw(st.sampled_from([4, 33])),
        n_trees=1,
        has_missing=data.draw(st.lists(st.booleans(), min_size=n_columns, max_size=n_columns)),
        shared=shared,
    )
    for _ in range(10):
        require_twin(frontier)
        slots = frontier.slots
        for node in range(frontier.n_open):
            for slot, column in enumerate(slots.feature[node]):
                if column < 0:
                    continue
                gaps = int(frontier.columns.has_missing[column])
                low, high = int(frontier.low[node, column]), int(frontier.high[node, column])
                bins = np.arange(low, high + 1)
                cell = (bins + int(slots.add[node, slot])) >> int(slots.shift[node, slot])
                n_regular = int(slots.cells[node, slot]) - gaps
                assert n_regular >= 0
                assert set(cell.tolist()) == set(range(n_regular))
        chosen, cuts = [], []
        for node in range(frontier.n_open):
            slot = data.draw(st.integers(0, n_columns - 1))
            column = int(slots.feature[node, slot])
            chosen.append(column)
            gaps = column >= 0 and bool(frontier.columns.has_missing[column])
            n_cuts = int(slots.cells[node, slot]) - 1  # with gaps, also after the last number
            if column < 0 or n_cuts < 1:
                chosen[-1] = -1
                cuts.append(0)
                continue
            cell = data.draw(st.integers(0, n_cuts - 1))
            cut = ((cell + 1) << int(slots.shift[node, slot])) - 1 - int(slots.add[node, slot])
            cuts.append(min(cut, 254))
        n_split = sum(column >= 0 for column in chosen)
        if not n_split:
            break
        sides = data.draw(st.lists(st.booleans(), min_size=n_split, max_size=n_split))
        child_open = [side ^ right for side in sides for right in (False, True)]  # one of each two
        frontier = frontier.after(level_of(chosen, cuts, child_open))


def test_features_are_drawn_without_repeats_and_all_alike():
    frontier = frontier_of([5] * 10, 3, n_trees=4000)
    feature = frontier.slots.feature
    assert all(len(set(row)) == 3 for row in feature.tolist())
    counts = np.bincount(feature.ravel(), minlength=10)
    assert abs(counts - 1200).max() < 5 * np.sqrt(1200)


def test_a_column_that_cannot_split_is_passed_over():
    frontier = frontier_of([1, 9, 1, 1], 2, n_trees=50)
    assert set(frontier.slots.feature[:, 0].tolist()) == {1}
    assert set(frontier.slots.feature[:, 1].tolist()) == {-1}


def test_where_nothing_can_split_one_column_is_kept_to_count_rows():
    frontier = frontier_of([1, 1, 1], 3, n_trees=20)
    assert (frontier.slots.feature[:, 0] >= 0).all()
    assert (frontier.slots.feature[:, 1:] == -1).all()
    assert (frontier.slots.cells.sum(axis=1) == 1).all()


def test_a_column_of_one_value_and_gaps_can_split():
    frontier = frontier_of([1], 1, has_missing=[True])
    assert frontier.slots.cells.tolist() == [[2]] * 3


def test_small_nodes_get_few_cells():
    draws = Draws(1, 33, least_cells=4, shared_phase=False)
    assert draws.cells(np.array([1, 2, 3, 5, 6, 60], np.uint8)).tolist() == [4, 4, 8, 32, 33, 33]
    assert Draws(1, 255, least_cells=4, shared_phase=False).cells(np.array([8, 9])).tolist() == [
        255,
        255,
    ]


@given(st.lists(st.integers(0, 2**40), min_size=1))
def test_bits_of_rows(rows):
    expected = [max(1, n).bit_length() for n in rows]
    assert bit_lengths(np.array(rows)).tolist() == expected


def test_part_of_the_slots_counts_its_cells_from_zero():
    slots = frontier_of([40, 9, 200], 2, n_trees=6).slots
    part = slots.part(2, 5)
    assert part.offset[0, 0] == 0
    assert part.n_cells == slots.cells[2:5].sum()
    assert part.feature.tolist() == slots.feature[2:5].tolist()
    assert np.array_equal(part.offset + slots.offset[2, 0], slots.offset[2:5])
    assert slots.part(3, 3).n_cells == 0


# --- paths ---------------------------------------------------------------------------------------


def test_a_cut_narrows_the_bins_of_both_children():
    frontier = frontier_of([100, 100], 2, n_trees=1).after(level_of([1], [30]))
    assert frontier.low.tolist() == [[0, 0], [0, 31]]
    assert frontier.high.tolist() == [[99, 30], [99, 99]]
    assert frontier.tree.tolist() == [0, 0]
    assert frontier.parent.tolist() == [0, 0]
    assert frontier.parent_cut.tolist() == [1, 1]


def test_a_cut_past_the_last_open_bin_leaves_only_gaps():
    """The last cell of 100 bins may extend past bin 99; only gaps are beyond it."""
    frontier = frontier_of([100], 1, n_trees=1, has_missing=[True]).after(level_of([0], [115]))
    assert frontier.high[0].tolist() == [99]
    assert frontier.low[1].tolist() == [100]
    assert frontier.slots.cells[1].tolist() == [1]  # the cell of gaps


def test_a_set_of_categories_narrows_nothing():
    level = level_of([0], subset=np.array([0], np.int32), bin_sets=np.ones((1, 4), np.uint64))
    frontier = frontier_of([7], 1, n_trees=1, is_category=[True]).after(level)
    assert frontier.low.tolist() == [[0], [0]]
    assert frontier.high.tolist() == [[6], [6]]
    assert frontier.parent_cut.tolist() == [-1, -1]


def stays(frontier, where):
    """Return a level in which the first node stays and the others are leaves."""
    n = frontier.n_open
    feature = [0] + [-1] * (n - 1)
    cut = [255] + [0] * (n - 1)
    return level_of(feature, cut, [True, False], where=np.array(where, np.uint8))


def test_a_node_that_stays_is_narrowed_to_the_cells_that_hold_its_rows():
    frontier = frontier_of(
        [200, 90, 7, 30], 4, n_trees=2, bits=2, goes_on=True,
        is_category=[False, False, True, False], has_missing=[False, True, False, True],
    )  # fmt: skip
    slots = frontier.slots
    cell = {0: 1, 1: 0, 2: 5, 3: 4}
    columns = slots.feature[0].tolist()
    places = [columns.index(column) for column in range(4)]
    cell[3] = int(slots.cells[0, places[3]]) - 1  # all values are missing
    child = frontier.after(stays(frontier, [[cell[column] for column in columns]]))
    for column, n_bins in ((0, 200), (1, 90)):
        place = places[column]
        bins = np.arange(n_bins)
        held = bins[(bins + slots.add[0, place]) >> slots.shift[0, place] == cell[column]]
        assert (child.low[0, column], child.high[0, column]) == (held[0], held[-1])
        assert held.size < n_bins
    assert (child.low[0, 2], child.high[0, 2]) == (0, 6)  # a category keeps all its bins
    assert child.low[0, 3] == child.high[0, 3]


@pytest.mark.parametrize("shape", [(2, 2), (1, 3)])
def test_a_level_that_tells_of_other_nodes_or_columns_is_refused(shape):
    frontier = frontier_of([200, 90], 2, n_trees=2, goes_on=True)
    with pytest.raises(ProtocolError, match="A level of the forest does not fit its open nodes"):
        frontier.after(stays(frontier, np.ones(shape)))


def test_a_level_with_cuts_of_another_width_is_refused():
    frontier = frontier_of([200, 90], 2, n_trees=1)
    with pytest.raises(ProtocolError, match="A level of the forest does not fit its open nodes"):
        frontier.after(level_of([0], np.array([9], np.uint16)))


def test_only_open_children_are_asked_about():
    before = frontier_of([9, 9], 1, n_trees=3)
    frontier = before.after(level_of([0, -1, 1], [4, 0, 2], [False, True, True, False]))
    assert frontier.tree.tolist() == [0, 2]
    assert frontier.parent.tolist() == [0, 2]
    assert frontier.low.tolist() == [[5, 0], [0, 0]]
    assert frontier.high.tolist() == [[8, 8], [8, 2]]
    keys = [
        seeds.mix(before.key[:1] ^ np.uint64(2))[0],
        seeds.mix(before.key[2:] ^ np.uint64(1))[0],
    ]
    assert frontier.key.tolist() == keys


def test_a_key_depends_on_its_path_alone():
    """The same node has the same key whether its neighbours are open or not."""
    before = frontier_of([9], 1, n_trees=2)
    all_open = before.after(level_of([0, 0], [4, 4]))
    one_open = before.after(level_of([-1, 0], [0, 4], [False, True]))
    assert one_open.key[0] == all_open.key[3]


def test_trees_have_keys_of_their_own():
    keys = tree_keys(5, 1000)
    assert np.unique(keys).size == 1000
    assert tree_keys(5, 10).tolist() == keys[:10].tolist()
    assert not set(tree_keys(6, 1000).tolist()) & set(keys.tolist())


# --- on the wire ---------------------------------------------------------------------------------


@st.composite
def levels(draw):
    n_open = draw(st.integers(0, 12))
    top = draw(st.sampled_from([3, 254, 255, 70_000]))
    feature = draw(st.lists(st.integers(-1, top), min_size=n_open, max_size=n_open))
    split = [column >= 0 for column in feature]
    n_split = sum(split)

    def flags(n):
        return np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)), bool)

    child_open = flags(2 * n_split)
    n_children = int(child_open.sum())
    with_set = flags(n_open) & np.array(split, bool)
    subset = np.where(with_set, np.cumsum(with_set) - 1, -1).astype(np.int32)
    words = st.integers(0, 2**64 - 1)
    n_sets = int(with_set.sum())
    bin_sets = draw(st.lists(words, min_size=4 * n_sets, max_size=4 * n_sets))
    cut_type = draw(st.sampled_from([np.uint8, np.uint16]))
    most = 254 if cut_type is np.uint8 else 65534
    cuts = draw(st.lists(st.integers(0, most), min_size=n_open, max_size=n_open))
    shape = draw(st.tuples(st.integers(1, 9), st.integers(1, 9)))
    where = st.lists(
        st.integers(0, draw(st.sampled_from([3, 255]))),
        min_size=shape[0] * shape[1],
        max_size=shape[0] * shape[1],
    )
    adaptive = draw(st.booleans())
    thresholds = st.floats(width=32, allow_nan=False)
    return level_of(
        feature,
        np.where(split, cuts, 0).astype(cut_type),
        child_open,
        where=np.array(draw(where), np.uint8).reshape(shape) if draw(st.booleans()) else None,
        missing_left=flags(n_open) & np.array(split, bool),
        subset=subset,
        bin_sets=np.array(bin_sets, np.uint64).reshape(-1, 4),
        child_bits=np.array(
            draw(st.lists(st.integers(1, 60), min_size=n_children, max_size=n_children)), np.uint8
        ),
        child_derived=flags(n_children),
        threshold=np.array(
            draw(st.lists(thresholds, min_size=n_open, max_size=n_open)) if adaptive else [],
            np.float32,
        ),
    )


@given(levels())
def test_a_packed_level_comes_back(level):
    data = level.pack()
    again = Level.unpack(data)
    assert again == level
    assert level.packed_size() == len(data)
    for name in Level.__annotations__:
        assert getattr(again, name).dtype == getattr(level, name).dtype


@given(levels(), st.data())
def test_a_packed_level_that_is_cut_is_refused(level, data):
    packed = level.pack()
    length = data.draw(st.integers(0, len(packed) - 1))
    with pytest.raises(StorageError, match="packed level"):
        Level.unpack(packed[:length])
    with pytest.raises(StorageError, match="packed level"):
        Level.unpack(packed + b"\0")


@given(levels(), st.lists(st.tuples(st.integers(0, 500), st.integers(0, 255)), max_size=4))
def test_a_forged_level_is_sound_or_refused(level, changes):
    packed = bytearray(level.pack())
    for place, value in changes:
        packed[place % len(packed)] = value
    try:
        found = Level.unpack(bytes(packed))
    except StorageError:
        return
    n_split = int((found.feature >= 0).sum())
    assert found.child_open.size == 2 * n_split
    assert found.child_bits.size == found.child_derived.size == found.child_open.sum()
    assert (found.subset < len(found.bin_sets)).all()
    assert found.cut.size == found.missing_left.size == found.feature.size


def test_levels_are_equal_by_their_content():
    one, same, other = level_of([1], [3]), level_of([1], [3]), level_of([1], [4])
    assert one == same
    assert one != other
    assert one != "a level"


def test_a_replaced_decision_leaves_the_level_as_it_was():
    level = level_of([1], [3], child_derived=np.array([True, False]))
    changed = level.replaced(child_derived=np.array([False, False]))
    assert changed.child_derived.tolist() == [False, False]
    assert level.child_derived.tolist() == [True, False]
    assert changed.replaced(child_derived=level.child_derived) == level
