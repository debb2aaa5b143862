"""What every question of a job over columns repeats, and a party's columns in its own bins.

Each party lays its own bins: a column's quantiles do not depend on other parties.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from spinney.errors import ProtocolError, TableError
from spinney.protocols.columns.settings import Labels
from spinney.protocols.rows.facts import (
    BinSettings,
    FactsReply,
    WeightSettings,
    bin_table,
    binning_of,
    class_weights,
    count_facts,
    fixed_point,
    require_few_classes,
)
from spinney.protocols.rows.setup import own_edges
from spinney.tables.holding import Holding
from spinney.tables.schema import Label
from spinney.trees.binning import BinnedTable, Binning
from spinney.trees.counts import Counts
from spinney.trees.dtypes import BLOCK_ROWS, TARGET_BITS
from spinney.trees.frontier import ColumnCells
from spinney.trees.growth import StoppingRules
from spinney.typing import Floats, Integers

Target = NDArray[np.integer]  # unsigned class numbers, or fixed-point targets


class ColumnsJob(Protocol):
    """The terms of a job over columns, which every party sees."""

    @property
    def digest(self) -> str:
        """A digest of the whole job."""
        ...

    @property
    def labels(self) -> Labels:
        """How labels are protected."""
        ...

    @property
    def label_epsilon(self) -> str | None:
        """What randomising the labels costs; None: they are true."""
        ...

    @property
    def name(self) -> str:
        """What the label party's ledger debits."""
        ...

    @property
    def n_parties(self) -> int:
        """How many parties take part."""
        ...

    @property
    def n_rows(self) -> int:
        """How many rows all parties share."""
        ...

    @property
    def n_classes(self) -> int:
        """How many classes the label has; 0 for regression."""
        ...

    @property
    def target_bits(self) -> int:
        """The number of bits of a fixed-point target."""
        ...

    @property
    def rules(self) -> StoppingRules:
        """The rules by which nodes become leaves."""
        ...


def encode_target(label: Label, target: NDArray[Any], bits: int) -> Target:
    """Return labels as integers: class numbers, or steps of their declared range."""
    if label.kind == "number":
        return fixed_point(np.asarray(target, np.float64), label, bits)
    require_few_classes(label)
    small = np.uint8 if len(label.classes or ()) <= 256 else np.uint16
    return target.astype(small)


def weigh_classes_of(
    settings: WeightSettings, target: Target, n_classes: int
) -> tuple[Floats, Integers]:
    """Return a weight and the rows of each class; empty for regression."""
    counts = np.zeros(0, np.int64)
    if n_classes:
        counts = np.bincount(target, minlength=n_classes).astype(np.int64)
        if np.count_nonzero(counts) < 2:
            raise TableError(
                "The label has one class only over the rows that all parties share. A "
                "classifier needs rows of at least 2 classes."
            )
    none = np.zeros(0, np.int64)
    rows = np.array([len(target)], np.int64)
    facts = FactsReply(rows, counts, none, none, Counts(np.zeros((0, 1), np.int32), none))
    return class_weights(settings, facts), counts


def check_target(job: "ColumnsJob", target: Target) -> None:
    """Raise unless labels fit the job; they may come from another party."""
    most = job.n_classes - 1 if job.n_classes else 2**job.target_bits - 1
    kind = "u" if job.n_classes else "i"
    sound = target.shape == (job.n_rows,) and target.dtype.kind == kind
    if not sound or int(target.max()) > most or int(target.min()) < 0:
        raise ProtocolError("The labels do not fit the job: wrong number or out of range.")


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


def bin_own_table(holding: Holding, settings: BinSettings, n_threads: int) -> OwnTable:
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


def lay_own_bins(holding: Holding, settings: BinSettings, n_threads: int) -> Binning:
    """Return the bins that pooled columns would have; nothing leaves the party."""
    table = holding.table
    by_quantiles = settings.binning == "quantiles"
    facts = count_facts(table, with_leading=False, n_threads=n_threads)
    edges = own_edges(table, settings.max_bins, n_threads) if by_quantiles else ()
    return binning_of(table.schema, facts, settings, edges)
