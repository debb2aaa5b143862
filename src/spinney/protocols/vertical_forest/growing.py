"""A party's side of growing a vertical forest: what it counts, and its best cuts."""

from dataclasses import replace

import numpy as np

from spinney.protocols.columns.fields import Fields
from spinney.protocols.columns.growing import Growing
from spinney.protocols.columns.job import OwnTable, Target, check_target
from spinney.protocols.columns.level_seal import LevelSeal
from spinney.protocols.columns.notebook import Notebook
from spinney.protocols.vertical_forest.job import Job
from spinney.trees.binning import BinnedTable
from spinney.trees.dtypes import MAX_WEIGHT
from spinney.trees.frontier import ColumnCells, Slots, weighted_sums
from spinney.trees.layout import LeafValues
from spinney.trees.own_columns import (
    MovedRows,
    OwnBest,
    OwnNodes,
    OwnSearch,
    OwnSplits,
    best_of_slots,
    count_cells,
    moments_of,
    own_best,
)
from spinney.trees.partial import PartialForest, partial_forest
from spinney.trees.partition import Partition, Turns
from spinney.trees.split import BestSplits, Criterion, LeastLeaf
from spinney.typing import Bools, Floats, Integers

_MULTIPLES = 3  # stored multiples of each ciphertext: one row in fifty is drawn more often


class ForestGrowing(Growing):
    """One party's side of a forest; all trees grow together."""

    job: Job

    def __init__(
        self,
        job: Job,
        own: OwnTable,
        target: Target | None,
        notebook: Notebook,
        n_threads: int,
        *,
        keeps_moments: bool,
        seal: LevelSeal | None = None,
    ) -> None:
        super().__init__(own, notebook, n_threads, keeps_moments=keeps_moments, seal=seal)
        self.job = job
        self.width = job.n_classes or 2
        self.levels: list[tuple[Partition, OwnSplits]] = []
        self.foreign_gains: dict[int, Floats] = {}  # by depth, if only this party knows them
        table = own.table
        self.weights = np.zeros(0)
        known: Target = np.zeros(
            job.n_rows, np.int32
        )  # row entries contain neither class nor target
        if target is not None:
            check_target(job, target)
            self.weights, known = job.class_weights(target), target
        self.table: BinnedTable = replace(table, target=known)
        self.nodes = OwnNodes.of_roots(
            self.table, own.columns, job.draws, job.sample_keys,
            bits=job.root_bits, bootstrap=job.settings.bootstrap, n_threads=n_threads,
        )  # fmt: skip
        self.moments: list[Integers] = []
        self._root_weight = np.zeros(0)
        if target is not None:
            self._count_roots()

    def _count_roots(self) -> None:
        counted = moments_of(self.table, self.nodes.standing, self.job.n_classes, self._n_threads)
        self.moments = [counted]
        weight = weighted_sums(counted, self.weights) if self.job.n_classes else counted[:, 0]
        self._root_weight = np.maximum(weight.astype(np.float64), 1e-300)

    @property
    def root_weight(self) -> Floats:
        """The weight of each open node's tree; 0 for roots, whose own weight is used."""
        if self.depth == 0:
            return np.zeros(self.nodes.tree.size)
        weight: Floats = self._root_weight[self.nodes.tree]
        return weight

    @property
    def search(self) -> OwnSearch:
        """The search for cuts."""
        settings, rules = self.job.settings, self.job.rules
        return OwnSearch(
            Criterion.of(settings.criterion, self.weights, MAX_WEIGHT * self.job.n_rows),
            LeastLeaf(rules.min_samples_leaf, settings.min_weight_fraction_leaf),
            self.job.n_classes,
            self._n_threads,
        )

    def search_own(self, slots: Slots) -> OwnBest:
        """Return the best own cut of each open node."""
        return own_best(self.table, self.nodes, slots, self.search, self.root_weight)

    def search_cells(
        self,
        counters: Integers,
        slots: Slots,
        columns: ColumnCells,
        node: Integers,
        turns: Turns,
    ) -> BestSplits:
        """Return the best cut of each column of others."""
        del turns  # a forest limits no direction
        kind = np.int32 if self.job.n_classes else np.int64
        weight = self.root_weight[node]
        return best_of_slots(counters.astype(kind), slots, columns, self.search, weight)

    def _move(self, partition: Partition) -> MovedRows:
        return self.nodes.moved(
            self.table, partition, self._n_threads, all_nodes=self._keeps_moments
        )

    def _go_on(self, partition: Partition, moved: MovedRows, own: OwnSplits) -> None:
        if self._keeps_moments:
            self._count_children(partition, moved.left_moments(
                self.table, self.job.n_classes, self._n_threads
            ))  # fmt: skip
        self.nodes = self.nodes.after(partition, moved, own)
        self.levels.append((partition, own))

    def _count_children(self, partition: Partition, left: Integers) -> None:
        above = self.open_moments
        moments = np.empty((2 * len(left), left.shape[1]), np.int64)
        moments[0::2], moments[1::2] = left, above[partition.split] - left
        self.moments.append(moments)

    @property
    def open_moments(self) -> Integers:
        """The label party's moments of each open node, from its own labels."""
        return self.moments[-1][self.levels[-1][0].child_open] if self.depth else self.moments[0]

    def hold_gains(self, gain: Floats) -> None:
        """Remember the gains of a level's cuts, if only the label party knows them."""
        self.foreign_gains[self.depth] = gain

    def accepted(self, best: BestSplits) -> tuple[Floats, Bools]:
        """Return gains in target units, and which nodes' best cuts are worth making."""
        rules = self.job.rules
        unit = min(self.job.target_step**2, 1e200) if rules.is_regression else 1.0
        scaled = replace(best, gain=best.gain * unit)
        is_good = rules.accepts(scaled, self._root_weight[self.nodes.tree])
        if self.depth == 0:  # roots are asked about before anything is known about them
            is_good &= rules.opens(best.total, 0, self.weights)
        return scaled.gain, is_good

    def open_children(self, left: Integers, total: Integers) -> Bools:
        """Return which children stay open, left and right in turn."""
        moments = np.empty((2 * len(left), left.shape[1]), np.int64)
        moments[0::2], moments[1::2] = left, total - left
        return self.job.rules.opens(moments, self.depth + 1, self.weights)

    def fields(self, field_bits: int, room: int) -> Fields:
        """Return one field per class but the first, or one for a target."""
        return Fields.of(max(self.job.n_classes - 1, 1), field_bits, room)

    def counters(self, counts: Integers, sums: Integers) -> Integers:
        """Return class counts, of which the first are the rest, or rows and target sums."""
        first = counts - sums.sum(axis=1, keepdims=True) if self.job.n_classes else counts
        return np.hstack([first, sums])

    def most(self, counters: Integers) -> Integers:
        """Return the most that counters can be: no row has more than the largest target."""
        if self.job.n_classes:
            return counters
        rows = counters[:, :1]
        return np.hstack([rows, rows * (2**self.job.target_bits - 1)])

    def count_rows(self, slots: Slots) -> Integers:
        """Return how many rows, as often as drawn, each cell of own columns holds."""
        every = count_cells(self.table, self.nodes, slots, (0, self.nodes.tree.size), 0)
        rows: Integers = every.reshape(-1, 2)[:, 0]
        return rows

    @property
    def n_ciphertexts(self) -> int:
        """One for each row."""
        return self.job.n_rows

    def ciphertexts(self, node: int, row: Integers, weight: Integers) -> tuple[Integers, Integers]:
        """Return the ciphertexts that add up to each row times its weight, and the row of each."""
        del node  # all trees add the same ciphertexts, which are stored with their multiples
        if not self.job.settings.bootstrap:
            return np.arange(row.size), row
        n_rows = self.job.n_rows
        whole, rest = np.divmod(weight, _MULTIPLES)
        entry = np.repeat(np.arange(row.size), whole)
        some = np.flatnonzero(rest)
        cipher = (_MULTIPLES - 1) * n_rows + row[entry]
        return np.r_[entry, some], np.r_[cipher, (rest[some] - 1) * n_rows + row[some]]

    def multiples(self) -> list[list[int]]:
        """Return which ciphertexts to add up beforehand: rows may be drawn more than once."""
        if not self.job.settings.bootstrap:
            return []
        return [[row] * time for time in range(1, _MULTIPLES + 1) for row in range(self.job.n_rows)]

    def part(self, values: LeafValues | None) -> PartialForest:
        """Return the party's part of the finished forest."""
        n_trees = self.job.settings.n_estimators
        moments = self.moments if self._keeps_moments else []
        gains = self.foreign_gains
        return partial_forest(n_trees, self.levels, self._own.binning, moments, values, gains=gains)
