"""Level after level, decisions become a forest.

`Growth` is the coordinator's notebook: the levels decided so far and what each node holds. It
applies the stopping rules and, at the end, lays the nodes out tree by tree.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spinney.trees.binning import Binning
from spinney.trees.counts import Counters, Counts
from spinney.trees.dtypes import TARGET_BITS
from spinney.trees.forest import Forest
from spinney.trees.frontier import Frontier, bit_lengths, line_sums
from spinney.trees.level import Level, empty_bin_sets
from spinney.trees.split import BestSplits
from spinney.typing import Bools, Floats, Integers

_WORTH_DERIVING = 0.1  # share of the open nodes
_MOST_BITS = np.uint8(40)
_LEAF_RUN = 64  # leaves that share a packing parameter
_NO_THRESHOLDS = np.zeros(0, np.float32)
_ROUNDING = 1e-12  # a gain this far below the least one asked for is rounding, not loss


@dataclass(frozen=True)
class StoppingRules:
    """When a node stays a leaf."""

    max_depth: int | None
    min_samples_split: int
    min_samples_leaf: int
    min_impurity_decrease: float
    is_regression: bool

    def accepts(self, best: BestSplits, root_weight: Floats) -> Bools:
        """Tell which nodes' best cuts are worth making."""
        enough = best.gain / root_weight + _ROUNDING >= self.min_impurity_decrease
        accepted: Bools = (best.slot >= 0) & enough
        return accepted & (best.gain > 0.0) if self.is_regression else accepted

    def opens(self, moments: Integers, depth: int, class_weight: Floats) -> Bools:
        """Tell which new nodes are to be asked about; a class without weight parts nothing."""
        least = max(self.min_samples_split, 2 * self.min_samples_leaf, 2)
        opened: Bools = (self.rows(moments) >= least) & self.is_mixed(moments, class_weight)
        if self.max_depth is not None and depth >= self.max_depth:
            opened = np.zeros_like(opened)
        return opened

    def rows(self, moments: Integers) -> Integers:
        """Return how many rows nodes hold."""
        rows: Integers = moments[:, 0] if self.is_regression else line_sums(moments)
        return rows

    def weight(self, moments: Integers, class_weight: Floats) -> Floats:
        """Return what the rows of nodes weigh."""
        if self.is_regression:
            return moments[:, 0].astype(np.float64)
        weight: Floats = moments @ class_weight
        return weight

    def is_mixed(self, moments: Integers, class_weight: Floats) -> Bools:
        """Tell which nodes hold rows of more than one class."""
        if self.is_regression:
            return np.ones(len(moments), np.bool_)
        mixed: Bools = line_sums((moments > 0) & (class_weight > 0)) > 1
        return mixed


@dataclass(frozen=True)
class _LevelNodes:
    """All nodes made at one depth, open or not."""

    tree: NDArray[np.int32]
    moments: Integers
    is_open: Bools


class Growth:
    """The forest so far."""

    def __init__(
        self,
        frontier: Frontier,
        rules: StoppingRules,
        class_weight: Floats,
        *,
        target_step: float = 1.0,
    ) -> None:
        self.frontier = frontier
        self.levels: tuple[Level, ...] = ()
        self.rules = rules
        self._class_weight = class_weight
        # Variances are found in fixed-point steps; what people set and read is in target units.
        # (A range of 1e300 has no finite square, one of 1e-300 none above zero.)
        unit = min(max(target_step * target_step, 1e-200), 1e200)
        self._gain_unit = unit if rules.is_regression else 1.0
        self._nodes: list[_LevelNodes] = []
        self._gains: list[Floats] = []
        self._next = _LevelNodes(
            frontier.tree, np.zeros((0, 0), np.int64), np.ones(frontier.n_open, np.bool_)
        )
        self._root_weight = np.zeros(frontier.n_open)  # of each tree, once its root is counted

    @property
    def depth(self) -> int:
        """The depth of the open nodes."""
        return len(self.levels)

    @property
    def root_weight(self) -> Floats:
        """The weight of each open node's tree; 0 for roots, which are not counted yet."""
        weight: Floats = self._root_weight[self.frontier.tree]
        return weight

    @property
    def open_moments(self) -> Integers:
        """What each open node holds, as its parent's split says; nothing is known of roots."""
        return self._next.moments[self._next.is_open] if self.levels else self._next.moments

    def ask_about_all(self) -> None:
        """Take back that some open nodes follow from their parents and siblings."""
        *before, last = self.levels
        level = last.replaced(child_derived=np.zeros_like(last.child_derived))
        self.levels = (*before, level)
        self.frontier = replace(self.frontier, derived=level.child_derived)

    def _derived(
        self,
        split: Integers,
        moments: Integers,
        child_open: Bools,
        child_bits: NDArray[np.uint8],
        within: int,
    ) -> Bools:
        """Tell which open children follow from parent and sibling.

        That takes all features in every node, and cells that lie alike in all three nodes.
        """
        frontier = self.frontier
        most = int(frontier.columns.cells(frontier.draws.max_cells).sum())
        if not frontier.draws.shared_phase or not 0 < child_bits.size * most <= within:
            return np.zeros(child_bits.size, np.bool_)
        cells = np.zeros(child_open.size, np.uint8)
        cells[child_open] = frontier.draws.cells(child_bits)
        pair = cells.reshape(-1, 2)
        alike = (pair == frontier.draws.cells(frontier.bits[split])[:, None]).all(axis=1)
        rows = self.rules.rows(moments).reshape(-1, 2)
        heavier = np.zeros((split.size, 2), np.bool_)
        heavier[np.arange(split.size), (rows[:, 1] >= rows[:, 0]).astype(np.intp)] = alike
        chosen: Bools = heavier.reshape(-1)[child_open]
        # Among many small nodes a few derived ones save less than it costs to put them in place.
        return chosen if chosen.mean() > _WORTH_DERIVING else np.zeros_like(chosen)

    def grow(
        self,
        best: BestSplits,
        *,
        derive_within: int = 0,
        threshold: NDArray[np.float32] = _NO_THRESHOLDS,
        features: NDArray[np.int32] | None = None,
    ) -> None:
        """Decide the open nodes and open their children; real thresholds, if given, hold.

        `features` (n_open, n_slots) are what slots stand for, where not as the frontier says.

        Of two open children the heavier is derived from parent and sibling, if the next level
        has at most `derive_within` cells; 0 where the parents' histograms are not kept.
        """
        if not self.levels:
            self._next = _LevelNodes(self._next.tree, best.total, self._next.is_open)
            self._root_weight = np.maximum(
                self.rules.weight(best.total, self._class_weight), 1e-300
            )
        best = replace(best, gain=best.gain * self._gain_unit)
        accepted = self.rules.accepts(best, self.root_weight)
        if not self.levels:  # a root is asked about before anything is known of it
            accepted &= self.rules.opens(best.total, 0, self._class_weight)
        split = np.flatnonzero(accepted)
        features = self.frontier.slots.feature if features is None else features
        feature = np.full(self.frontier.n_open, -1, np.int32)
        feature[split] = features[split, best.slot[split]]
        is_category = accepted & self.frontier.columns.is_category[feature]
        subset = np.full(feature.size, -1, np.int32)
        subset[is_category] = np.arange(int(is_category.sum()))
        moments = np.empty((2 * split.size, best.total.shape[1]), np.int64)
        moments[0::2] = best.left[split]
        moments[1::2] = best.total[split] - best.left[split]
        child_open = self.rules.opens(moments, self.depth + 1, self._class_weight)
        # Noise may make a count of any size; nothing is told apart above this one.
        child_bits = np.minimum(bit_lengths(self.rules.rows(moments[child_open])), _MOST_BITS)
        level = Level(
            feature=feature,
            cut=np.where(accepted, best.cut, 0).astype(np.uint8),
            missing_left=accepted & best.missing_left,
            subset=subset,
            bin_sets=best.bin_set[is_category],
            child_open=child_open,
            child_bits=child_bits,
            child_derived=self._derived(split, moments, child_open, child_bits, derive_within),
            threshold=threshold,
        )
        self._nodes.append(self._next)
        self._gains.append(best.gain[split])
        tree = np.repeat(self.frontier.tree[split], 2)
        self._next = _LevelNodes(tree, moments, child_open)
        self.levels = (*self.levels, level)
        self.frontier = self.frontier.after(level)

    @property
    def leaf_moments(self) -> Counts:
        """What every leaf holds, level after level."""
        parts = [
            nodes.moments[_is_leaf(nodes, level)]
            for nodes, level in zip(self._nodes, self.levels, strict=True)
        ]
        joined = np.concatenate([*parts, self._next.moments])
        counters = joined if self.rules.is_regression else joined.astype(np.int32)
        ends = np.arange(0, len(joined), _LEAF_RUN, dtype=np.int64) + _LEAF_RUN
        return Counts(counters, np.minimum(ends, len(joined)))

    def forest(
        self, binning: Binning, values: "LeafValues", leaf_moments: Counters | None = None
    ) -> Forest:
        """Return the forest as grown; with what its leaves hold, if they were counted again."""
        nodes = [*self._nodes, self._next]
        if leaf_moments is not None:
            nodes = _nodes_of_leaves(nodes[0].tree.size, self.levels, leaf_moments)
        return _laid_out(nodes, self.levels, self._gains, binning, values)


def forest_of_leaves(
    n_trees: int,
    levels: tuple[Level, ...],
    leaf_moments: Counters,
    binning: Binning,
    values: "LeafValues",
) -> Forest:
    """Return the forest that the levels describe, given what its leaves hold; gains are zero."""
    nodes = _nodes_of_leaves(n_trees, levels, leaf_moments)
    gains = [np.zeros(int((level.feature >= 0).sum())) for level in levels]
    return _laid_out(nodes, levels, gains, binning, values)


def _nodes_of_leaves(
    n_trees: int, levels: tuple[Level, ...], leaf_moments: Counters
) -> list[_LevelNodes]:
    """Return all nodes, level after level; an inner one holds what its children hold."""
    tree, is_open = np.arange(n_trees, dtype=np.int32), np.ones(n_trees, np.bool_)
    shapes = []
    for level in levels:
        shapes.append((tree, is_open))
        split = np.flatnonzero(is_open)[level.feature >= 0]
        tree, is_open = np.repeat(tree[split], 2), level.child_open
    end = len(leaf_moments) - tree.size
    nodes = [_LevelNodes(tree, leaf_moments[end:].astype(np.int64), is_open)]
    for (tree, is_open), level in zip(reversed(shapes), reversed(levels), strict=True):
        moments = np.zeros((tree.size, leaf_moments.shape[1]), np.int64)
        split = np.flatnonzero(is_open)[level.feature >= 0]
        below = nodes[0].moments
        moments[split] = below[0::2] + below[1::2]
        leaf = _is_leaf(_LevelNodes(tree, moments, is_open), level)
        moments[leaf] = leaf_moments[end - int(leaf.sum()) : end]
        end -= int(leaf.sum())
        nodes.insert(0, _LevelNodes(tree, moments, is_open))
    return nodes


def _is_leaf(nodes: _LevelNodes, level: Level) -> Bools:
    """Tell which nodes of a level were not split."""
    leaf = np.ones(nodes.tree.size, np.bool_)
    leaf[np.flatnonzero(nodes.is_open)[level.feature >= 0]] = False
    return leaf


def _laid_out(
    nodes: list[_LevelNodes],
    levels: tuple[Level, ...],
    gains: list[Floats],
    binning: Binning,
    values: "LeafValues",
) -> Forest:
    """Lay the nodes out tree by tree, in breadth-first order."""
    sizes = np.array([level.tree.size for level in nodes])
    starts = np.r_[0, np.cumsum(sizes)]
    tree = np.concatenate([level.tree for level in nodes])
    moments = np.concatenate([level.moments for level in nodes])
    n = tree.size
    flat = _Flat.empty(n)
    for depth, level in enumerate(levels):
        here = starts[depth] + np.flatnonzero(nodes[depth].is_open)
        split = np.flatnonzero(level.feature >= 0)
        at = here[split]
        flat.feature[at] = level.feature[split]
        flat.left[at] = starts[depth + 1] + 2 * np.arange(split.size)
        flat.missing_left[at] = level.missing_left[split]
        flat.gain[at] = gains[depth]
        flat.threshold[at] = _thresholds(level, split, binning)
        with_set = level.subset[split] >= 0
        flat.subset[at[with_set]] = flat.n_sets + np.arange(int(with_set.sum()))
        flat.bin_sets.append(level.bin_sets)
    order = np.argsort(tree, kind="stable")
    new_of_old = np.empty(n, np.int64)
    new_of_old[order] = np.arange(n)
    left = np.where(flat.feature >= 0, new_of_old[flat.left], new_of_old)
    tree_start = np.searchsorted(tree[order], np.arange(int(sizes[0]) + 1))
    return Forest(
        tree_start.astype(np.int64),
        flat.feature[order],
        flat.threshold[order],
        left[order].astype(np.uint32),
        flat.missing_left[order],
        flat.subset[order],
        np.concatenate([empty_bin_sets(0), *flat.bin_sets]),
        moments[order],
        flat.gain[order],
        values.of(moments[order]),
    )


@dataclass(frozen=True)
class LeafValues:
    """What a node's moments mean: class probabilities, or a mean in the target's own units.

    Moments with noise may be negative, and a mean may lie outside the range; both are cut off.
    """

    class_weight: Floats  # empty for regression
    low: float = 0.0
    step: float = 1.0  # the target's units in one fixed-point unit
    bits: int = TARGET_BITS  # of a fixed-point target

    def of(self, moments: Integers) -> Floats:
        """Return (n_nodes, n_outputs)."""
        if self.class_weight.size:
            weighted = np.maximum(moments, 0) * self.class_weight
            total = weighted.sum(axis=1, keepdims=True)
            even = np.full_like(weighted, 1.0 / weighted.shape[1])
            shares: Floats = np.divide(weighted, total, out=even, where=total > 0)
            return shares
        weight = np.maximum(moments[:, :1], 1)
        most = 2.0**self.bits - 1
        means: Floats = self.low + self.step * (moments[:, 1:] / weight).clip(0.0, most)
        return means


@dataclass
class _Flat:
    """Node arrays under construction, level after level."""

    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]
    left: Integers
    missing_left: Bools
    subset: NDArray[np.int32]
    gain: Floats
    bin_sets: list[NDArray[np.uint64]]

    @classmethod
    def empty(cls, n: int) -> "_Flat":
        return cls(
            np.full(n, -1, np.int32),
            np.zeros(n, np.float32),
            np.zeros(n, np.int64),
            np.zeros(n, np.bool_),
            np.full(n, -1, np.int32),
            np.zeros(n),
            [],
        )

    @property
    def n_sets(self) -> int:
        return sum(len(sets) for sets in self.bin_sets)


def _thresholds(level: Level, split: Integers, binning: Binning) -> NDArray[np.float32]:
    """Return the edge each cut stands for; infinity where only missing values go right."""
    if level.threshold.size:
        return level.threshold[split]
    feature, cut = level.feature[split], level.cut[split]
    width = max((len(edges) for edges in binning.edges), default=0) + 1
    padded = np.full((len(binning.edges), max(width, 256)), np.inf, np.float32)
    for column, edges in enumerate(binning.edges):
        padded[column, : len(edges)] = edges
    found: NDArray[np.float32] = padded[feature, cut]
    found[level.subset[split] >= 0] = 0.0
    return found
