"""A party's side of boosting over columns: batches of trees, the rows' scores, and its best cuts.

A party that knows the labels keeps the score of every row: it moves all rows by all cuts, and so
derives every leaf's value itself. A party that does not know them moves rows and adds ciphertexts.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from spinney.protocols.boosted.scores import ALL_WORDS, RowScores, rows_apart
from spinney.protocols.columns.fields import Fields
from spinney.protocols.columns.growing import Growing
from spinney.protocols.columns.job import OwnTable, Target, check_target
from spinney.protocols.columns.level_seal import LevelSeal
from spinney.protocols.columns.notebook import Notebook
from spinney.protocols.vertical_boosting.job import BoostedJob, KnownObjective
from spinney.trees.boosted_columns import OwnKin, RowsOfTrees, draw_rows_of_trees, kin_of
from spinney.trees.boosting import Sampling, Segments, add_leaf_values, gradient_sums
from spinney.trees.frontier import ColumnCells, Slots
from spinney.trees.histogram import Above, add_derived
from spinney.trees.layout import join_forests
from spinney.trees.losses import Gradients
from spinney.trees.newton import NewtonSearch, NewtonValues, ValueBounds
from spinney.trees.own_columns import MovedRows, OwnBest, OwnNodes, OwnSplits
from spinney.trees.partial import LaidNodes, PartialForest, partial_forest
from spinney.trees.partition import NO_TURNS, Partition, Turns
from spinney.trees.split import BestSplits
from spinney.typing import Bools, Floats, Integers

_LEAKAGE_ROWS = 300  # rows whose leaves are remembered, to measure what membership reveals


class BoostedGrowing(Growing):
    """One party's side of a job, batch by batch.

    Parameters
    ----------
    job, own, notebook, n_threads, seal
        The job, its columns in bins, where it keeps what it must not lose, its threads, and what
        seals the levels.
    target, span
        The labels, and the range of a number; None: this party does not know them.
    keeps_moments
        Whether it is the label party, whose part has the leaf values.
    directions
        How each of its columns may change the prediction.
    """

    job: BoostedJob

    def __init__(
        self,
        job: BoostedJob,
        own: OwnTable,
        target: Target | None,
        notebook: Notebook,
        n_threads: int,
        *,
        span: tuple[float, float],
        keeps_moments: bool,
        directions: tuple[int, ...] = (),
        seal: LevelSeal | None = None,
    ) -> None:
        super().__init__(own, notebook, n_threads, keeps_moments=keeps_moments, seal=seal)
        self.job = job
        self.width = 3
        self.table = own.table
        self.objective = KnownObjective.unknown(job)
        self.scores: RowScores | None = None
        if target is not None:
            check_target(job, target)
            self.objective = KnownObjective.of(job, target, span)
            self.table = replace(own.table, target=target)
            self.scores = RowScores(
                self.objective, self.objective.base, self.table, self._n_threads
            )
        self.units = self.objective.units
        self._apart = rows_apart(job.settings, self.table.keys)
        self._directions = np.array(directions or (0,) * own.columns.n_columns, np.int8)
        self.parts: list[PartialForest] = []
        self.watched = _spread(job.n_rows)
        self.leaves_of_watched: list[NDArray[np.uint32]] = []  # of each tree
        self._begin_batch()

    # --- batches -------------------------------------------------------------------------------

    @property
    def number(self) -> int:
        """The number of the batch that grows."""
        return len(self.parts)

    @property
    def label(self) -> str:
        """Which gradients are encrypted now."""
        return f"batch {self.number}"

    @property
    def _level(self) -> int:
        return len(self.levels)

    def _begin_batch(self) -> None:
        """Draw the rows of the next batch's trees, with what they correct, and open the roots."""
        self.levels: list[tuple[Partition, OwnSplits]] = []
        self._above: dict[int, Above] = {}  # the sums of the newest levels, by depth
        self._gains: dict[int, Floats] = {}  # by level, if only this party knows them
        batch = self.job.batch(min(self.number, self.job.settings.n_batches - 1))
        n_trees, columns = batch.n_trees, self._own.columns
        keep = round(self.job.settings.subsample * ALL_WORDS)
        sampling = Sampling(batch.keys, batch.output_of_tree, keep, self._apart)
        rows = draw_rows_of_trees(
            self.table, sampling, self._gradients(), self.units, self._n_threads
        )
        self._rows: RowsOfTrees = rows
        # Rows are in their order now, and will be moved.
        self._places = rows.places() if self.scores is None else np.zeros((0, 0), np.int32)
        self.nodes = OwnNodes.at_roots(
            columns, batch.draws(0), rows.standing, rows.n_counted, self.job.n_rows.bit_length()
        )
        self._is_open = np.ones(n_trees, np.bool_)  # of all nodes of the newest depth
        self._held = [rows.standing]  # the rows of all nodes, by depth
        self.moments: list[Integers] = []
        search = self._search(self._directions)
        self._bounds = ValueBounds(search, n_trees) if self.job.is_constrained else None
        if self.scores is not None:
            self.moments = [rows.sums(rows.standing)]

    def _gradients(self) -> Gradients:
        if self.scores is not None:
            return self.scores.gradients()
        shape = (self.job.n_outputs, self.job.n_rows)
        bent = shape if self.units.h_steps else (shape[0], 0)
        return Gradients(np.zeros(shape, np.int32), np.zeros(bent, np.int32))

    def _finish_batch(self) -> None:
        """Give every leaf its value, add it to the scores, and begin the next batch."""
        batch = self.job.batch(self.number)
        moments: list[Integers] = []
        if self.scores is not None:
            values = NewtonValues(self.units, self.job.settings.l2_regularization, batch.scale)
            bounds = None if self._bounds is None else self._bounds.of_leaves
            laid = LaidNodes.of(batch.n_trees, [partition for partition, _ in self.levels])
            held, leaf = np.concatenate(self.moments), laid.leaves
            value = values.whole(held[leaf], bounds)
            self._add_to_scores(leaf, laid.tree[leaf], value, batch.output_of_tree)
            if self._keeps_moments:
                whole = values.whole(held)
                whole[leaf] = value
                moments = [np.hstack([held, whole[:, None]])]
        part = partial_forest(
            batch.n_trees, self.levels, self._own.binning, moments, None, gains=self._gains
        )
        if moments:
            part = replace(
                part,
                value=part.moments[:, -1:].astype(np.float64),
                moments=np.ascontiguousarray(part.moments[:, :1]),
            )
        self.parts.append(part)
        if self.number < self.job.settings.n_batches:
            self._begin_batch()

    def _add_to_scores(
        self, leaf: Integers, tree: Integers, value: Integers, output: Integers
    ) -> None:
        assert self.scores is not None
        starts = np.concatenate([held.starts for held in self._held])[leaf]
        ends = np.concatenate([held.ends for held in self._held])[leaf]
        rows = Segments(self.nodes.standing.entries, starts, ends)
        add_leaf_values(
            self.table, rows, output[tree], value, self.scores.scores, n_threads=self._n_threads
        )
        if self._keeps_moments:  # the others are never asked for the loss
            self.leaves_of_watched.extend(self._rows.leaves_of(rows, tree, self.watched))
            self.scores.note_losses()

    # --- levels --------------------------------------------------------------------------------

    def _move(self, partition: Partition) -> MovedRows:
        moved = self.nodes.moved(
            self.table, partition, self._n_threads, all_nodes=self.scores is not None
        )
        return MovedRows(moved.standing, self._rows.count(moved.standing))

    def _go_on(self, partition: Partition, moved: MovedRows, own: OwnSplits) -> None:
        split, child_open = partition.split, partition.child_open
        if self.scores is not None:
            above = self.moments[-1][self._is_open][split]
            self.moments.append(self._rows.child_sums(moved.standing, above))
            if self._bounds is not None:
                turns = partition.turns if partition.turns.size else np.zeros(split.sum(), np.int8)
                self._bounds.go(split, child_open, turns, self.moments[-1])
            self._held.append(moved.standing)
            self._is_open = child_open
        self.nodes = self.nodes.after(partition, moved, own)
        self.levels.append((partition, own))
        if not self.nodes.tree.size:
            self._finish_batch()

    @property
    def open_moments(self) -> Integers:
        """The sums of each open node, as cells count them."""
        held = self.moments[-1][self._is_open].copy()
        held[:, 1] += self.units.g_steps * held[:, 0]
        sums: Integers = held[:, : self.units.width]
        return sums

    # --- cuts ----------------------------------------------------------------------------------

    def _search(self, directions: NDArray[np.int8]) -> NewtonSearch:
        settings = self.job.settings
        return NewtonSearch(
            self.units,
            settings.l2_regularization,
            settings.min_samples_leaf,
            directions,
            self._n_threads,
        )

    def _limits(self) -> tuple[Floats, Floats]:
        """Return what the values of the open nodes' children must lie between."""
        if self._bounds is not None:
            return self._bounds.of_open
        free = np.full(self.nodes.tree.size, np.inf)
        return -free, free

    def kin(self, slots: Slots) -> OwnKin | None:
        """Return which open nodes follow from their parents and siblings."""
        return kin_of(self.nodes, slots) if self._level else None

    def _own_sums(self, slots: Slots) -> Integers:
        """Sum the gradients of the open nodes over the cells of own columns."""
        above = self._above.get(self.depth - 1)
        found = None if above is None else self.kin(slots)
        sums = gradient_sums(
            self.table,
            self.nodes.columns,
            self._rows.counted(self.nodes.standing),
            found.asked if found else slots,
            has_h=self.units.width == 3,
            n_threads=self._n_threads,
        ).counters
        if found and above is not None:
            sums = add_derived(found, above, sums)
        self._above = {
            depth: held for depth, held in self._above.items() if depth == self.depth - 1
        }
        self._above[self.depth] = Above(slots, sums, ())
        return sums.astype(np.int64, copy=False)

    def search_own(self, slots: Slots) -> OwnBest:
        """Return the best own cut of each open node; cuts are compared by their scores."""
        found = self._search(self._directions).best_by_score(
            self._own_sums(slots), slots, self.nodes.columns, *self._limits()
        )
        return OwnBest(found.slot, found)

    def search_cells(
        self,
        counters: Integers,
        slots: Slots,
        columns: ColumnCells,
        node: Integers,
        turns: Turns,
    ) -> BestSplits:
        """Return the best cut of each column of others."""
        low, high = self._limits()
        search = self._search(turns if turns.size else np.zeros(columns.n_columns, np.int8))
        return search.best_of_slots(counters, slots, columns, low[node], high[node])

    def accepted(self, best: BestSplits) -> tuple[Floats, Bools]:
        """Return by how much cuts improve the score, and which are worth making."""
        is_good = best.slot >= 0
        gain = self._search(self._directions).gains(best, *self._limits())
        if self._level == 0:  # roots are asked about before anything is known about them
            is_good &= self.job.rules.opens(best.total, 0, np.zeros(0))
        return gain, is_good

    def open_children(self, left: Integers, total: Integers) -> Bools:
        """Return which children stay open, left and right in turn."""
        rows = np.empty((2 * len(left), 1), np.int64)
        rows[0::2, 0], rows[1::2, 0] = left[:, 0], total[:, 0] - left[:, 0]
        return self.job.rules.opens(rows, self._level + 1, np.zeros(0))

    def turns_of(self, feature: NDArray[np.int32]) -> Turns:
        """Return in which direction own columns may change the prediction; empty: in any."""
        if not self.job.is_constrained:
            return NO_TURNS
        found: Turns = self._directions[feature]
        return found

    def hold_gains(self, gain: Floats) -> None:
        """Remember the gains of a level's cuts, if only the label party knows them."""
        self._gains[self._level] = gain

    # --- encrypted sums ------------------------------------------------------------------------

    def fields(self, field_bits: int, room: int) -> Fields:
        """Return a field for gradients and, unless all are the same, one for curvatures."""
        return Fields.of(self.units.width - 1, field_bits, room)

    def packing(self, room: int) -> tuple[int, list[list[int]]]:
        """Return the bits of a field, and the gradients of all trees' rows to encrypt."""
        most = max(2 * self.units.g_steps, self.units.h_steps)
        bits = most.bit_length() + int(self._rows.n_counted.max(initial=1)).bit_length()
        fields = self.fields(bits, room)
        gradient, curvature = self._rows.fields()
        numbers = gradient.tolist()
        if fields.n_fields == 2:
            shift = zip(numbers, curvature.tolist(), strict=True)
            numbers = [g | h << bits for g, h in shift]
        return bits, [[*numbers, 0]]

    def counters(self, counts: Integers, sums: Integers) -> Integers:
        """Return rows, gradients and curvatures."""
        return np.hstack([counts, sums])

    def most(self, counters: Integers) -> Integers:
        """Return the most that counters can be, given the rows of their cells."""
        units = self.units
        a_row = np.array([1, 2 * units.g_steps, units.h_steps][: units.width])
        most: Integers = counters[:, :1] * a_row
        return most

    def count_rows(self, slots: Slots) -> Integers:
        """Return how many counted rows each cell of own columns holds."""
        return self._own_sums(slots)[:, 0]

    @property
    def n_ciphertexts(self) -> int:
        """One for each row that a tree of the batch counts."""
        return int(self._rows.n_counted.sum())

    def multiples(self) -> list[list[int]]:
        """Return nothing: a tree counts a row once."""
        return []

    def ciphertexts(self, node: int, row: Integers, weight: Integers) -> tuple[Integers, Integers]:
        """Return the ciphertexts of a node's counted rows, and the entry of each."""
        del weight
        place = self._places[self.nodes.tree[node], row]
        entry = np.flatnonzero(place >= 0)
        return entry, place[entry].astype(np.int64)

    def joined(self) -> PartialForest:
        """Return the party's part of all finished batches; leaf values are fixed point."""
        return join_forests(self.parts)


def _spread(n_rows: int) -> Integers:
    """Return some rows, evenly spaced."""
    return np.linspace(0, n_rows - 1, min(n_rows, _LEAKAGE_ROWS)).astype(np.int64)
