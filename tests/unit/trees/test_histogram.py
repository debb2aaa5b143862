"""Count rows: every counting kernel against plain additions."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from spinney.trees.counts import Counts
from spinney.trees.dtypes import MISSING
from spinney.trees.frontier import ColumnCells, Draws, Frontier
from spinney.trees.histogram import level_counts
from spinney.trees.rows import standing_at_roots

SHIFT, MASK = 27, 0xFFFF


def twin_of_counts(codes, table, standing, slots, n_classes):
    """Add every entry of every node to the cell of its bin, slot by slot."""
    block_start, target = table.block_start, table.target
    width = n_classes or 2
    out = np.zeros((slots.n_cells, width), np.int64)
    for node in range(len(slots.feature)):
        for block in range(block_start.size - 1):
            a, b = standing.starts[node, block], standing.ends[node, block]
            rows = (standing.entries[a:b] & MASK) + block_start[block]
            weights = (standing.entries[a:b] >> SHIFT).astype(np.int64)
            for slot, column in enumerate(slots.feature[node]):
                if column < 0:
                    continue
                code = codes[rows, column].astype(np.int64)
                cell = (code + slots.add[node, slot]) >> slots.shift[node, slot]
                cell = np.where(code == MISSING, slots.cells[node, slot] - 1, cell)
                at = slots.offset[node, slot] + cell
                if n_classes:
                    np.add.at(out, (at, target[rows]), weights)
                else:
                    np.add.at(out[:, 0], at, weights)
                    np.add.at(out[:, 1], at, weights * target[rows])
    return out


def binned_rows(seed, n, n_bins, *, gaps):
    random = np.random.RandomState(seed)
    codes = np.stack([random.randint(0, bins, n) for bins in n_bins], axis=1).astype(np.uint8)
    for column in np.flatnonzero(gaps):
        codes[random.random_sample(n) < 0.2, column] = MISSING
    return codes


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize(
    ("n_classes", "narrow"), [*product([0, 2, 3, 7], [False]), (2, True), (3, True)]
)
@pytest.mark.parametrize("gaps", [(0, 0, 0, 0, 0), (1, 0, 1, 0, 1)])
def test_counting_is_adding_up_rows(gaps, n_classes, narrow, n_threads, in_blocks):
    n_bins = np.array([255, 4, 60, 1, 6])
    sizes = [1500, 700, 1]
    n = sum(sizes)
    codes = binned_rows(1, n, n_bins, gaps=np.array(gaps))
    random = np.random.RandomState(2)
    target: Any
    if n_classes:
        target = random.randint(0, n_classes, n).astype(np.uint8)
    else:
        target = random.randint(0, 2**40, n)
    table = in_blocks(codes, target, sizes)
    columns = ColumnCells(n_bins, np.array([False, True, False, False, True]), np.array(gaps, bool))
    for n_slots, max_cells in ((5, 33), (2, 255), (3, 4)):
        draws = Draws(n_slots, max_cells, least_cells=4, shared_phase=False)
        frontier = Frontier.of_roots(columns, draws, seed=5, n_trees=6, bits=20)
        standing = standing_at_roots(table, frontier.phase_key, bootstrap=True, n_threads=1)
        for first, last in ((0, 6), (2, 5), (5, 6)):
            slots = frontier.slots.part(first, last)
            found = level_counts(
                table,
                columns,
                standing,
                slots,
                (first, last),
                n_classes=n_classes,
                n_threads=n_threads,
                narrow=narrow,
            )
            part = type(standing)(
                standing.entries, standing.starts[first:last], standing.ends[first:last]
            )
            expected = twin_of_counts(codes, table, part, slots, n_classes)
            assert np.array_equal(found.counters, expected)
            narrowed = np.uint16 if narrow else np.int32
            assert found.counters.dtype == (narrowed if n_classes else np.int64)
            assert found.packed_size() == len(found.pack())
            again = Counts.unpack(found.pack())
            assert np.array_equal(again.counters, found.counters)


def test_two_classes_share_a_64_bit_addition_up_to_their_limits(in_blocks):
    """The count of class 0 must not spill into that of class 1."""
    n = 70_000
    codes = np.zeros((n, 1), np.uint8)
    target = (np.arange(n) % 2).astype(np.uint8)
    table = in_blocks(codes, target, [65536, n - 65536])
    columns = ColumnCells(np.array([2]), np.array([False]), np.array([False]))
    frontier = Frontier.of_roots(
        columns, Draws(1, 33, least_cells=4, shared_phase=False), seed=0, n_trees=1, bits=20
    )
    standing = standing_at_roots(table, frontier.phase_key, bootstrap=False, n_threads=1)
    found = level_counts(table, columns, standing, frontier.slots, (0, 1), n_classes=2, n_threads=1)
    assert found.counters.tolist() == [[n // 2, n // 2], [0, 0]]
    found = level_counts(
        table, columns, standing, frontier.slots, (0, 1), n_classes=2, n_threads=1, narrow=True
    )
    assert found.counters.tolist() == [[n // 2, n // 2], [0, 0]]  # each below 2^16
