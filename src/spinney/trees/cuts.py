"""Candidates of extra-trees: random cuts in each open node's public box, counted and compared.

Geurts, Ernst and Wehenkel (2006) draw a cut uniformly between a node's smallest and largest value.
No party needs to reveal those values. A cut is drawn in the public box (the declared ranges,
narrowed by the node's path) and rejected unless both sides hold rows; the accepted cuts have
exactly the same distribution. So the parties count several cuts of each feature, of which one is
compared: with too few of them, features that would split a node are missed, and trees get worse.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.trees._kernels import cuts as kernels
from spinney.trees._kernels.binning import highest_code
from spinney.trees.binning import BinnedTable, Binning
from spinney.trees.buffers import SHARED, Buffers
from spinney.trees.counts import Counters, Counts, packed_bits
from spinney.trees.frontier import ColumnCells, Frontier, Slots
from spinney.trees.growth import Growth
from spinney.trees.level import Level
from spinney.trees.rows import Standing
from spinney.trees.split import BestSplits, Criterion, LeastLeaf, best_splits
from spinney.trees.threads import TASKS_PER_THREAD, equal_ranges, run_ranges, thread_count
from spinney.typing import Bools, Codes, Floats, Integers

_TASK_BYTES = 2 << 20
_DRAW_WORK = 64  # rows that cost as much as drawing a node's cuts
_MORE_DRAWS = 8  # cuts of a feature in a node that draws on, spread evenly over its bins
_ENOUGH = 16  # columns that a tiny node draws: of two rows, any column that parts them parts all
_TINY_BITS = 2  # a tiny node has at most three rows
_FEW_BITS = 8  # a node with fewer than 2^8 rows holds few
_MISSING_BIT = np.uint64(1) << np.uint64(63)  # of a set's last word: bin 255


@dataclass(frozen=True)
class Drawing:
    """How many candidates a node gets.

    Parameters
    ----------
    n_compared
        How many features are compared at most: scikit-learn's max_features. One that is constant
        among a node's rows uses up a draw, as there.
    n_draws
        How many cuts of each feature are drawn.
    n_draws_of_few
        How many if fewer than 2^8 rows are in the node, because few cuts split few rows.
    reserves
        (bits, times) in falling order: for a node with fewer than 2**bits rows, `times` as many
        features are drawn, where each has one cut only.
    """

    n_compared: int
    n_draws: int = 1
    n_draws_of_few: int = 1
    reserves: tuple[tuple[int, int], ...] = ()

    def features_of_node(self, frontier: Frontier) -> Integers:
        """Return how many features are drawn for each node; as many as are compared in a line."""
        times = np.ones(frontier.n_open, np.int64)
        for below, factor in self.reserves:
            times[frontier.bits <= below] = factor
        times[frontier.stage > 0] = 1
        n_features = np.minimum(times * self.n_compared, frontier.columns.n_columns)
        if self.n_draws > 1:  # else each has one cut, which may miss
            few = (frontier.stage == 0) & (frontier.bits <= _TINY_BITS)
            n_features[few] = np.minimum(n_features[few], _ENOUGH)
        return n_features

    def draws_of_node(self, frontier: Frontier) -> Integers:
        """Return how many cuts of each feature are drawn; a node that draws on has more."""
        draws = np.where(frontier.bits <= _FEW_BITS, self.n_draws_of_few, self.n_draws)
        more = _MORE_DRAWS if self.n_draws > 1 else 1
        return np.where(frontier.stage > 0, more, draws).astype(np.int64)


@dataclass(frozen=True)
class Candidates:
    """The cuts drawn for some nodes; the slots of one feature are adjacent."""

    slots: Slots  # two cells each, three if values may be missing; nothing is shifted
    cut: Codes  # (n_nodes, n_slots) of numbers: the last bin that goes left
    subset: NDArray[np.int32]  # (n_nodes, n_slots) row of `sets`, -1 for numbers
    sets: NDArray[np.uint64]  # (n_sets, 4) the bins that go left
    first: Integers  # (n_nodes,) how many features were drawn at first; others are a reserve
    low: Codes  # (n_nodes, n_columns) of each node's box
    high: Codes

    @classmethod
    def of(
        cls,
        feature: NDArray[np.int32],
        cut: Codes,
        cells: NDArray[np.int32],
        first: Integers,
        frontier: Frontier,
    ) -> "Candidates":
        """Return the candidates of these slots, with the sets of categories drawn."""
        is_set = (feature >= 0) & frontier.columns.is_category[feature]
        subset = np.full(feature.shape, -1, np.int32)
        subset[is_set] = np.arange(int(is_set.sum()), dtype=np.int32)
        sets = np.empty((int(is_set.sum()), 4), np.uint64)
        if len(sets):
            kernels.draw_sets(frontier.key, feature, subset, sets)
        add, shift = np.zeros(feature.shape, np.int32), np.zeros(feature.shape, np.uint8)
        slots = Slots.of(feature, add, shift, cells)
        return cls(slots, cut, subset, sets, first, frontier.low, frontier.high)

    def cut_at(self, cut: Codes) -> "Candidates":
        """Return the same candidates with different cuts of numbers."""
        return replace(self, cut=cut)

    def part(self, first: int, last: int) -> "Candidates":
        """Return the candidates of a range of nodes, with their cells counted from zero."""
        nodes = slice(first, last)
        if (first, last) == (0, len(self.cut)):
            return self
        return replace(
            self,
            slots=self.slots.part(first, last),
            cut=self.cut[nodes],
            subset=self.subset[nodes],
            first=self.first[nodes],
            low=self.low[nodes],
            high=self.high[nodes],
        )


def draw_candidates(frontier: Frontier, drawing: Drawing, binning: Binning) -> Candidates:
    """Draw the candidates of every open node; every party computes the same ones."""
    columns = frontier.columns
    n_features, draws = drawing.features_of_node(frontier), drawing.draws_of_node(frontier)
    shape = (frontier.n_open, int((n_features * draws).max(initial=drawing.n_compared)))
    feature = np.empty(shape, np.int32)
    cut = np.empty(shape, columns.code_type)
    cells = np.empty(shape, np.int32)
    at_first = np.empty(frontier.n_open, np.int64)

    def task(first: int, last: int) -> None:
        part = slice(first, last)
        kernels.draw_cuts(
            frontier.key[part], frontier.low[part], frontier.high[part], columns.n_bins,
            columns.is_category, columns.has_missing, binning.padded_edges, binning.begins,
            frontier.line[part], frontier.stage[part], drawing.n_compared, n_features[part],
            draws[part], feature[part], cut[part], cells[part], at_first[part],
        )  # fmt: skip

    _over_nodes(task, frontier.n_open)
    return Candidates.of(feature, cut, cells, at_first, frontier)


@dataclass(frozen=True)
class CutFrontier(Frontier):
    """Open nodes with the cuts that everybody draws for them.

    A cut with rows on one side only says where rows are: it narrows the boxes of the children. So
    columns that hang together narrow together, though a path has cut only one of them.
    """

    drawing: Drawing
    binning: Binning

    @classmethod
    def of(cls, roots: Frontier, drawing: Drawing, binning: Binning) -> "CutFrontier":
        """Return the roots of all trees, whose nodes get drawn cuts."""
        facts = {name: getattr(roots, name) for name in Frontier.__dataclass_fields__}
        return cls(**facts, drawing=drawing, binning=binning)

    @cached_property
    def candidates(self) -> Candidates:
        """The cuts drawn for all open nodes."""
        return draw_candidates(self, self.drawing, self.binning)

    def told_of(self, split: Integers, stays: Bools) -> Integers:
        """Return the lines that levels tell where rows are of: those of split nodes."""
        del stays
        return split

    @property
    def n_where(self) -> int:
        """How many numbers a level tells about where the rows of a line are: one for each cut."""
        return int(self.candidates.cut.shape[1])

    def _narrow(self, level: Level, low: Codes, high: Codes) -> None:
        """Narrow the boxes of open children to the sides of cuts that hold rows."""
        drawn = self.candidates
        kernels.narrow_to_sides(
            np.flatnonzero(level.splits), level.child_open, level.where, drawn.slots.feature,
            drawn.cut, drawn.subset, low, high,
        )  # fmt: skip


@dataclass(frozen=True)
class ReportedBits:
    """The bits that rows report instead of a class."""

    words: NDArray[np.uint32]  # (n_rows, n_words)
    n_bits: int


def cut_counts(
    table: BinnedTable,
    standing: Standing,
    candidates: Candidates,
    nodes: tuple[int, int],
    *,
    n_classes: int,
    n_threads: int,
    bits: ReportedBits | None = None,
    buffers: Buffers = SHARED,
) -> Counts:
    """Count the rows of a range of open nodes on both sides of their candidates.

    `candidates` are those of the range. If `n_classes` is 0, targets are summed instead; if `bits`
    is given, rows and the bits they report are counted.
    """
    starts = standing.starts[nodes[0] : nodes[1]]
    ends = standing.ends[nodes[0] : nodes[1]]
    slots = candidates.slots
    width = (n_classes or 2) if bits is None else bits.n_bits + 1
    n = slots.n_cells * width
    out: Counters = buffers.array(n, np.int32) if n_classes else buffers.array(n, np.int64)

    def task(first: int, last: int) -> None:
        common = (
            table.block_start, table.n_columns, standing.entries, starts, ends, first, last,
            slots.feature, candidates.cut, candidates.subset, candidates.sets, slots.cells,
            slots.offset,
        )  # fmt: skip
        if bits is not None:
            kernels.sum_bits(table.codes, bits.words, *common, bits.n_bits, out)
        elif n_classes == 0:
            kernels.sum_targets(table.codes, table.target, *common, out)
        elif n_classes == 2:
            kernels.count_two_classes(table.codes, *common, out.view(np.int64))
        else:
            kernels.count_classes(table.codes, *common, n_classes, out)
        run_ends = slots.ends[first:last, -1]
        begin = slots.offset[first, 0]
        part = out[begin * width : run_ends[-1] * width].reshape(-1, width)
        sizes.append(packed_bits(part, run_ends - begin))

    sizes: list[tuple[int, ...]] = []  # appending is atomic
    work = (ends - starts).sum(axis=1) + 16  # each node has a fixed cost besides its rows
    n_tasks = max(TASKS_PER_THREAD * n_threads, out.nbytes // _TASK_BYTES)
    run_ranges(task, equal_ranges(work, n_tasks), n_threads)
    total = tuple(sum(stream) for stream in zip(*sizes, strict=True))
    return Counts(out.reshape(-1, width), slots.ends[:, -1], total)


@dataclass(frozen=True)
class Decided:
    """The best cut of each node, and the features of its slots."""

    best: BestSplits
    features: NDArray[np.int32]
    slot: Integers  # (n_nodes,) among all candidates, -1 if there is no split
    all_left: Bools  # (n_nodes,) only missing values go right
    sides: NDArray[np.uint8] | None = None  # (n_nodes, n_slots) without rows: 1 left, 2 right

    def counted_by(self, counters: Counters, slots: Slots, unit: float) -> "Decided":
        """Return the same cuts, with the node totals and left sides taken from other counters."""
        nodes = np.arange(len(self.slot))
        n_all = np.zeros((nodes.size, counters.shape[1]), np.int64)
        n_left = np.zeros_like(n_all)
        place = self.slot.clip(0)
        at, cells = slots.offset[nodes, place], slots.cells[nodes, place]
        goes_left = [np.ones(nodes.size, np.bool_), self.all_left, self.best.missing_left]
        for cell in range(3):
            held = np.where((cells > cell)[:, None], counters[at + np.minimum(cell, cells - 1)], 0)
            n_all += held
            n_left += np.where(goes_left[cell][:, None], held, 0)
        n_left[self.slot < 0] = 0
        best = replace(self.best, total=n_all, left=n_left, gain=self.best.gain * unit)
        return replace(self, best=best)


Estimated = Callable[[Counters], Counters]


@dataclass(frozen=True)
class CutSearch:
    """The search for the best of the drawn cuts."""

    drawing: Drawing
    criterion: Criterion
    least: LeastLeaf
    n_threads: int
    is_noisy: bool = False

    def best(
        self,
        counters: Counters,
        candidates: Candidates,
        columns: ColumnCells,
        root_weight: Floats,
        estimated: Estimated | None = None,
        *,
        only_first: Bools | None = None,
    ) -> Decided:
        """Return the best cuts of some nodes, given the counts on both sides of all candidates.

        `estimated` turns counters of another kind, the first of which counts rows, into class
        counts; it is called only for the compared candidates. Nodes that take `only_first` cut the
        first column that can be cut.
        """
        rows_first = estimated is not None
        chosen = self._chosen(counters, candidates, rows_first=rows_first)
        sides = self._empty_sides(counters, candidates.slots, rows_first=rows_first)
        slots = _taken(candidates.slots, chosen)
        if estimated is not None:
            place = _cells(slots)
            counters = estimated(counters[place])
            slots = Slots.of(slots.feature, slots.add, slots.shift, slots.cells)
        found = best_splits(
            counters,
            slots,
            replace(columns, is_category=np.zeros(columns.n_columns, np.bool_)),  # cells in order
            self.criterion,
            least=self.least,
            root_weight=root_weight,
            n_threads=self.n_threads,
            is_noisy=self.is_noisy,
            only_first=only_first,
        )
        is_split = found.slot >= 0
        slot = np.where(is_split, chosen[np.arange(found.slot.size), found.slot.clip(0)], -1)
        all_left = is_split & (found.cut > 0)
        best = _with_cuts(found, candidates, slot, all_left)
        return Decided(best, slots.feature, slot, all_left, sides)

    def _empty_sides(
        self, counters: Counters, slots: Slots, *, rows_first: bool
    ) -> NDArray[np.uint8] | None:
        """Return which sides of cuts hold no row; nobody knows if counts are noisy."""
        if self.is_noisy:
            return None
        sides = np.empty(slots.feature.shape, np.uint8)
        rows_first = rows_first or self.criterion.name == "squared_error"

        def task(first: int, last: int) -> None:
            part = slice(first, last)
            shape = (slots.feature[part], slots.offset[part])
            kernels.empty_sides(counters, rows_first, *shape, sides[part])

        _over_nodes(task, len(sides))
        return sides

    def _chosen(self, counters: Counters, candidates: Candidates, *, rows_first: bool) -> Integers:
        """Return which slots are compared: of each node, those that split it (see the kernel)."""
        most, slots = self.drawing.n_compared, candidates.slots
        if self.is_noisy:  # it is not known which cuts split; there is no reserve
            return np.tile(np.arange(most), (len(slots.feature), 1))
        chosen = np.empty((len(slots.feature), most), np.int64)
        rows_first = rows_first or self.criterion.name == "squared_error"

        def task(first: int, last: int) -> None:
            part = slice(first, last)
            kernels.choose(
                counters, rows_first, slots.feature[part], candidates.cut[part],
                candidates.subset[part], slots.cells[part], slots.offset[part],
                candidates.low[part], candidates.high[part], candidates.first[part], chosen[part],
            )  # fmt: skip

        _over_nodes(task, len(chosen))
        return chosen


def _cells(slots: Slots) -> Integers:
    """Return the index of every cell of some slots, slot by slot."""
    cells = slots.cells.ravel().astype(np.int64)
    begin = np.cumsum(cells) - cells
    return np.repeat(slots.offset.ravel() - begin, cells) + np.arange(int(cells.sum()))


def grow_by(growth: Growth, parts: list[Decided], *, is_public: bool = True) -> None:
    """Grow a level by the best cuts of its nodes, batch by batch.

    If everybody draws the cuts (`is_public`), everybody narrows boxes by them.
    """
    best = BestSplits.of_parts([part.best for part in parts])
    found = [part.sides for part in parts if part.sides is not None]
    growth.grow(
        best,
        features=np.concatenate([part.features for part in parts]),
        where=np.concatenate(found) if found and is_public else None,
    )


def _taken(slots: Slots, chosen: Integers) -> Slots:
    """Return the chosen slots of each node, in the order they were drawn; -1: unused."""
    place, unused = chosen.clip(0), chosen < 0

    def taken(array: NDArray[Any], instead: int) -> NDArray[Any]:
        picked = np.take_along_axis(array, place, axis=1)
        picked[unused] = instead
        return picked

    feature = taken(slots.feature, -1)
    add, shift = np.zeros(feature.shape, np.int32), np.zeros(feature.shape, np.uint8)
    cells, offset = taken(slots.cells, 0), taken(slots.offset, 0)
    return Slots(feature, add, shift, cells, offset, slots.n_cells)


def _with_cuts(
    best: BestSplits, candidates: Candidates, slot_of_node: Integers, is_all_left: Bools
) -> BestSplits:
    """Return the best splits with real cuts and sets: the search saw only cells 0 and 1."""
    node = np.flatnonzero(slot_of_node >= 0)
    slot, top = slot_of_node[node], is_all_left[node]
    cut, bin_set = np.empty(best.cut.size, candidates.cut.dtype), best.bin_set.copy()
    cut[:] = best.cut
    all_left = int(highest_code(cut)) - 1  # above every bin except that of missing values
    cut[node] = np.where(top, all_left, candidates.cut[node, slot])
    subset = candidates.subset[node, slot]
    with_set = subset >= 0
    at = node[with_set]
    words = np.where(top[with_set, None], ~np.uint64(0), candidates.sets[subset[with_set]])
    words[:, -1] &= ~_MISSING_BIT
    words[best.missing_left[at], -1] |= _MISSING_BIT
    bin_set[at], cut[at] = words, 0
    return replace(best, cut=cut, bin_set=bin_set)


def add_up(candidates: Candidates, counters: Counters) -> bool:
    """Return whether counts are plausible: none negative, and all candidates of a node add up."""
    slots = candidates.slots
    sound: list[bool] = []

    def task(first: int, last: int) -> None:
        part = slice(first, last)
        shape = (slots.feature[part], slots.cells[part], slots.offset[part])
        sound.append(bool(kernels.add_up(counters, *shape)))

    _over_nodes(task, len(slots.feature))
    return all(sound)


def _over_nodes(task: Callable[[int, int], None], n_nodes: int) -> None:
    """Run a task over ranges of nodes, on all cores."""
    n_threads = thread_count(None)
    run_ranges(task, equal_ranges(np.full(n_nodes, _DRAW_WORK), n_threads), n_threads)
