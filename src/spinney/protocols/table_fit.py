"""Do the parties' tables fit? A question before a job, from histograms that are summed.

A unit that differs by a factor, another list of codes, two columns swapped, a column that is
constant at one party: each makes that party's histogram unlike that of all others. The coordinator
sums histograms by class and tells every party the sums; each party compares its own counts with
what the others have together, and tells its own operator.

**Who learns what.** The coordinator and every party learn, summed over parties, rows by class,
missing values and categories, where quantiles of numbers lie, and how many rows of each class are
in each of a few bins: what the first level of a `horizontal_forest` over the same rows tells, and
its questions about bins. Sums below
`FEWEST` are told as 0. Whoever compares the parties' findings learns which columns stand out at
which party, and how far. **Who never learns what.** Under masks nobody learns one party's counts.
Nothing here carries noise: a private job does not ask it.

Rounds: 2 to 5. Up: 8 bytes for each column, bin and class.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from spinney.errors import ProtocolError
from spinney.protocols.rows.setup import EdgesAsk, FactsAsk, answer_setup, lay_bins
from spinney.protocols.settings import PrivacySettings
from spinney.tables.schema import Schema
from spinney.tables.table import Table
from spinney.transport.channel import Ask, Channel, Vector
from spinney.transport.messages import message
from spinney.trees.binning import Binning
from spinney.trees.drift import distances, places_apart
from spinney.typing import Integers

NAME = "checking tables"
N_BINS: Final = 12
FEWEST: Final = 5
_LEAST: Final = 0.06  # beyond chance; a smaller distance is no fault, however many rows show it
_LEAST_SHIFT: Final = 0.08  # of the mean rank
_MISSING_APART: Final = 0.15
_OF_MOST: Final = 0.6
_MOST_CELLS: Final = 1 << 24


@message
class FitReply:
    """Rows of one party, or of all: by column, bin and class; the last bin is "missing"."""

    counts: Integers  # (n_columns, n_bins + 1, n_classes), flat

    def vectors(self) -> tuple[Vector, ...]:
        """Return its integers."""
        return (self.counts,)

    @classmethod
    def of_vectors(cls, vectors: tuple[Vector, ...]) -> "FitReply":
        """Return the reply with these integers."""
        return cls(*vectors)


@message
class FitAsk(Ask[FitReply]):
    """How many of your rows of each class are in each bin?"""

    schema_digest: str
    edges: NDArray[np.float32]  # (n_columns, N_BINS), padded with infinity; unused for categories
    reveals: ClassVar[str] = "rows by class in a few bins of each column"
    reply_type: ClassVar[type[Any]] = FitReply

    def check(self, schema: Schema) -> None:
        """Raise unless the question fits the schema; no message is trusted."""
        sound = self.edges.shape == (len(schema.columns), N_BINS)
        if not sound or schema.digest() != self.schema_digest:
            raise ProtocolError("The question does not fit this party's table.")


SUMMED: tuple[type[Ask[Any]], ...] = (FactsAsk, EdgesAsk, FitAsk)


@dataclass(frozen=True)
class Standout:
    """A column that is unlike the other parties'; it stays at its party."""

    column: str
    distance: float  # 0: as elsewhere; 1: nothing in common
    what: str  # in words


class Party:
    """One organisation's side: it counts, and compares its counts with the sums."""

    def __init__(self, table: Table, *, n_threads: int = 1) -> None:
        self._table = table
        self._n_threads = n_threads

    def answer(self, ask: Ask[Any]) -> Any:
        """Answer a question."""
        if isinstance(ask, FactsAsk | EdgesAsk):
            return answer_setup(ask, self._table, self._n_threads)
        if not isinstance(ask, FitAsk):
            raise ProtocolError(f"A party in {NAME} does not answer {type(ask).__name__}.")
        ask.check(self._table.schema)
        return FitReply(self._counted(ask).ravel())

    def compare(self, ask: FitAsk, told: Integers) -> tuple[Standout, ...]:
        """Return the columns in which this party is unlike all others together."""
        own = self._counted(ask)
        rest = np.maximum(told.reshape(own.shape) - own, 0)
        schema = self._table.schema
        if not rest.any():
            return ()
        apart, chance = distances(own, rest)
        n_own, n_rest = _rows(own), _rows(rest)
        missing = own[:, -1].sum(axis=1) / n_own, rest[:, -1].sum(axis=1) / n_rest
        gaps, errors = places_apart(own, rest)
        found = []
        for place, column in enumerate(schema.columns):
            gap = abs(float(missing[0][place] - missing[1][place]))
            is_gap = gap > _MISSING_APART and gap > 4 / np.sqrt(n_own[place])
            shift = float(gaps[place]) if column.kind == "number" else 0.0
            is_shift = abs(shift) > _LEAST_SHIFT + 3.5 * errors[place]
            if apart[place] <= _LEAST + chance[place] and not is_gap and not is_shift:
                continue
            known = own[place, :-1].sum(axis=1), rest[place, :-1].sum(axis=1)
            here, there = float(missing[0][place]), float(missing[1][place])
            words = _words(column.kind, known, (here, there), shift)
            found.append(Standout(column.name, round(float(apart[place]), 3), words))
        return tuple(found)

    def _counted(self, ask: FitAsk) -> Integers:
        schema = self._table.schema
        n_classes = len(schema.label.classes or ()) or 1
        widths = cells_of(schema)
        counts = np.zeros((len(schema.columns), max(widths) + 1, n_classes), np.int64)
        for batch in self._table.batches():
            classes = batch.target if schema.label.classes else np.zeros(len(batch.target))
            for place, column in enumerate(schema.columns):
                values = batch.values[place]
                gone = np.isnan(values)
                if column.kind == "category":
                    bins = np.where(gone, 0, values).astype(np.int64) % max(widths)
                else:
                    bins = np.searchsorted(ask.edges[place], values).clip(0, N_BINS - 1)
                bins = np.where(gone, max(widths), bins)
                flat = bins * n_classes + classes.astype(np.int64)
                size = (max(widths) + 1) * n_classes
                counts[place] += np.bincount(flat, minlength=size).reshape(-1, n_classes)
        return counts


def cells_of(schema: Schema) -> list[int]:
    """Return how many bins each column has; more categories than that share them."""
    return [min(max(len(column.categories or ()), N_BINS), 64) for column in schema.columns]


@dataclass(frozen=True)
class _Bins:
    """The settings for laying a few bins at quantiles of all rows."""

    binning: str = "quantiles"
    max_bins: int = N_BINS
    privacy: PrivacySettings | None = None


def ask_sums(channel: Channel, schema: Schema) -> tuple[FitAsk, Integers]:
    """Lay bins and sum the parties' counts; small sums are told as 0."""
    _, binning = lay_bins(channel, schema, _Bins())
    ask = FitAsk(schema.digest(), _edges(binning))
    widest = max(cells_of(schema)) + 1
    if len(schema.columns) * widest * (len(schema.label.classes or ()) or 1) > _MOST_CELLS:
        raise ProtocolError("The tables have too many columns and classes to be compared at once.")
    total: Integers = channel.sum(ask).counts
    told: Integers = np.where(total < FEWEST, 0, total)
    return ask, told


def _edges(binning: Binning) -> NDArray[np.float32]:
    edges = np.full((len(binning.edges), N_BINS), np.inf, np.float32)
    for place, own in enumerate(binning.edges):
        edges[place, : len(own)] = own[:N_BINS]
    return edges


def _rows(counts: Integers) -> Integers:
    rows: Integers = np.maximum(counts.sum(axis=(1, 2)), 1)
    return rows


def _words(
    kind: str, known: tuple[Integers, Integers], missing: tuple[float, float], shift: float
) -> str:
    """Say how a column differs, as far as histograms tell."""
    here, there = known
    if missing[0] > 0.95 and missing[1] < 0.5:
        return "nearly all cells are missing or not declared here: another list of codes?"
    if abs(missing[0] - missing[1]) > _MISSING_APART:
        return (
            f"missing or not declared in {100 * missing[0]:.0f} % of the rows here, in "
            f"{100 * missing[1]:.0f} % elsewhere"
        )
    if (here > 0).sum() == 1 and (there > 0).sum() > 1:
        return "nearly one value here, several elsewhere: a constant, or another unit?"
    return _shifted(shift) if kind == "number" else _RECODED


_RECODED: Final = "other values are common here: another meaning of the codes, or another column?"


def _shifted(shift: float) -> str:
    """Say how the numbers of a column differ, by the shift of their mean rank."""
    if abs(shift) > 0.4:
        side = "above" if shift > 0 else "below"
        return f"nearly all values lie {side} those of the others: another unit?"
    if abs(shift) > _LEAST_SHIFT:
        side = "larger" if shift > 0 else "smaller"
        return f"values are {side} here than elsewhere: another unit, a shift, or another column?"
    return "spread, or tied to the label, otherwise than elsewhere: another column?"


def compare_all(
    parties: Mapping[str, Party], ask: FitAsk, told: Integers
) -> dict[str, tuple[Standout, ...]]:
    """Let every party compare its own counts with the sums, and name who stands out most.

    Against a party with a fault all others look unlike the rest, but less so than that party.
    """
    found = {name: party.compare(ask, told) for name, party in parties.items()}
    most: dict[str, float] = {}
    for stands in found.values():
        for one in stands:
            most[one.column] = max(most.get(one.column, 0.0), one.distance)
    return {
        name: tuple(one for one in stands if one.distance >= _OF_MOST * most[one.column])
        for name, stands in found.items()
    }
