"""A party's part of a forest, the forest that all parts make, and the leaves they agree on.

All parts have the same nodes in the same order. A part holds the cuts on its party's columns; at
other nodes it knows only that there is a cut. Proposition 1 of S2: the rows of a leaf are those
that every part allows there.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.errors import ProtocolError
from spinney.trees._kernels import columns as layout
from spinney.trees._kernels import leaf_sets as kernels
from spinney.trees.binning import Binning
from spinney.trees.forest import Forest
from spinney.trees.layout import LeafValues
from spinney.trees.level import empty_bin_sets
from spinney.trees.own_columns import OwnSplits
from spinney.trees.partition import Partition
from spinney.trees.threads import run_ranges
from spinney.typing import Bools, Floats, Integers, Values

LEAF, ELSEWHERE = -1, -2
CHUNK = 1024  # rows that descend together; part of the format of leaf sets


@dataclass(frozen=True)
class PartialForest:
    """The nodes of all trees, with the cuts on this party's columns."""

    tree_start: Integers
    left: NDArray[np.uint32]  # a leaf is its own left child
    feature: NDArray[np.int32]  # own columns from 0; -1 at leaves, -2 at another party's cut
    threshold: NDArray[np.float32]
    missing_left: Bools
    subset: NDArray[np.int32]
    bin_sets: NDArray[np.uint64]
    gain: Floats
    moments: Integers  # (n_nodes, width); no columns unless this party holds the labels
    value: Floats

    @property
    def n_trees(self) -> int:
        """How many trees there are."""
        return int(self.tree_start.size) - 1

    @property
    def n_nodes(self) -> int:
        """How many nodes there are in all trees."""
        return int(self.left.size)

    @cached_property
    def depth_of_node(self) -> Integers:
        """The depth of each node."""
        depth = np.zeros(self.n_nodes, np.int64)
        level = self.tree_start[:-1]
        while True:
            parents = level[self.left[level] != level]
            if not parents.size:
                return depth
            children = self.left[parents].astype(np.int64)
            depth[children] = depth[children + 1] = depth[parents] + 1
            level = np.concatenate([children, children + 1])

    @cached_property
    def depths(self) -> Integers:
        """The depth of each tree."""
        deepest: Integers = np.maximum.reduceat(self.depth_of_node, self.tree_start[:-1])
        return deepest

    @property
    def how(self) -> NDArray[np.int64]:
        """How each cut treats missing values and categories, coded as for prediction."""
        found: NDArray[np.int64] = np.where(
            self.subset >= 0, self.subset + 2, self.missing_left
        ).astype(np.int64)
        return found


@dataclass(frozen=True)
class LaidNodes:
    """The nodes of trees that grow together, numbered level by level, and where each is laid.

    They are laid tree by tree, in breadth-first order.
    """

    tree: Integers  # of each node
    opened: Integers  # the numbers of all nodes that were open, level by level
    split: Integers  # of those that are split
    place: Integers  # of each node
    tree_start: Integers
    left: NDArray[np.uint32]  # by place; a leaf is its own left child

    @classmethod
    def of(cls, n_trees: int, levels: Sequence[Partition]) -> "LaidNodes":
        """Lay the nodes of all levels."""
        none = [np.zeros(0, np.bool_)]
        split = np.concatenate(none + [level.split for level in levels])
        child_open = np.concatenate(none + [level.child_open for level in levels])
        n = n_trees + child_open.size
        tree, opened, place = (
            np.empty(n, np.int64),
            np.empty(split.size, np.int64),
            np.empty(n, np.int64),
        )
        cut, left = np.empty(child_open.size // 2, np.int64), np.empty(n, np.uint32)
        tree_start = np.empty(n_trees + 1, np.int64)
        layout.lay_nodes(split, child_open, tree, opened, cut, place, tree_start, left)
        return cls(tree, opened, cut, place, tree_start, left)

    @property
    def leaves(self) -> Integers:
        """The numbers of all leaves."""
        is_leaf = np.ones(self.tree.size, np.bool_)
        is_leaf[self.split] = False
        return is_leaf.nonzero()[0]


def partial_forest(
    n_trees: int,
    levels: Sequence[tuple[Partition, OwnSplits]],
    binning: Binning | None,
    moments: Sequence[Integers],
    values: LeafValues | None,
    *,
    gains: Mapping[int, Floats] = MappingProxyType({}),
) -> PartialForest:
    """Lay the nodes out tree by tree, in breadth-first order; moments are given by depth.

    A party that knows all gains may pass the `gains` of each depth's split nodes.
    """
    laid = LaidNodes.of(n_trees, [partition for partition, _ in levels])
    n, place = laid.tree.size, laid.place
    feature = np.full(n, LEAF, np.int32)
    threshold, gain = np.zeros(n, np.float32), np.zeros(n)
    missing_left, subset = np.zeros(n, np.bool_), np.full(n, -1, np.int32)
    sets = empty_bin_sets(0)
    if levels:  # all levels at once: many trees grow one after another, and most are small
        split = place[laid.split]
        feature[split] = ELSEWHERE
        if gains:
            n_split = [partition.child_open.size // 2 for partition, _ in levels]
            known = [np.full(size, gains.get(depth, 0.0)) for depth, size in enumerate(n_split)]
            gain[split] = np.concatenate(known)
        own = _joined_cuts(levels)
        at = place[laid.opened[own.node]]
        feature[at], missing_left[at], gain[at] = own.feature, own.missing_left, own.gain
        if binning is not None:
            threshold[at] = binning.thresholds(own.feature, own.cut)
            with_set = binning.columns.is_category[own.feature]
            if with_set.any():
                subset[at[with_set]] = np.arange(np.count_nonzero(with_set))
                sets = own.bin_set[with_set]
    held = np.zeros((n, 0), np.int64)
    if moments:
        found = np.concatenate(moments)
        held = np.empty_like(found)
        held[place] = found
    return PartialForest(
        laid.tree_start, laid.left, feature, threshold, missing_left, subset, sets, gain, held,
        values.of(held) if values is not None else np.zeros((n, 0)),
    )  # fmt: skip


def _joined_cuts(levels: Sequence[tuple[Partition, OwnSplits]]) -> OwnSplits:
    """Return the cuts of all levels; their nodes are counted over the open nodes of all levels."""
    before, nodes = 0, []
    for partition, own in levels:
        nodes.append(own.node + before)
        before += partition.split.size
    parts = [own for _, own in levels]
    return OwnSplits(
        np.concatenate(nodes),
        np.concatenate([own.feature for own in parts]),
        np.concatenate([own.cut for own in parts]),
        np.concatenate([own.missing_left for own in parts]),
        np.concatenate([own.bin_set for own in parts]),
        np.concatenate([own.gain for own in parts]),
    )


def join_forests(
    parts: Sequence[tuple[PartialForest, Integers]], *, together: int | None = None
) -> Forest:
    """Return the forest that all parts make; each comes with the numbers of its columns.

    `together` is the number of trees that grew together; None: all.
    """
    first, _ = parts[0]
    n = first.n_nodes
    feature = np.full(n, -1, np.int32)
    subset, n_sets = np.full(n, -1, np.int64), 0
    sets = [empty_bin_sets(0)]
    copied: dict[str, NDArray[Any]] = {
        "threshold": np.zeros(n, np.float32),
        "missing_left": np.zeros(n, np.bool_),
    }
    gain = np.zeros(n)
    labelled = [part for part, _ in parts if part.value.shape[1]]
    for part, columns in parts:
        if not np.array_equal(part.left, first.left):
            raise ProtocolError("Two parts belong to different forests; they cannot be joined.")
        own = np.flatnonzero(part.feature >= 0)
        feature[own] = columns[part.feature[own]]
        for name, whole in copied.items():
            whole[own] = getattr(part, name)[own]
        gain += part.gain  # one party knows the gain of a cut: its owner, or the label holder
        with_set = own[part.subset[own] >= 0]
        subset[with_set] = n_sets + part.subset[with_set]
        sets.append(part.bin_sets)
        n_sets += len(part.bin_sets)
    is_inner = first.left != np.arange(n)
    if len(labelled) != 1 or not np.array_equal(feature >= 0, is_inner):
        raise ProtocolError("The parts do not make a whole forest: one is missing or repeated.")
    # Sets are in the order in which a forest is grown: batch by batch, level by level.
    with_set = np.flatnonzero(subset >= 0)
    tree = np.searchsorted(first.tree_start, with_set, side="right") - 1
    batch = tree // (together or first.n_trees)
    with_set = with_set[np.lexsort((first.depth_of_node[with_set], batch))]
    ordered = np.concatenate(sets)[subset[with_set]]
    subset[with_set] = np.arange(with_set.size)
    return Forest(
        first.tree_start, feature, copied["threshold"], first.left, copied["missing_left"],
        subset.astype(np.int32), ordered, labelled[0].moments, gain, labelled[0].value,
    )  # fmt: skip


@dataclass(frozen=True)
class LeafSets:
    """The leaves that rows may reach by one party's cuts: bits, chunk by chunk, tree by tree."""

    n_rows: int
    bits: NDArray[np.uint8]
    ends: Integers  # (n_chunks * n_trees,) in bytes


def leaf_sets(part: PartialForest, values: Values, n_threads: int) -> LeafSets:
    """Send rows, (own columns, n_rows) with categories by their bin, down a part's trees."""
    n_rows = values.shape[1]
    visits = np.zeros(part.n_nodes, np.int64)
    how, depths = part.how, part.depths
    begins = range(0, n_rows, CHUNK)
    found: dict[int, NDArray[np.uint8]] = {}

    def task(first: int, last: int) -> None:
        for tree in range(first, last):
            root, end = part.tree_start[tree], part.tree_start[tree + 1]
            most = kernels.most_visits(root, end, part.left, part.feature, visits)
            for number, begin in enumerate(begins):
                rows = np.ascontiguousarray(values[:, begin : begin + CHUNK])
                out = np.zeros((most * rows.shape[1] + 7) // 8, np.uint8)
                n_bits = kernels.write_leaf_sets(
                    rows, root, part.left, part.feature, part.threshold, how, part.bin_sets,
                    depths[tree], out,
                )  # fmt: skip
                found[number * part.n_trees + tree] = out[: (n_bits + 7) // 8]

    run_ranges(task, [(tree, tree + 1) for tree in range(part.n_trees)], n_threads)
    pieces = [found[number] for number in range(len(found))]
    ends = np.cumsum([piece.size for piece in pieces], dtype=np.int64)
    return LeafSets(n_rows, np.concatenate([np.zeros(0, np.uint8), *pieces]), ends)


@dataclass(frozen=True)
class Ownership:
    """What is needed to intersect leaf sets: the trees' links, and the owner of each cut."""

    tree_start: Integers
    left: NDArray[np.uint32]
    owner: NDArray[np.int16]  # the party's number; -1 at leaves
    depths: Integers


def intersect(ownership: Ownership, sets: Sequence[LeafSets], n_threads: int) -> NDArray[np.uint32]:
    """Return the leaf that all parties agree on: (n_trees, n_rows). Alg. 4, line 3."""
    every = _AllSets.of(ownership, sets)
    n_trees, n_rows = every.n_trees, sets[0].n_rows
    leaves = np.zeros((n_trees, n_rows), np.uint32)
    good = np.ones(n_trees, np.bool_)

    def task(first: int, last: int) -> None:
        for tree in range(first, last):
            for rows, begin, end in every.chunks(tree):
                good[tree] &= kernels.intersect_leaf_sets(
                    every.bits, begin, end, rows.stop - rows.start, ownership.tree_start[tree],
                    ownership.left, ownership.owner, ownership.depths[tree], leaves[tree, rows],
                )  # fmt: skip

    run_ranges(task, [(tree, tree + 1) for tree in range(n_trees)], n_threads)
    if not good.all():
        raise _misfit()
    return leaves


def share_out(
    ownership: Ownership, sets: Sequence[LeafSets], cover: Integers, value: Floats
) -> Floats:
    """Return what each party's cuts add to each row's sum over trees.

    The result is (n_parties, n_rows, n_outputs): Shapley values with parties as players. `cover`
    are the rows of training in each node.
    """
    every = _AllSets.of(ownership, sets)
    found = np.zeros((len(sets), sets[0].n_rows, value.shape[1]))
    for tree in range(every.n_trees):
        for rows, begin, end in every.chunks(tree):
            if not kernels.share_out_leaves(
                every.bits, begin, end, rows.stop - rows.start, ownership.tree_start[tree],
                ownership.left, ownership.owner, cover, value, ownership.depths[tree],
                found[:, rows],
            ):  # fmt: skip
                raise _misfit()
    return found


@dataclass(frozen=True)
class _AllSets:
    """The leaf sets of all parties, one after another."""

    sets: Sequence[LeafSets]
    n_trees: int
    bits: NDArray[np.uint8]
    offset: Integers  # where each party's bits begin

    @classmethod
    def of(cls, ownership: Ownership, sets: Sequence[LeafSets]) -> "_AllSets":
        """Return sets that fit the trees; raise for others."""
        n_trees, n_rows = ownership.tree_start.size - 1, sets[0].n_rows
        for one in sets:
            sound = one.n_rows == n_rows and one.ends.size == n_trees * -(-n_rows // CHUNK)
            sound = sound and bool(np.all(np.diff(one.ends, prepend=0) >= 0))
            if not sound or (one.ends[-1] if one.ends.size else 0) != one.bits.size:
                raise _misfit()
        offset = np.cumsum([0, *(one.bits.size for one in sets)])[:-1]
        return cls(sets, n_trees, np.concatenate([one.bits for one in sets]), offset)

    def chunks(self, tree: int) -> Iterator[tuple[slice, Integers, Integers]]:
        """Yield each chunk of rows with the begins and ends of the parties' bits for a tree."""
        n_rows = self.sets[0].n_rows
        for number, first in enumerate(range(0, n_rows, CHUNK)):
            at = number * self.n_trees + tree
            begin = np.array([one.ends[at - 1] if at else 0 for one in self.sets]) + self.offset
            end = np.array([one.ends[at] for one in self.sets]) + self.offset
            yield slice(first, min(n_rows, first + CHUNK)), begin, end


def _misfit() -> ProtocolError:
    return ProtocolError("A party's leaf sets do not fit the forest and the requested rows.")
