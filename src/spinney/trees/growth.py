"""Grow a forest level by level from decisions.

`Growth` is the coordinator's record: the levels decided so far and the counts of each node. It
applies the stopping rules.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spinney.trees._kernels import columns
from spinney.trees._kernels.split import ALIKE, APART
from spinney.trees.binning import Binning
from spinney.trees.counts import Counters, Counts
from spinney.trees.forest import Forest
from spinney.trees.frontier import Frontier, bit_lengths, line_sums, weighted_sums
from spinney.trees.layout import LevelNodes, NodeValues, is_leaf, lay_out, nodes_of_leaves
from spinney.trees.level import Level, by_node
from spinney.trees.split import BestSplits
from spinney.typing import Bools, Floats, Integers

_WORTH_DERIVING = 0.1  # smallest share of the open nodes
_MOST_BITS = np.uint8(40)
_NO_ROWS = np.iinfo(np.int64).min  # of a node that is not open
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
        """Return which nodes' best cuts are accepted."""
        enough = best.gain / root_weight + _ROUNDING >= self.min_impurity_decrease
        accepted: Bools = (best.slot >= 0) & enough
        return accepted

    def opens(self, moments: Integers, depth: int | Integers, class_weight: Floats) -> Bools:
        """Return which new nodes stay open; a class with zero weight does not make a node mixed."""
        may: Bools = np.ones(len(moments), np.bool_)
        if self.max_depth is not None:
            may &= np.asarray(depth) < self.max_depth
        if not may.any():
            return may
        least = max(self.min_samples_split, 2 * self.min_samples_leaf, 2)
        opened: Bools = (self.rows(moments) >= least) & self.is_mixed(moments, class_weight)
        return opened & may

    def allows(self, child_open: Bools, rows: Integers, depth: int) -> bool:
        """Return whether nodes at a depth may be opened, given the rows of all of them.

        Of the rows of two siblings that stay closed nothing is asked.
        """
        ends = self.max_depth is not None and depth >= self.max_depth
        least = max(self.min_samples_split, 2 * self.min_samples_leaf, 2)
        return not columns.breaks_rules(child_open, rows, self.min_samples_leaf, least, ends)

    def rows(self, moments: Integers) -> Integers:
        """Return the number of rows in each node."""
        rows: Integers = moments[:, 0] if self.is_regression else line_sums(moments)
        return rows

    def weight(self, moments: Integers, class_weight: Floats) -> Floats:
        """Return the total weight of the rows in each node."""
        if self.is_regression:
            return moments[:, 0].astype(np.float64)
        return weighted_sums(moments, class_weight)

    def is_mixed(self, moments: Integers, class_weight: Floats) -> Bools:
        """Return which nodes hold rows of more than one class."""
        if self.is_regression:
            return np.ones(len(moments), np.bool_)
        mixed: Bools = line_sums((moments > 0) & (class_weight > 0)) > 1
        return mixed


def _by_first_line(
    best: BestSplits, features: NDArray[np.int32], frontier: Frontier
) -> tuple[BestSplits, NDArray[np.int32]]:
    """Return each node's cut at its first line: the cut of the first line that can decide."""
    if not frontier.has_lines:
        return best, features
    first = np.flatnonzero(frontier.line == 0)
    place = np.arange(frontier.n_open)
    decides = np.where(best.slot != ALIKE, place, frontier.n_open)
    chosen = np.minimum.reduceat(decides, first)
    source = place.copy()
    source[first] = np.where(chosen < frontier.n_open, chosen, first)
    taken = {name: value[source] for name, value in vars(best).items() if name != "total"}
    taken["slot"] = np.where(frontier.line == 0, taken["slot"], APART)
    return BestSplits(total=best.total, **taken), features[source]


class Growth:
    """The forest so far."""

    def __init__(
        self,
        frontier: Frontier,
        rules: StoppingRules,
        class_weight: Floats,
        *,
        target_step: float = 1.0,
        most_open: int | None = None,
    ) -> None:
        self.frontier = frontier
        self.n_closed = 0  # nodes that stayed leaves because too many were open
        self._most_open = most_open
        self.levels: tuple[Level, ...] = ()
        self.rules = rules
        self._class_weight = class_weight
        # Variances are computed in fixed-point steps; users set and read them in target units.
        # (The square of a range of 1e300 is not finite; that of 1e-300 is zero.)
        unit = min(max(target_step * target_step, 1e-200), 1e200)
        self._gain_unit = unit if rules.is_regression else 1.0
        self._nodes: list[LevelNodes] = []
        self._gains: list[Floats] = []
        self._next = LevelNodes(
            frontier.tree, np.zeros((0, 0), np.int64), np.ones(frontier.n_open, np.bool_)
        )
        self._open_moments: Integers | None = None  # read several times a level
        self._root_weight = np.zeros(frontier.n_open)  # of each tree, once its root is counted

    @property
    def depth(self) -> int:
        """The depth of the open nodes; of nodes that drew on, or are below such, it is less."""
        return len(self.levels)

    @property
    def root_weight(self) -> Floats:
        """The root weight of each open node's tree; 0 for roots, which are not counted yet."""
        weight: Floats = self._root_weight[self.frontier.tree]
        return weight

    @property
    def open_moments(self) -> Integers:
        """The moments of each open node, from its parent's split; unknown for roots."""
        if self._open_moments is None:
            moments = self._next.moments
            if self.levels:
                moments, last = moments[self._next.is_open], self.levels[-1]
                moments = (
                    np.repeat(moments, last.child_lines, axis=0) if last.has_lines else moments
                )
            self._open_moments = moments
        return self._open_moments

    @property
    def child_moments(self) -> Integers:
        """The moments of all children of the newest level, left and right in turn."""
        return self._next.moments

    def ask_about_all(self) -> None:
        """Ask about all open nodes; derive none from its parent and sibling."""
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
        *,
        within: int,
        child_stage: NDArray[np.uint8],
    ) -> Bools:
        """Return which open children can be derived from parent and sibling.

        That requires all features in every node, and the same cells in all three nodes.
        """
        frontier = self.frontier
        most = int(frontier.columns.cells(frontier.draws.max_cells).sum())
        if not frontier.draws.shared_phase or not 0 < child_bits.size * most <= within:
            return np.zeros(child_bits.size, np.bool_)
        cells = np.zeros(child_open.size, np.uint8)
        cells[child_open] = frontier.draws.cells(child_bits)
        pair = cells.reshape(-1, 2)
        alike = (pair == frontier.draws.cells(frontier.bits[split])[:, None]).all(axis=1)
        alike &= (frontier.stage[split] == 0) & (child_stage.reshape(-1, 2) == 0).all(axis=1)
        rows = self.rules.rows(moments).reshape(-1, 2)
        heavier = np.zeros((split.size, 2), np.bool_)
        heavier[np.arange(split.size), (rows[:, 1] >= rows[:, 0]).astype(np.intp)] = alike
        chosen: Bools = heavier.reshape(-1)[child_open]
        # Among many small nodes, deriving only a few costs more than it saves.
        return chosen if chosen.mean() > _WORTH_DERIVING else np.zeros_like(chosen)

    def grow(
        self,
        best: BestSplits,
        *,
        derive_within: int = 0,
        threshold: NDArray[np.float32] = _NO_THRESHOLDS,
        features: NDArray[np.int32] | None = None,
        where: NDArray[np.uint8] | None = None,
    ) -> None:
        """Decide the open nodes and open their children; real thresholds, if given, replace cuts.

        `features` (n_open, n_slots) are the features of the slots, if they differ from the
        frontier's.

        Of two open children, the heavier is derived from parent and sibling if the next level has
        at most `derive_within` cells; 0 means that the parents' histograms are not kept.
        """
        if not self.levels:
            self._next = LevelNodes(self._next.tree, best.total, self._next.is_open)
            self._root_weight = np.maximum(
                self.rules.weight(best.total, self._class_weight), 1e-300
            )
        frontier, by_cells = self.frontier, features is None
        of_cut = frontier.columns.code_type
        highest = np.iinfo(of_cut).max
        features = frontier.slots.feature if features is None else features
        best, features = _by_first_line(best, features, frontier)
        if self._gain_unit != 1.0:
            best = replace(best, gain=best.gain * self._gain_unit)
        accepted = self.rules.accepts(best, self.root_weight)
        stays = np.zeros(frontier.n_open, np.bool_)
        if frontier.draws.goes_on:
            stays = (best.slot == ALIKE) & (frontier.line == 0)
        if not self.levels:  # nothing is known about a root before it is counted
            opens = self.rules.opens(best.total, 0, self._class_weight)
            accepted, stays = accepted & opens, stays & opens
        if frontier.draws.goes_on:
            alike = np.flatnonzero(stays)
            stays[alike] = frontier.has_more(alike, by_cells=by_cells)
        split = np.flatnonzero(accepted | stays)
        stay = stays[split]
        feature = np.full(frontier.n_open, -1, np.int32)
        feature[split] = np.where(stay, 0, features[split, best.slot[split]])
        is_category = accepted & frontier.columns.is_category[feature]
        subset = np.full(feature.size, -1, np.int32)
        subset[is_category] = np.arange(int(is_category.sum()))
        moments = np.empty((2 * split.size, best.total.shape[1]), np.int64)
        moments[0::2] = np.where(stay[:, None], best.total[split], best.left[split])
        moments[1::2] = best.total[split] - moments[0::2]
        depth = np.repeat(self.depth + 1 - frontier.lost[split].astype(np.int64), 2)
        opens = self.rules.opens(moments, depth, self._class_weight)
        opens[0::2] |= stay
        opens[1::2] &= ~stay
        child_open = self._within_reason(opens, moments)
        child_stage, _, child_lines = frontier.stages_after(split, stay)
        # Noise may make a count of any size; larger ones are treated alike.
        child_bits = np.minimum(bit_lengths(self.rules.rows(moments[child_open])), _MOST_BITS)
        level = Level(
            feature=feature,
            cut=np.where(stays, highest, np.where(accepted, best.cut, 0)).astype(of_cut),
            missing_left=accepted & best.missing_left,
            subset=subset,
            bin_sets=best.bin_set[is_category],
            child_open=child_open,
            child_bits=child_bits,
            child_derived=self._derived(
                split,
                moments,
                child_open,
                child_bits,
                within=derive_within,
                child_stage=child_stage,
            ),
            threshold=threshold,
            child_lines=child_lines[child_open],
            where=None if where is None else where[frontier.told_of(split, stay)],
        )
        self._nodes.append(self._next)
        self._gains.append(np.where(stay, 0.0, best.gain[split]))
        tree = np.repeat(frontier.tree[split], 2)
        self._next, self._open_moments = LevelNodes(tree, moments, child_open), None
        self.levels = (*self.levels, level)
        self.frontier = self.frontier.after(level)

    def _within_reason(self, child_open: Bools, moments: Integers) -> Bools:
        """Return which children stay open: of too many, those that seem to hold the most rows."""
        n_open = int(child_open.sum())
        if self._most_open is None or n_open <= self._most_open:
            return child_open
        rows = np.where(child_open, self.rules.rows(moments), _NO_ROWS)
        kept = np.zeros_like(child_open)
        kept[np.argsort(-rows, kind="stable")[: self._most_open]] = True
        self.n_closed += n_open - self._most_open
        return kept

    @property
    def leaf_moments(self) -> Counts:
        """The moments of every leaf, level by level."""
        parts = [
            nodes.moments[is_leaf(nodes, level)]
            for nodes, level in zip(self._nodes, by_node(self.levels), strict=True)
        ]
        joined = np.concatenate([*parts, self._next.moments])
        counters = joined if self.rules.is_regression else joined.astype(np.int32)
        ends = np.arange(0, len(joined), _LEAF_RUN, dtype=np.int64) + _LEAF_RUN
        return Counts(counters, np.minimum(ends, len(joined)))

    def forest(
        self, binning: Binning, values: NodeValues, leaf_moments: Counters | None = None
    ) -> Forest:
        """Return the forest; use the recounted moments of its leaves, if given."""
        nodes = [*self._nodes, self._next]
        if leaf_moments is not None:
            nodes = nodes_of_leaves(nodes[0].tree.size, self.levels, leaf_moments)
        return lay_out(nodes, self.levels, self._gains, binning, values)
