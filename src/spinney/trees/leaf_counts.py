"""Number the leaves of trees, and make trees from the noisy counts of their leaves.

Only leaves are counted; an inner node holds the sum of its leaves, which costs no additional
privacy. A leaf's prediction is shrunk towards its parent; the smaller its rows are against the
noise, the stronger the shrinkage (after Agarwal et al. 2022, *Hierarchical Shrinkage*).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from spinney.errors import ProtocolError
from spinney.trees._kernels import estimates
from spinney.trees.binning import Binning
from spinney.trees.forest import Forest, RowValues
from spinney.trees.layout import LeafValues, forest_of_leaves
from spinney.trees.level import Level
from spinney.trees.threads import equal_ranges, run_ranges, thread_count
from spinney.typing import Floats, Integers

_FIT_WORK = 256  # rows that cost as much as fitting the counts of one line
_RIDGE = 1e-6  # classes that set the same bits share what they set
_NEARLY_NOTHING = 1e-9  # rows: an empty node predicts what its parent predicts


@dataclass(frozen=True)
class NumberedLeaves:
    """The leaves of the trees grown so far, numbered level by level."""

    n_trees: int
    levels: tuple[Level, ...]
    binning: Binning

    @cached_property
    def n_leaves(self) -> int:
        """How many there are."""
        return self.n_trees + sum(int((level.feature >= 0).sum()) for level in self.levels)

    @cached_property
    def shape(self) -> Forest:
        """The trees, with each leaf's number as its moments."""
        numbers = np.arange(self.n_leaves, dtype=np.int64)[:, None]
        nothing = LeafValues(np.ones(1))
        return forest_of_leaves(self.n_trees, self.levels, numbers, self.binning, nothing)

    @cached_property
    def leaf_node(self) -> Integers:
        """The node of every leaf, by the leaf's number."""
        leaf = np.flatnonzero(self.shape.feature < 0)
        node = np.empty(leaf.size, np.int64)
        node[self.shape.moments[leaf, 0]] = leaf
        return node

    @cached_property
    def depth(self) -> Integers:
        """The depth of every leaf, by its number."""
        n_nodes, found = self.n_trees, []
        for level in self.levels:
            n_split = int((level.feature >= 0).sum())
            found.append(n_nodes - n_split)
            n_nodes = 2 * n_split
        return np.repeat(np.arange(len(self.levels) + 1), [*found, n_nodes])

    @cached_property
    def open_node(self) -> Integers:
        """The open node of each leaf, by the leaf's number; -1: it stays a leaf."""
        if not self.levels:
            return np.arange(self.n_trees)
        is_open = self.levels[-1].child_open
        numbers = np.full(self.n_leaves, -1, np.int64)
        newest = np.where(is_open, np.cumsum(is_open) - 1, -1)
        numbers[self.n_leaves - is_open.size :] = newest
        return numbers

    def of_rows(self, rows: RowValues, tree: int) -> Integers:
        """Return the number of each row's leaf."""
        numbers: Integers = self.shape.moments[self.shape.leaves(rows, tree), 0]
        return numbers

    def counts(self, batches: Iterable[tuple[RowValues, Integers]], n_classes: int) -> Integers:
        """Count rows, given with their classes, by leaf and class: (n_leaves, n_classes)."""
        out = np.zeros(self.n_leaves * n_classes, np.int64)
        for rows, classes in batches:
            for tree in range(self.n_trees):
                place = self.of_rows(rows, tree) * n_classes + classes
                out += np.bincount(place, minlength=out.size)
        return out.reshape(-1, n_classes)


@dataclass(frozen=True)
class NodeNoise:
    """The standard deviations of the noise in a tree's counts and gains."""

    counts: Floats  # (n_nodes,) of each class count of a node
    gain: Floats  # (n_nodes,) of the gain of a split; 0 for leaves, and where it is not known


def finish_trees(
    leaves: NumberedLeaves, counts: Integers, variance: Floats, shrinkage: float
) -> tuple[Forest, NodeNoise]:
    """Return the forest built from the noisy counts of its leaves.

    Parameters
    ----------
    leaves
        The trees.
    counts
        (n_leaves, n_classes) with noise, so they may be negative.
    variance
        (n_leaves,) of the noise in each count.
    shrinkage
        The weight of the parent's shares in a node, in standard deviations of the noise.
    """
    if counts.shape[0] != leaves.n_leaves:
        raise ProtocolError("The counts of leaves do not fit the trees.")
    forest = forest_of_leaves(
        leaves.n_trees, leaves.levels, counts, leaves.binning, LeafValues(np.ones(counts.shape[1]))
    )
    nodes = _Family.of(forest)
    spread = np.zeros(forest.n_nodes)
    spread[leaves.leaf_node] = variance
    spread = nodes.summed_up(spread)
    gain, error = _gains(forest, spread)
    shares = nodes.shrunk(np.maximum(forest.moments, 0), shrinkage * np.sqrt(spread))
    return replace(forest, gain=gain, value=shares), NodeNoise(np.sqrt(spread), error)


def noise_of_sums(forest: Forest, variance: Floats) -> NodeNoise:
    """Return the noise of nodes that hold the sums of their leaves.

    `variance` (n_nodes,) is that of a leaf's counts. Gains rest on other counts than these, so
    their error is not known from them.
    """
    of_leaf = np.where(forest.feature < 0, variance, 0.0)
    return NodeNoise(np.sqrt(_Family.of(forest).summed_up(of_leaf)), np.zeros(forest.n_nodes))


def sharpen(forest: Forest, sharpness: float) -> Floats:
    """Return the nodes' class shares, further from those of all rows.

    The ratio of a node's share to that of its root is raised to a power. A mean over random trees
    is too cautious, because each of them knows only some of the columns that matter.
    """
    root = np.repeat(forest.tree_start[:-1], np.diff(forest.tree_start))
    prior = np.maximum(forest.value[root], _NEARLY_NOTHING)
    shares = prior * (np.maximum(forest.value, _NEARLY_NOTHING) / prior) ** sharpness
    sharp: Floats = shares / shares.sum(axis=1, keepdims=True)
    return sharp


def prune(forest: Forest, noise: NodeNoise, min_samples: int) -> tuple[Forest, NodeNoise]:
    """Turn nodes into leaves if their noisy counts add up to fewer rows than a leaf must hold."""
    nodes = _Family.of(forest)
    small = forest.moments.sum(axis=1) < min_samples
    kept = np.ones(forest.n_nodes, np.bool_)
    for below in nodes.by_depth[1:]:
        above = nodes.parent[below]
        kept[below] = kept[above] & ~small[above]
    is_leaf = (forest.feature < 0) | small
    place = np.cumsum(kept) - 1
    left = np.where(is_leaf, place, place[forest.left]).astype(np.uint32)
    subset = np.where(is_leaf, -1, forest.subset)
    used = kept & (subset >= 0)
    subset[used] = np.arange(int(used.sum()))
    starts = np.append(place[forest.tree_start[:-1]], kept.sum())
    return Forest(
        starts.astype(np.int64),
        np.where(is_leaf, np.int32(-1), forest.feature)[kept],
        np.where(is_leaf, np.float32(0), forest.threshold)[kept],
        left[kept],
        (forest.missing_left & ~is_leaf)[kept],
        subset[kept].astype(np.int32),
        forest.bin_sets[forest.subset[used]],
        forest.moments[kept],
        np.where(is_leaf, 0.0, forest.gain)[kept],
        forest.value[kept],
    ), NodeNoise(noise.counts[kept], np.where(is_leaf, 0.0, noise.gain)[kept])


@dataclass(frozen=True)
class _Family:
    """Every node's parent, and the nodes of each depth."""

    parent: Integers  # -1 for roots
    by_depth: list[Integers]

    @classmethod
    def of(cls, forest: Forest) -> "_Family":
        parent = np.full(forest.n_nodes, -1, np.int64)
        by_depth = [forest.tree_start[:-1]]
        while True:
            split = by_depth[-1][forest.feature[by_depth[-1]] >= 0]
            if not split.size:
                return cls(parent, by_depth)
            left = forest.left[split].astype(np.int64)
            parent[left] = parent[left + 1] = split
            by_depth.append(np.concatenate([left, left + 1]))

    def summed_up(self, of_leaf: Floats) -> Floats:
        """Return the sum over the leaves below each node."""
        total = of_leaf.copy()
        for nodes in reversed(self.by_depth[1:]):
            np.add.at(total, self.parent[nodes], total[nodes])
        return total

    def shrunk(self, counts: Integers, weight: Floats) -> Floats:
        """Return each node's shares; its parent's shares count as `weight` rows.

        All roots hold the same rows, so all of them get the shares of their summed counts.
        """
        together = counts[self.by_depth[0]].sum(axis=0) + _NEARLY_NOTHING
        shares = np.empty(counts.shape)
        shares[self.by_depth[0]] = together / together.sum()
        for nodes in self.by_depth[1:]:
            above = shares[self.parent[nodes]]
            weighed = np.maximum(weight[nodes, None], _NEARLY_NOTHING)
            total = counts[nodes].sum(axis=1, keepdims=True) + weighed
            shares[nodes] = (counts[nodes] + weighed * above) / total
        return shares


def _gains(forest: Forest, spread: Floats) -> tuple[Floats, Floats]:
    """Return each split's decrease of weighted Gini impurity, and its linearised standard error."""
    gain, error = np.zeros(forest.n_nodes), np.zeros(forest.n_nodes)
    split = np.flatnonzero(forest.feature >= 0)
    left = forest.left[split].astype(np.int64)
    sides = [np.maximum(forest.moments[node], 0).astype(np.float64) for node in (left, left + 1)]
    whole = sides[0] + sides[1]
    gain[split] = _weighted_gini(whole) - _weighted_gini(sides[0]) - _weighted_gini(sides[1])
    variance = np.zeros(split.size)
    for side, node in zip(sides, (left, left + 1), strict=True):
        slope = _gini_slope(whole) - _gini_slope(side)
        variance += (slope**2).sum(axis=1) * spread[node]
    error[split] = np.sqrt(variance)
    return gain, error


def _weighted_gini(counts: Floats) -> Floats:
    total = counts.sum(axis=1)
    squares = np.divide((counts**2).sum(axis=1), total, out=np.zeros_like(total), where=total > 0)
    weighted: Floats = total - squares
    return weighted


def _gini_slope(counts: Floats) -> Floats:
    """Return the derivative of rows times Gini impurity with respect to each class count."""
    total = np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    shares = counts / total
    slope: Floats = 1.0 - 2.0 * shares + (shares**2).sum(axis=1, keepdims=True)
    return slope


def share_intervals(
    counts: Integers, deviation: Floats, chance: float = 0.95
) -> tuple[Floats, Floats]:
    """Return bounds on the shares of the exact counts, given noisy counts.

    Every count is moved by the amount that noise of its deviation exceeds with a total probability
    of 1 - `chance`. The noise is taken as Laplace, whose tails are heavier than those of its sums.
    """
    n_classes = counts.shape[1]
    reach = deviation[:, None] * np.log(n_classes / (1.0 - chance)) / np.sqrt(2.0)
    fewest, most = np.maximum(counts - reach, 0.0), np.maximum(counts + reach, 0.0)
    others_most = most.sum(axis=1, keepdims=True) - most
    others_fewest = fewest.sum(axis=1, keepdims=True) - fewest
    nothing = np.zeros_like(most)
    low: Floats = np.divide(fewest, fewest + others_most, out=nothing, where=fewest > 0)
    everything = np.ones_like(most)
    high: Floats = np.divide(most, most + others_fewest, out=everything, where=others_fewest > 0)
    return low, np.where(most > 0, high, 1.0)


def shrink(forest: Forest, values: Floats, rows: Floats, strength: float) -> Floats:
    """Return the nodes' values, each shrunk towards its ancestors' values.

    Hierarchical shrinkage (Agarwal, Tan, Ronen, Singh and Yu 2022): a node keeps n / (n + strength)
    of its difference from its parent, where n is the parent's row count. It reads no rows, so it
    costs no budget.

    Parameters
    ----------
    forest
        The trees that give each node's parent.
    values
        (n_nodes, n_outputs) of every node, including inner nodes.
    rows
        (n_nodes,) the number of rows behind each value.
    strength
        The number of parent rows at which half the difference is kept; 0 changes nothing.
    """
    out = values.copy()
    level = forest.tree_start[:-1]
    while level.size:
        level = level[forest.feature[level] >= 0]
        share = (rows[level] / (rows[level] + strength))[:, None]
        for side in (0, 1):
            child = forest.left[level].astype(np.int64) + side
            out[child] = out[level] + share * (values[child] - values[level])
        level = np.concatenate([forest.left[level], forest.left[level] + 1]).astype(np.int64)
    return out


def nonnegative_fit(design: Floats, bits: Floats, n_sweeps: int) -> Floats:
    """Return the nonnegative class counts whose expected bits are nearest to `bits`.

    Parameters
    ----------
    design
        (n_classes, n_bits) which bits each class sets.
    bits
        (n_lines, n_bits) sums of reported bits.
    n_sweeps
        The largest number of coordinate descent sweeps per line.
    """
    gram = design @ design.T  # whole numbers: exact in any order
    inverse = estimates.invert(gram + _RIDGE * np.eye(len(gram)))
    out = np.zeros((len(bits), len(design)))

    def task(first: int, last: int) -> None:
        part = slice(first, last)
        estimates.nonnegative(design, gram, inverse, bits[part], n_sweeps, out[part])

    n_threads = thread_count(None)
    run_ranges(task, equal_ranges(np.full(len(out), _FIT_WORK), n_threads), n_threads)
    return out
