"""Where a party is counted: in nodes of which neither they nor their siblings hold few rows."""

import numpy as np
import pytest

from spinney.trees.frontier import Slots
from spinney.trees.level import Level
from spinney.trees.own_rows import OwnRows, cells_out, rows_told
from spinney.trees.rows import Standing

NO = np.zeros(0)


def standing(rows):
    """Return nodes with so many rows of each class; every row was drawn three times."""
    entries, starts, ends, at = [], [], [], 0
    for node in rows:
        starts.append([at])
        for label, n in enumerate(node):
            entries += [(3 << 27) | (label << 16) | i for i in range(n)]
            at += n
        ends.append([at])
    return Standing(np.array(entries, np.uint32), np.array(starts), np.array(ends))


def split(is_open):
    """Return a level that splits every node; `is_open` says which children stay open."""
    n = len(is_open) // 2
    child_open = np.array(is_open, np.bool_)
    return Level(
        feature=np.zeros(n, np.int32),
        cut=np.zeros(n, np.uint8),
        missing_left=np.zeros(n, np.bool_),
        subset=np.full(n, -1, np.int32),
        bin_sets=np.zeros((0, 4), np.uint64),
        child_open=child_open,
        child_bits=np.ones(int(child_open.sum()), np.uint8),
        child_derived=np.zeros(int(child_open.sum()), np.bool_),
        threshold=NO.astype(np.float32),
    )


@pytest.mark.parametrize(
    ("rows", "is_in"), [((20, 20), True), ((0, 20), True), ((19, 40), False), ((0, 0), True)]
)
def test_a_party_with_few_rows_of_a_class_is_out_of_a_tree(rows, is_in):
    found = OwnRows.at_roots(standing([rows]), 2, 20)
    assert found.is_in.tolist() == [is_in]
    assert found.rows.tolist() == [list(rows)]  # a row that is drawn three times is one row


def test_regression_has_one_class():
    assert OwnRows.at_roots(standing([(20,), (19,)]), 0, 20).is_in.tolist() == [True, False]


SPLITS = {  # rows of the parent; of the open children; whether they are counted
    "enough on both sides": ([50, 50], [[30, 30], [20, 20]], [True, True]),
    "few on one side: both are out": ([50, 50], [[45, 30], [5, 20]], [False, False]),
    "none on one side": ([50, 50], [[50, 50], [0, 0]], [True, True]),
    "a class on each side": ([50, 50], [[50, 0], [0, 50]], [True, True]),
}


@pytest.mark.parametrize("case", SPLITS)
def test_siblings_are_in_or_out_together(case):
    parent, children, is_in = SPLITS[case]
    root = OwnRows.at_roots(standing([parent]), 2, 20)
    assert root.after(split([1, 1]), standing(children)).is_in.tolist() == is_in


def test_a_sibling_that_is_closed_counts_too():
    """Its rows are what its open sibling lacks of their parent."""
    root = OwnRows.at_roots(standing([(50, 50)]), 2, 20)
    assert root.after(split([1, 0]), standing([(45, 45)])).is_in.tolist() == [False]
    assert root.after(split([0, 1]), standing([(30, 30)])).is_in.tolist() == [True]


def test_who_is_out_stays_out():
    root = OwnRows.at_roots(standing([(90, 90), (90, 90)]), 2, 20)
    first = root.after(split([1, 1, 1, 1]), standing([(85, 45), (5, 45), (45, 45), (45, 45)]))
    assert first.is_in.tolist() == [False, False, True, True]
    below = first.after(split([1, 1, 0, 0, 1, 1, 0, 0]), standing([(42, 22), (43, 23)] * 2))
    assert below.is_in.tolist() == [False, False, False, False]  # the third has siblings of few


def test_cells_of_nodes_that_are_out_and_rows_that_a_node_tells():
    cells = np.array([[2, 3], [0, 0], [1, 2]], np.int32)
    zeros = np.zeros_like(cells)
    feature = np.where(cells > 0, 0, -1).astype(np.int32)
    slots = Slots.of(feature, zeros, zeros.astype(np.uint8), cells)
    assert cells_out(slots, np.array([True, True, False])).tolist() == [False] * 5 + [True] * 3
    counters = np.arange(16, dtype=np.int32).reshape(8, 2)
    told, rows = rows_told(slots, counters)
    assert told.tolist() == [True, False, True]
    assert rows.tolist() == [[0 + 2, 1 + 3], [10, 11]]
    nothing = Slots.of(feature[1:2], zeros[1:2], zeros[1:2].astype(np.uint8), cells[1:2])
    assert rows_told(nothing, np.zeros((0, 2), np.int32))[1].shape == (0, 2)
