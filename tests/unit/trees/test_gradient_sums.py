"""Sums of gradients are those of a plain loop, for few and many rows, in every part of a table."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from spinney.trees.binning import BinnedTable
from spinney.trees.boosting import Segments, gradient_sums, sums_of_parts
from spinney.trees.buffers import Buffers
from spinney.trees.counts import packed_bits
from spinney.trees.dtypes import MISSING
from spinney.trees.frontier import ColumnCells, Slots

COLUMNS = ColumnCells(
    np.array([255, 255, 5, 255, 200]),
    np.array([False, False, True, False, True]),
    np.array([False, True, False, False, True]),
)


def drawn(heights, n_nodes, seed=0):
    """Return a table of some blocks, and its rows in nodes."""
    random = np.random.default_rng(seed)
    starts = np.cumsum([0, *heights])
    blocks = []
    for height in heights:
        codes = random.integers(0, COLUMNS.n_bins[:, None], (5, height)).astype(np.uint8)
        codes[1, random.random(height) < 0.2] = MISSING
        codes[4, random.random(height) < 0.1] = MISSING
        blocks.append(codes.reshape(-1))
    n = int(starts[-1])
    table = BinnedTable(
        np.concatenate(blocks), starts, 5, np.zeros(n, np.uint8), np.zeros(n, np.uint64)
    )
    words = random.integers(0, 2**16, n).astype(np.uint32) << np.uint32(16)
    rows = np.concatenate([np.arange(height) for height in heights]).astype(np.uint32)
    shares = np.arange(n_nodes + 1)
    cuts = np.stack([a + (b - a) * shares // n_nodes for a, b in pairwise(starts)])
    entries = rows | words
    return table, Segments(entries, cuts[:, :-1].T.copy(), cuts[:, 1:].T.copy())


def laid(n_nodes, shift):
    """Return slots of which each node uses other ones, in cells of 2^shift bins."""
    feature = np.tile(np.arange(5, dtype=np.int32), (n_nodes, 1))
    feature[1::3, 3:] = -1  # an odd number of slots
    add = np.where(np.isin(feature, (0, 1, 3)), 3, 0).astype(np.int32)
    shifts = np.where(np.isin(feature, (0, 1, 3)), shift, 0).astype(np.uint8)
    n_bins = np.array([255, 255, 5, 255, 200])[feature.clip(0)]
    cells = ((n_bins - 1 + add) >> shifts) + 1 + COLUMNS.has_missing[feature.clip(0)]
    return Slots.of(feature, add, shifts, np.where(feature < 0, 0, cells).astype(np.int32))


def by_hand(table, counted, slots, blocks, width):
    out = np.zeros((slots.n_cells, width), np.int64)
    for node, slot in np.ndindex(slots.feature.shape):
        column = slots.feature[node, slot]
        if column < 0:
            continue
        for block in blocks:
            held = counted.entries[counted.starts[node, block] : counted.ends[node, block]]
            first, last = table.block_start[block : block + 2]
            codes = table.codes[first * 5 : last * 5].reshape(5, -1)[column][held & 0xFFFF]
            cell = (codes.astype(np.int64) + slots.add[node, slot]) >> slots.shift[node, slot]
            if COLUMNS.has_missing[column]:
                cell[codes == MISSING] = slots.cells[node, slot] - 1
            cell += slots.offset[node, slot]
            np.add.at(out[:, 0], cell, 1)
            if width == 3:
                np.add.at(out[:, 1], cell, (held >> np.uint32(16)) & np.uint32(0xFF))
                np.add.at(out[:, 2], cell, held >> np.uint32(24))
            else:
                np.add.at(out[:, 1], cell, held >> np.uint32(16))
    return out


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("shift", [4, 7])
@pytest.mark.parametrize("has_h", [True, False])
@pytest.mark.parametrize(
    ("heights", "n_nodes"), [([9000, 4000, 0, 7000], 1), ([9000, 4000, 0, 7000], 4), ([30], 3)]
)
def test_sums_are_those_of_a_plain_loop(heights, n_nodes, has_h, shift, n_threads):
    table, counted = drawn(heights, n_nodes)
    slots, width, n = laid(n_nodes, shift), 3 if has_h else 2, len(heights)
    how: dict[str, Any] = {"has_h": has_h, "n_threads": n_threads}
    whole = gradient_sums(table, COLUMNS, counted, slots, **how).counters
    assert np.array_equal(whole, by_hand(table, counted, slots, range(n), width))
    for part_start in ([0, n], [*range(n + 1)], [n // 2, n]):
        start = np.array(part_start)
        found = sums_of_parts(table, start, COLUMNS, counted, slots, **how)
        for part, first, last in zip(found, start, start[1:], strict=False):
            expected = by_hand(table, counted, slots, range(first, last), width)
            assert np.array_equal(part.counters, expected)


def test_more_rows_than_a_word_counts_are_summed():
    table, counted = drawn([60_000, 60_000, 50_000], 1)
    slots = laid(1, 5)
    found = gradient_sums(table, COLUMNS, counted, slots, has_h=True, n_threads=1).counters
    assert np.array_equal(found, by_hand(table, counted, slots, range(3), 3))


def test_sizes_and_memory_change_no_sum():
    table, counted = drawn([9000, 8000], 200)
    slots, start, buffers = laid(200, 4), np.arange(3), Buffers()
    how: dict[str, Any] = {"has_h": True, "n_threads": 2}
    plain = sums_of_parts(table, start, COLUMNS, counted, slots, **how)
    for _ in range(2):  # the second time in memory that was used before
        sized = sums_of_parts(
            table, start, COLUMNS, counted, slots, sized=True, buffers=buffers, **how
        )
        for part, expected in zip(sized, plain, strict=True):
            assert np.array_equal(part.counters, expected.counters)
            assert part.bits == packed_bits(expected.counters, expected.run_ends)
            assert part.packed_size() == len(expected.pack())
        del part, sized
    assert len(buffers._spare) == 1
