"""What every question of a vertical job repeats, and a party's columns in its own bins.

Each party lays its own bins: a column's quantiles do not depend on other parties.
"""

from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.errors import ProtocolError, TableError
from spinney.protocols.rows.facts import (
    FactsReply,
    bin_table,
    binning_of,
    class_weights,
    count_facts,
    fixed_point,
    require_few_classes,
    target_range,
)
from spinney.protocols.rows.setup import CountsReply, EdgesAsk, answer_setup, find_edges
from spinney.protocols.settings import ForestSettings
from spinney.protocols.vertical_forest.settings import Labels
from spinney.seeds import derive_seed
from spinney.tables.holding import Holding
from spinney.tables.schema import Label
from spinney.transport.messages import kept_beside, message
from spinney.trees.binning import BinnedTable, Binning
from spinney.trees.counts import Counts
from spinney.trees.dtypes import BLOCK_ROWS, MAX_ROWS, MAX_WEIGHT, TARGET_BITS, target_bits
from spinney.trees.frontier import ColumnCells, Draws, tree_keys
from spinney.trees.growth import StoppingRules
from spinney.trees.layout import LeafValues
from spinney.trees.quantiles import Refinement
from spinney.trees.rows import bootstrap_weights
from spinney.typing import Floats, Integers, Keys

Target = NDArray[np.integer]  # unsigned class numbers, or fixed-point targets


@message
class Job:
    """The terms of a vertical job, which every party sees."""

    settings: ForestSettings  # its seed draws only the samples
    labels: Labels
    n_rows: int
    n_classes: int  # 0 for regression
    target_step: float  # one fixed-point step in the target's units
    every_column: bool  # whether a node is asked about all columns of all parties
    label_epsilon: str | None = None  # labels are randomised, at this cost
    name: str = ""  # what the label party's ledger debits
    n_parties: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.n_rows < MAX_ROWS:
            raise ProtocolError(f"A job must have 1 to {MAX_ROWS} rows.")

    @kept_beside
    def digest(self) -> str:
        """A digest of the whole job."""
        return sha256(repr(self).encode()).hexdigest()

    @property
    def sample_keys(self) -> Keys:
        """The key of every tree's sample."""
        return tree_keys(self.settings.seed, self.settings.n_estimators)

    @property
    def target_bits(self) -> int:
        """The number of bits of a fixed-point target."""
        return target_bits(self.n_rows)

    @property
    def root_bits(self) -> int:
        """The bits of a root's number of rows, counted as often as they are drawn."""
        times = MAX_WEIGHT if self.settings.bootstrap else 1
        return (self.n_rows * times).bit_length()

    @property
    def draws(self) -> Draws:
        """How cells are laid out."""
        return Draws(0, self.settings.max_cells, 4, shared_phase=self.every_column)

    @property
    def rules(self) -> StoppingRules:
        """The rules by which nodes become leaves."""
        settings = self.settings
        return StoppingRules(
            settings.max_depth,
            settings.least_rows(settings.min_samples_split, self.n_rows),
            settings.least_rows(settings.min_samples_leaf, self.n_rows),
            settings.min_impurity_decrease,
            is_regression=self.n_classes == 0,
        )

    def heaviest(self, keys: Keys) -> int:
        """Return the number of rows in the largest sample, counted as often as drawn."""
        if not self.settings.bootstrap:
            return self.n_rows
        samples = (bootstrap_weights(key, keys) for key in self.sample_keys)
        return max(int(weights.sum(dtype=np.int64)) for weights in samples)

    def class_weights(self, target: Target) -> Floats:
        """Return a weight for each class; empty for regression."""
        counts = np.zeros(0, np.int64)
        if self.n_classes:
            counts = np.bincount(target, minlength=self.n_classes).astype(np.int64)
            if np.count_nonzero(counts) < 2:
                raise TableError(
                    "The label has one class only over the rows that all parties share. A "
                    "classifier needs rows of at least 2 classes."
                )
        none = np.zeros(0, np.int64)
        rows = np.array([self.n_rows], np.int64)
        facts = FactsReply(rows, counts, none, none, Counts(np.zeros((0, 1), np.int32), none))
        return class_weights(self.settings, facts)

    def check_target(self, target: Target) -> None:
        """Raise unless labels fit the job; they may come from another party."""
        most = self.n_classes - 1 if self.n_classes else 2**self.target_bits - 1
        kind = "u" if self.n_classes else "i"
        sound = target.shape == (self.n_rows,) and target.dtype.kind == kind
        if not sound or int(target.max()) > most or int(target.min()) < 0:
            raise ProtocolError("The labels do not fit the job: wrong number or out of range.")


def encode_target(label: Label, target: NDArray[Any]) -> Target:
    """Return labels as integers: class numbers, or steps of their declared range."""
    if label.kind == "number":
        return fixed_point(np.asarray(target, np.float64), label, target_bits(len(target)))
    require_few_classes(label)
    small = np.uint8 if len(label.classes or ()) <= 256 else np.uint16
    return target.astype(small)


def target_step(label: Label, n_rows: int) -> float:
    """Return what one fixed-point step of a target means; 1 for classes."""
    if label.kind == "class":
        return 1.0
    low, high = target_range(label)
    return float((high - low) / (2 ** target_bits(n_rows) - 1))


def values_of_leaves(label: Label, weights: Floats, n_rows: int) -> LeafValues:
    """Return how leaf values follow from a node's moments."""
    if label.kind == "class":
        return LeafValues(weights)
    low, step = target_range(label)[0], target_step(label, n_rows)
    return LeafValues(weights, low, step, target_bits(n_rows))


@dataclass(frozen=True)
class OwnTable:
    """A party's columns in bins, without labels."""

    binning: Binning | None  # None: the party holds no column
    table: BinnedTable

    @property
    def columns(self) -> ColumnCells:
        """What trees need to know about the columns."""
        if self.binning is None:
            none = np.zeros(0, np.bool_)
            return ColumnCells(np.zeros(0, np.int64), none, none)
        return self.binning.columns


def bin_own_table(holding: Holding, settings: ForestSettings, n_threads: int) -> OwnTable:
    """Lay bins over a party's columns and store one byte per cell."""
    if holding.features is None:
        starts = np.arange(0, holding.n_rows, BLOCK_ROWS)
        starts = np.append(starts, holding.n_rows).astype(np.int64)
        nothing = np.zeros(0, np.uint8)
        target = np.zeros(holding.n_rows, np.int32)
        return OwnTable(None, BinnedTable(nothing, starts, 0, target, holding.keys))
    binning = lay_own_bins(holding, settings, n_threads)
    table = bin_table(holding.table, binning, n_threads=n_threads, target_bits=TARGET_BITS)
    return OwnTable(binning, table)


def lay_own_bins(holding: Holding, settings: ForestSettings, n_threads: int) -> Binning:
    """Return the bins that pooled columns would have; nothing leaves the party."""
    table = holding.table
    by_quantiles = settings.binning == "quantiles"
    facts = count_facts(table, with_leading=by_quantiles, n_threads=n_threads)
    if not by_quantiles:
        return binning_of(table.schema, facts, settings, ())

    def count(question: Refinement) -> Integers:
        reply = answer_setup(EdgesAsk(table.schema.digest(), question), table, n_threads)
        assert isinstance(reply, CountsReply)
        return reply.counts.counters.ravel().astype(np.int64)

    edges = find_edges(holding.columns, facts, settings.max_bins, count)
    assert edges is not None  # a party's own rows do not leave
    return binning_of(table.schema, facts, settings, edges)


def public_settings(forest: ForestSettings) -> ForestSettings:
    """Return the settings that parties see: the samples have their own seed.

    Nobody can derive from it which columns were drawn.
    """
    return replace(forest, seed=derive_seed(forest.seed, 1))
