"""Rows of each node: the bootstrap, and the partition by a level's splits."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney import seeds
from spinney.trees._kernels import hashing
from spinney.trees._kernels import rows as kernels
from spinney.trees.dtypes import CATEGORY_WORDS, MISSING
from spinney.trees.rows import standing_at_roots

SHIFT, MASK = int(kernels.WEIGHT_SHIFT), int(kernels.ROW_MASK)


def parts_of(entries):
    """Return the rows and the weights of entries."""
    return entries & MASK, entries >> SHIFT


def twin_of_draw(tree_key, row_keys, block_start, *, bootstrap):
    """Return each block's entries: rows of the block with a weight above 0, in order."""
    words = seeds.mix(tree_key ^ row_keys)
    weights = np.searchsorted(hashing._POISSON, words, side="right")
    if not bootstrap:
        weights = np.ones(row_keys.size, np.int64)
    blocks = []
    for a, b in itertools.pairwise(block_start):
        rows = np.flatnonzero(weights[a:b])
        blocks.append(rows | (weights[a:b][rows] << SHIFT))
    return blocks


@pytest.mark.parametrize("bootstrap", [True, False])
@pytest.mark.parametrize("sizes", [[1], [5], [3000], [1024, 1025, 7], [0, 40, 0, 3]])
def test_every_tree_draws_its_rows_by_their_keys(sizes, bootstrap, in_blocks):
    n = sum(sizes)
    codes = np.zeros((n, 2), np.uint8)
    table = in_blocks(codes, np.zeros(n, np.uint8), sizes)
    tree_keys = seeds.mix(np.arange(4, dtype=np.uint64))
    for n_threads in (1, 2):
        standing = standing_at_roots(table, tree_keys, bootstrap=bootstrap, n_threads=n_threads)
        for tree, key in enumerate(tree_keys):
            expected = twin_of_draw(key, table.keys, table.block_start, bootstrap=bootstrap)
            for block, entries in enumerate(expected):
                a, b = standing.starts[tree, block], standing.ends[tree, block]
                assert standing.entries[a:b].tolist() == entries.tolist()


def test_a_draw_that_needs_more_room_is_made_again(in_blocks):
    """Every row of this table is drawn by tree 0: more than a bootstrap is given room for."""
    tree_keys = seeds.mix(np.arange(2, dtype=np.uint64))
    keys = seeds.mix(np.arange(20_000, dtype=np.uint64))
    drawn = hashing._POISSON[0] <= seeds.mix(tree_keys[0] ^ keys)
    keys = keys[drawn]
    table = in_blocks(np.zeros((keys.size, 1), np.uint8), np.zeros(keys.size, np.uint8), keys=keys)
    standing = standing_at_roots(table, tree_keys, bootstrap=True, n_threads=1)
    assert standing.rows_of_node[0] == keys.size
    assert standing.entries.size == 2 * keys.size
    rows, weights = parts_of(standing.entries[: keys.size])
    assert rows.tolist() == list(range(keys.size))
    assert weights.min() >= 1


def in_bin_set(bins, code):
    return bool((int(bins[code >> 6]) >> (code & 63)) & 1)


def goes_left(code, cut, missing_left, bins):
    if bins is not None:
        return in_bin_set(bins, code)
    return missing_left if code == MISSING else code <= cut


@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_a_partition_keeps_order_and_puts_left_rows_first(data, seed):
    """Against the plain rule, row by row, for numbers, gaps, category sets and leaves."""
    random = np.random.RandomState(seed)
    sizes = data.draw(st.lists(st.integers(0, 40), min_size=1, max_size=3))
    n, n_columns = sum(sizes), 3
    block_start = np.cumsum([0, *sizes]).astype(np.int64)
    codes = random.randint(0, 256, (n, n_columns)).astype(np.uint8)
    codes[random.random_sample(codes.shape) < 0.2] = MISSING
    flat = np.concatenate([codes[a:b].T.ravel() for a, b in itertools.pairwise(block_start)])
    # Two nodes share each block's rows: the first half of the entries, then the second.
    parts, starts, at = [], np.zeros((2, len(sizes)), np.int64), 0
    ends = np.zeros_like(starts)
    for block, size in enumerate(sizes):
        rows = random.permutation(size).astype(np.uint32)
        half = data.draw(st.integers(0, size))
        starts[:, block] = at, at + half
        ends[:, block] = at + half, at + size
        parts.append(rows | (random.randint(1, 12, size).astype(np.uint32) << np.uint32(SHIFT)))
        at += size
    entries = np.concatenate(parts)
    bin_sets = random.randint(0, 2**63, (1, CATEGORY_WORDS)).astype(np.uint64)
    feature = random.randint(-1, n_columns, 2).astype(np.int32)
    cut = random.randint(0, 255, 2).astype(np.uint8)
    missing_left = random.random_sample(2) < 0.5
    subset = np.where((feature >= 0) & (random.random_sample(2) < 0.5), 0, -1).astype(np.int32)
    before = entries.copy()
    child = np.where(feature[:, None] >= 0, np.arange(4).reshape(2, 2), -1)
    child_starts = np.full((4, len(sizes)), -1)
    child_ends = child_starts.copy()
    kernels.partition(
        flat, block_start, n_columns, entries, starts, ends, (0, len(sizes)), 0, 2,
        feature, cut, missing_left, subset, bin_sets, child, child_starts, child_ends,
    )  # fmt: skip
    for node in range(2):
        for block in range(len(sizes)):
            a, b = starts[node, block], ends[node, block]
            segment = before[a:b]
            sides = [
                feature[node] >= 0
                and goes_left(
                    int(codes[block_start[block] + (entry & MASK), feature[node]]),
                    cut[node],
                    missing_left[node],
                    bin_sets[0] if subset[node] >= 0 else None,
                )
                for entry in segment
            ]
            left = segment[np.array(sides, bool)]
            right = segment[~np.array(sides, bool)]
            if feature[node] < 0:
                assert entries[a:b].tolist() == segment.tolist()
                assert (child_starts[2 * node : 2 * node + 2, block] == -1).all()
                continue
            middle = a + left.size
            assert child_starts[2 * node : 2 * node + 2, block].tolist() == [a, middle]
            assert child_ends[2 * node : 2 * node + 2, block].tolist() == [middle, b]
            assert entries[a:b].tolist() == [*left, *right]


def test_a_node_is_left_out_if_a_row_of_it_lies_outside_its_box():
    """A box that is not true must not lead a count outside its cells."""
    codes = np.array([5, 200, 7, MISSING, 9, 6], np.uint8)  # one column, two blocks of three
    block_start = np.array([0, 3, 6])
    entries = np.array([0, 1, 2, 0, 1, 2], np.uint32) | np.uint32(1 << SHIFT)
    starts = np.array([[0, 3], [1, 5], [2, 4]])
    ends = np.array([[1, 5], [2, 6], [3, 5]])
    low, high = np.full((3, 1), 5, np.uint8), np.full((3, 1), 9, np.uint8)
    feature, is_category = np.zeros((3, 1), np.int32), np.zeros(1, np.bool_)
    found = ends.copy()
    nodes = np.arange(3)
    kernels.leave_out(
        codes, block_start, 1, entries, starts, nodes, feature, is_category, low, high, found
    )
    assert found.tolist() == [[1, 5], [1, 5], [3, 5]]
