"""Make a forest from its levels: the nodes and their moments, laid out tree by tree.

Levels list nodes in the order they were opened; a finished forest stores each tree's nodes
together, in breadth-first order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from spinney.trees._kernels import layout as kernels
from spinney.trees.binning import Binning
from spinney.trees.counts import Counters
from spinney.trees.dtypes import TARGET_BITS
from spinney.trees.forest import Forest
from spinney.trees.level import Level, by_node, empty_bin_sets
from spinney.typing import Bools, Floats, Integers


class NodeArrays(Protocol):
    """Trees one after another, or one party's part of them."""

    @property
    def tree_start(self) -> Integers:
        """Where each tree begins."""
        ...

    @property
    def left(self) -> NDArray[np.uint32]:
        """The left child of each node."""
        ...

    @property
    def subset(self) -> NDArray[np.int32]:
        """The row of `bin_sets` of each node."""
        ...

    @property
    def bin_sets(self) -> NDArray[np.uint64]:
        """The bins that go left, of cuts by category."""
        ...

    @property
    def n_nodes(self) -> int:
        """How many nodes there are."""
        ...


Trees = TypeVar("Trees", bound=NodeArrays)


@dataclass(frozen=True)
class LevelNodes:
    """All nodes of one depth, open or not; the nodes of a tree are adjacent."""

    tree: NDArray[np.int32]
    moments: Integers
    is_open: Bools


@dataclass(frozen=True)
class LeafValues:
    """The prediction from a node's moments: class probabilities, or a mean in target units.

    Noisy moments may be negative, and a mean may lie outside the range; both are clipped.
    """

    class_weight: Floats  # empty for regression
    low: float = 0.0
    step: float = 1.0  # target units per fixed-point unit
    bits: int = TARGET_BITS  # of a fixed-point target

    def of(self, moments: Integers) -> Floats:
        """Return (n_nodes, n_outputs)."""
        if self.class_weight.size:
            shares = np.empty(moments.shape)
            kernels.class_shares(moments, self.class_weight, shares)
            return shares
        weight = np.maximum(moments[:, :1], 1)
        most = 2.0**self.bits - 1
        means: Floats = self.low + self.step * (moments[:, 1:] / weight).clip(0.0, most)
        return means


class NodeValues(Protocol):
    """How a prediction follows from a node's moments."""

    def of(self, moments: Integers) -> Floats:
        """Return (n_nodes, n_outputs)."""
        ...


def forest_of_leaves(
    n_trees: int,
    levels: tuple[Level, ...],
    leaf_moments: Counters,
    binning: Binning,
    values: LeafValues,
) -> Forest:
    """Return the forest that the levels describe, given its leaves' moments; gains are zero."""
    nodes = nodes_of_leaves(n_trees, levels, leaf_moments)
    gains = [np.zeros(int((level.feature >= 0).sum())) for level in levels]
    return lay_out(nodes, levels, gains, binning, values)


def nodes_of_leaves(
    n_trees: int, levels: tuple[Level, ...], leaf_moments: Counters
) -> list[LevelNodes]:
    """Return all nodes, level by level; an inner node holds the sum of its children."""
    tree, is_open = np.arange(n_trees, dtype=np.int32), np.ones(n_trees, np.bool_)
    shapes, levels = [], by_node(levels)
    for level in levels:
        shapes.append((tree, is_open))
        split = is_open.nonzero()[0][level.feature >= 0]
        tree, is_open = np.repeat(tree[split], 2), level.child_open
    end = len(leaf_moments) - tree.size
    nodes = [LevelNodes(tree, leaf_moments[end:].astype(np.int64), is_open)]
    for (tree, is_open), level in zip(reversed(shapes), reversed(levels), strict=True):
        moments = np.zeros((tree.size, leaf_moments.shape[1]), np.int64)
        split = is_open.nonzero()[0][level.feature >= 0]
        below = nodes[0].moments
        moments[split] = below[0::2] + below[1::2]
        leaf = is_leaf(LevelNodes(tree, moments, is_open), level)
        moments[leaf] = leaf_moments[end - int(leaf.sum()) : end]
        end -= int(leaf.sum())
        nodes.insert(0, LevelNodes(tree, moments, is_open))
    return nodes


def is_leaf(nodes: LevelNodes, level: Level) -> Bools:
    """Return which nodes of a level, given by node, were not split."""
    leaf = np.ones(nodes.tree.size, np.bool_)
    leaf[nodes.is_open.nonzero()[0][level.feature >= 0]] = False
    return leaf


def lay_out(
    nodes: list[LevelNodes],
    levels: tuple[Level, ...],
    gains: list[Floats],
    binning: Binning,
    values: NodeValues,
) -> Forest:
    """Lay the nodes out tree by tree, in breadth-first order; a node that stayed stands once."""
    levels = by_node(levels)
    tree_start, places = _places(nodes, levels)
    flat = _Flat.of(int(tree_start[-1]), nodes[0].moments.shape[1])
    n_sets = 0
    for depth, level in enumerate(levels):
        here, missing = nodes[depth], level.missing_left
        threshold = level.threshold
        if not threshold.size:
            threshold = binning.thresholds(level.feature, level.cut)
        kernels.lay_out_level(
            here.moments, here.is_open, places[depth], places[depth + 1], level.feature,
            level.stays, threshold, missing, level.subset, gains[depth], n_sets, *flat,
        )  # fmt: skip
        n_sets += len(level.bin_sets)
    last = nodes[-1]
    kernels.lay_out_leaves(last.moments, places[-1], flat.left, flat.moments)
    return Forest(
        tree_start,
        flat.feature,
        flat.threshold,
        flat.left,
        flat.missing_left,
        flat.subset,
        np.concatenate([empty_bin_sets(0), *(level.bin_sets for level in levels)]),
        flat.moments,
        flat.gain,
        values.of(flat.moments),
    )


def _places(nodes: list[LevelNodes], levels: tuple[Level, ...]) -> tuple[Integers, list[Integers]]:
    """Return where each tree begins, and the place of every node of each level; -1: no node."""
    n_trees = nodes[0].tree.size
    news = [np.ones(here.tree.size, np.bool_) for here in nodes]
    for new, level in zip(news[1:], levels, strict=True):
        if level.stays.any():
            new[np.repeat(level.stays[level.feature >= 0], 2)] = False
    trees = [here.tree[new] for here, new in zip(nodes, news, strict=True)]
    held = np.array([np.bincount(tree, minlength=n_trees) for tree in trees])
    tree_start = np.concatenate([[0], np.cumsum(held.sum(axis=0))])
    before = np.cumsum(held, axis=0) - held  # of a tree, at smaller depths
    first = np.cumsum(held, axis=1) - held  # of a tree, among the nodes of a depth
    shift = tree_start[:-1] + before - first  # from a node's index among the new to its place
    places: list[Integers] = []
    for depth, (tree, new) in enumerate(zip(trees, news, strict=True)):
        place = np.full(new.size, -1, np.int64)
        place[new] = np.arange(tree.size) + shift[depth, tree]
        if tree.size < new.size:  # a left child that is its parent has its parent's place
            level = levels[depth - 1]
            split = nodes[depth - 1].is_open.nonzero()[0][level.feature >= 0]
            stayed = level.stays[level.feature >= 0].nonzero()[0]
            place[2 * stayed] = places[-1][split[stayed]]
        places.append(place)
    return tree_start, places


def join_forests(parts: Sequence[Trees]) -> Trees:
    """Return the trees of several forests, or of one party's parts, one after another."""
    nodes = np.cumsum([0, *(part.n_nodes for part in parts)])
    sets = np.cumsum([0, *(len(part.bin_sets) for part in parts)])
    starts = [part.tree_start[1:] + first for part, first in zip(parts, nodes[:-1], strict=True)]
    left = [part.left + first for part, first in zip(parts, nodes[:-1], strict=True)]
    subset = [
        np.where(part.subset >= 0, part.subset + first, -1)
        for part, first in zip(parts, sets[:-1], strict=True)
    ]
    joined = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("feature", "threshold", "missing_left", "bin_sets", "moments", "gain", "value")
    }
    kind: Any = type(parts[0])
    found: Trees = kind(
        tree_start=np.concatenate([np.zeros(1, np.int64), *starts]),
        left=np.concatenate(left).astype(np.uint32),
        subset=np.concatenate(subset).astype(np.int32),
        **joined,
    )
    return found


class _Flat(NamedTuple):
    """The nodes of a forest under construction; every node is a leaf until it is split."""

    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]
    left: NDArray[np.uint32]
    missing_left: Bools
    subset: NDArray[np.int32]
    gain: Floats
    moments: Integers

    @classmethod
    def of(cls, n: int, width: int) -> "_Flat":
        return cls(
            np.full(n, -1, np.int32),
            np.zeros(n, np.float32),
            np.empty(n, np.uint32),
            np.zeros(n, np.bool_),
            np.full(n, -1, np.int32),
            np.zeros(n),
            np.empty((n, width), np.int64),
        )
