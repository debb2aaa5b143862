"""Proposition 1 of S2: the leaf of a row is the one that every party's part allows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spinney.errors import ProtocolError
from spinney.trees.forest import Forest
from spinney.trees.partial import (
    CHUNK,
    LeafSets,
    Ownership,
    PartialForest,
    intersect,
    join_forests,
    leaf_sets,
)


def random_forest(random, n_trees, n_columns, depth, n_sets):
    """Return a forest of random shape and cuts, and the owner of each column."""
    starts, drawn, left, base = [0], [], [], 0
    for _ in range(n_trees):
        links, columns, level = [0], [-1], [0]
        for _ in range(depth):
            following = []
            for node in level:
                if random.random_sample() < 0.75:
                    columns[node] = random.randint(n_columns)
                    links[node] = len(links)
                    following += [len(links), len(links) + 1]
                    links += [len(links), len(links) + 1]
                    columns += [-1, -1]
            level = following
        for node in range(len(links)):  # a leaf is its own left child
            links[node] = links[node] if columns[node] >= 0 else node
        drawn += columns
        left += [base + link for link in links]
        base += len(links)
        starts.append(base)
    feature = np.array(drawn, np.int32)
    n = feature.size
    is_category = np.arange(n_columns) % 3 == 2
    subset = np.full(n, -1, np.int32)
    with_set = np.flatnonzero((feature >= 0) & is_category[feature])
    subset[with_set] = random.randint(n_sets, size=with_set.size)
    return Forest(
        np.array(starts, np.int64),
        feature,
        random.standard_normal(n).astype(np.float32),
        np.array(left, np.uint32),
        random.random_sample(n) < 0.5,
        subset,
        random.randint(0, 2**63, size=(n_sets, 4)).astype(np.uint64),
        random.randint(0, 9, size=(n, 2)).astype(np.int64),
        random.random_sample(n),
        random.random_sample((n, 2)),
    )


def parts_of(forest, owner, n_parties):
    """Divide a forest into parts: each party gets the cuts on its own columns."""
    parts = []
    for party in range(n_parties):
        numbers = np.flatnonzero(owner == party)
        own_number = np.full(owner.size + 1, -2, np.int32)
        own_number[numbers] = np.arange(numbers.size)
        feature = np.where(forest.feature < 0, -1, own_number[forest.feature]).astype(np.int32)
        own = feature >= 0
        labelled = party == 0
        parts.append(
            (
                PartialForest(
                    forest.tree_start,
                    forest.left,
                    feature,
                    np.where(own, forest.threshold, 0).astype(np.float32),
                    own & forest.missing_left,
                    np.where(own, forest.subset, -1).astype(np.int32),
                    forest.bin_sets,
                    np.where(own, forest.gain, 0),
                    forest.moments if labelled else forest.moments[:, :0],
                    forest.value if labelled else forest.value[:, :0],
                ),
                numbers,
            )
        )
    return parts


@settings(max_examples=60)
@given(st.integers(0, 2**31), st.integers(1, 8), st.integers(0, 9), st.sampled_from([1, 7, 70]))
def test_the_intersection_of_leaf_sets_is_the_leaf(seed, n_parties, depth, n_rows):
    random = np.random.RandomState(seed)
    n_columns = n_parties + random.randint(4)
    forest = random_forest(random, 3, n_columns, depth, 5)
    owner = np.r_[np.arange(n_parties), random.randint(n_parties, size=n_columns - n_parties)]
    values = random.standard_normal((n_columns, n_rows)).astype(np.float32)
    values[2::3] = random.randint(0, 255, size=values[2::3].shape)
    values[random.random_sample(values.shape) < 0.2] = np.nan
    parts = parts_of(forest, owner, n_parties)
    sets = [leaf_sets(part, values[numbers], 1) for part, numbers in parts]
    whose = np.append(owner, -1)[forest.feature].astype(np.int16)
    ownership = Ownership(forest.tree_start, forest.left, whose, forest.depths)
    found = intersect(ownership, sets, 1)
    rows = np.ascontiguousarray(values.T)
    for tree in range(3):
        assert np.array_equal(found[tree], forest.leaves(rows, tree))
    joined = join_forests(parts)
    assert np.array_equal(joined.feature, forest.feature)
    assert np.array_equal(joined.value, forest.value)


def two_parts(n_rows=2 * CHUNK + 3):
    random = np.random.RandomState(3)
    forest = random_forest(random, 2, 4, 5, 1)
    owner = np.array([0, 0, 1, 1])
    parts = parts_of(forest, owner, 2)
    values = random.randint(0, 200, (4, n_rows)).astype(np.float32)
    sets = [leaf_sets(part, values[numbers], 2) for part, numbers in parts]
    whose = np.append(owner, -1)[forest.feature].astype(np.int16)
    ownership = Ownership(forest.tree_start, forest.left, whose, forest.depths)
    return forest, parts, ownership, sets, values


def test_rows_of_several_chunks_are_named_in_order():
    forest, _, ownership, sets, values = two_parts()
    found = intersect(ownership, sets, 2)
    assert np.array_equal(found[1], forest.leaves(np.ascontiguousarray(values.T), 1))


@pytest.mark.parametrize("damage", ["short", "long", "other rows", "ends"])
def test_leaf_sets_that_do_not_fit_are_refused(damage):
    _, _, ownership, (mine, theirs), _ = two_parts()
    assert theirs.bits.size
    bits, ends, n_rows = theirs.bits, theirs.ends, theirs.n_rows
    match damage:
        case "short":
            bits, ends = bits[:-1], np.minimum(ends, bits.size - 1)
        case "long":
            bits, ends = np.append(bits, np.uint8(0)), np.append(ends[:-1], ends[-1] + 1)
        case "other rows":
            n_rows -= 1
        case "ends":
            ends = ends[::-1].copy()
    with pytest.raises(ProtocolError, match="leaf sets do not fit the forest"):
        intersect(ownership, [mine, LeafSets(n_rows, bits, ends)], 1)


def test_parts_of_different_forests_are_not_joined():
    _, (first, _), *_ = two_parts()
    other = parts_of(random_forest(np.random.RandomState(1), 2, 4, 5, 1), np.r_[0, 0, 1, 1], 2)
    with pytest.raises(ProtocolError, match="parts belong to different forests"):
        join_forests([first, other[1]])


def test_a_forest_with_a_part_missing_is_not_whole():
    _, (first, _), *_ = two_parts()
    with pytest.raises(ProtocolError, match="one is missing or repeated"):
        join_forests([first])
