"""Do the parties' tables fit? A question before a job, from histograms that are summed.

A unit that differs by a factor, another list of codes, two columns swapped, a column that is
constant at one party: each makes that party's histogram unlike that of all others. The parties sum
histograms by class; each compares its own counts with what the others have together, and tells
which of its columns stand out.

Does a row stand at two parties? The parties sum sketches of their rows' ids, with noise, and each
tells about how many of its ids stand at others; see `privacy.id_overlap`.

No exact count leaves a party: each is rounded to a multiple of `ROUNDED_TO`, up or down by chance,
so that it is right on average; one row changes what is told in one case of five. The draws follow
from a secret of the party and from the cells that are counted, whatever the question says of other
columns or classes: asking again averages nothing away. Bins that overlap are other cells with draws
of their own, and differences of many such bins would tell a count. Others choose bins only by lies
about where their numbers lie, one check each; a party divides its rows in `MOST_LAYOUTS` ways, two
a check, and in no more. What it tells about itself it computes from its rounded counts, too.

**Who learns what.** The coordinator and the parties learn each party's schema (`rows.setup`). The
parties learn, summed over all of them and rounded, about where numbers lie, first by their leading
bits and then on a finer grid, and how many rows of each class are in each of a few bins and
categories, or have no value. They learn the sum of noisy sketches of the rows' ids. The
coordinator, and whoever asked, learn which columns stand out at which party, how far, in which way,
and the share of missing values there; about how many of a party's ids stand at others, with noise,
how far off that may be, which tells the number of its ids to two binary digits, and whether it has
ids at all. **Who never learns what.** A deployed coordinator sees no sum. Under masks nobody learns
one party's counts, but of two parties each learns the other's, rounded. Whoever has a list of ids
cannot ask who is at another party: a guess about one id that a coin gets right half the time is
right in at most 60 % of cases, and in 71 % after all that a party ever answers, whatever all others
send. Nothing here is paid for by an epsilon, since the counts are only rounded: a private job does
not ask it.

Rounds: 4. Up: 8 bytes for each of 4,096 parts of each column, then less; 0.5 MB for the ids.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from spinney.errors import PolicyError, ProtocolError
from spinney.privacy.id_overlap import MOST_ANSWERS, N_CELLS, Memory, NoMemory, OwnIds
from spinney.privacy.sticky import draw_sticky
from spinney.protocols.rows.setup import SchemaAsk, agree_on_schema, answer_setup, require_schema
from spinney.seeds import mix
from spinney.tables.schema import Column, Schema
from spinney.tables.table import Table, hashes_of_ids
from spinney.transport.channel import Ask, Channel, Vector
from spinney.transport.messages import message
from spinney.trees.drift import distances, places_apart
from spinney.trees.magnitudes import magnitude_edges
from spinney.trees.quantiles import LEAD_BITS, leading_parts
from spinney.typing import Integers, Keys

NAME = "checking tables"
N_BINS: Final = 12
ROUNDED_TO: Final = 5
MOST_LAYOUTS: Final = 24
_N_FINE: Final = 256  # parts of a column from which its bins are made
_MOST_CATEGORIES: Final = 64  # more of them share bins
_LEAST: Final = 0.06  # beyond chance; a smaller distance is no fault, however many rows show it
_LEAST_SHIFT: Final = 0.08  # of the mean rank
_MISSING_APART: Final = 0.15
_OF_MOST: Final = 0.6
_MOST_CELLS: Final = 1 << 24
_EVERYWHERE: Final = (-float(np.finfo(np.float32).max), float(np.finfo(np.float32).max))
_NO_EDGES: Final = np.zeros((0, 0), np.float32)
Edges = NDArray[np.float32]


@message
class FitReply:
    """Rows of one party, or of all, rounded: by column, part and class; the last is "missing"."""

    counts: Integers  # flat

    def vectors(self) -> tuple[Vector, ...]:
        """Return its integers."""
        return (self.counts,)

    @classmethod
    def of_vectors(cls, vectors: tuple[Vector, ...]) -> "FitReply":
        """Return the reply with these integers."""
        return cls(*vectors)


@message
class PlacesAsk(Ask[FitReply]):
    """About where do your numbers lie? (By the leading bits of each, then on a finer grid.)"""

    schema_digest: str
    edges: Edges  # (n_columns, _N_FINE - 1) of the grid; empty: by leading bits
    reveals: ClassVar[str] = "about where numbers lie, in counts rounded to fives"
    reply_type: ClassVar[type[Any]] = FitReply


@message
class FitAsk(Ask[FitReply]):
    """How many of your rows of each class are in each bin?"""

    schema_digest: str
    edges: Edges  # (n_columns, N_BINS - 1), padded with infinity; unused for categories
    reveals: ClassVar[str] = "rows by class in a few bins of each column, rounded to fives"
    reply_type: ClassVar[type[Any]] = FitReply


@message
class IdsReply:
    """The sketch of one party's ids, or the sum of all parties'."""

    cells: Integers

    def vectors(self) -> tuple[Vector, ...]:
        """Return its integers."""
        return (self.cells,)

    @classmethod
    def of_vectors(cls, vectors: tuple[Vector, ...]) -> "IdsReply":
        """Return the reply with these integers."""
        return cls(*vectors)


@message
class IdsAsk(Ask[IdsReply]):
    """Which ids do your rows have? (As a sketch with noise; zeros if they have none.)"""

    schema_digest: str
    reveals: ClassVar[str] = "about how many ids stand at two parties, from sketches with noise"
    reply_type: ClassVar[type[Any]] = IdsReply


SUMMED: tuple[type[Ask[Any]], ...] = (PlacesAsk, FitAsk, IdsAsk)
ASKS: tuple[type[Ask[Any]], ...] = (SchemaAsk, *SUMMED)


@message
class Standout:
    """A column that is unlike the other parties'."""

    column: str
    distance: float  # 0: as elsewhere; 1: nothing in common
    what: str  # in words


@message
class IdsElsewhere:
    """About how many ids of a party stand at others, or why it cannot tell."""

    about: int  # an id once for each other party that has it
    error: int  # the standard deviation of that
    why: str  # empty if it can tell


@dataclass(frozen=True)
class Told:
    """What all parties have together, and the question that it answers."""

    ask: FitAsk
    counts: Integers
    ids: Integers  # the sum of the sketches


class Party:
    """One organisation's side: it counts, and compares its counts with the sums.

    Parameters
    ----------
    table
        Its rows.
    secret
        What decides the rounding and the noise; whoever knew it could narrow the counts.
    memory
        What remembers which sketches of ids have left, and how rows were divided.
    data
        The name of the rows in that memory.
    """

    def __init__(
        self,
        table: Table,
        secret: bytes,
        *,
        memory: Memory | None = None,
        data: str = "",
        n_threads: int = 1,
    ) -> None:
        self._table = table
        self._secret = secret
        self._memory = memory or NoMemory()
        self._data = data
        self._n_threads = n_threads

    def answer(self, ask: Ask[Any]) -> Any:
        """Answer a question."""
        match ask:
            case SchemaAsk():
                return answer_setup(ask, self._table, self._n_threads)
            case PlacesAsk() | FitAsk():
                require_schema(self._table, ask.schema_digest)
                self._require_known_layout(ask)
                return FitReply(self._counted(ask).ravel())
            case IdsAsk():
                require_schema(self._table, ask.schema_digest)
                sketch = None if self._ids is None else self._ids.sketch()
                return IdsReply(np.zeros(N_CELLS, np.int64) if sketch is None else sketch)
        raise ProtocolError(f"A party in {NAME} does not answer {type(ask).__name__}.")

    def compare(self, told: Told, n_parties: int) -> tuple[Standout, ...]:
        """Return the columns in which this party is unlike all others together."""
        own = self._counted(told.ask)  # rounded: what is told follows from what has left
        rest = np.maximum(told.counts.reshape(own.shape) - own, 0)
        if not rest.any():
            return ()
        schema = self._table.schema
        noise = rounding_variance(own, 1), rounding_variance(rest, n_parties - 1)
        apart, chance = distances(own, rest, noise)
        n_own, n_rest = _rows(own), _rows(rest)
        missing = own[:, -1].sum(axis=1) / n_own, rest[:, -1].sum(axis=1) / n_rest
        gaps, errors = places_apart(own, rest, noise)
        found = []
        for place, column in enumerate(schema.columns):
            here, there = float(missing[0][place]), float(missing[1][place])
            gap = abs(here - there)
            is_gap = gap > _MISSING_APART and gap > 4 / np.sqrt(n_own[place])
            shift = float(gaps[place]) if column.kind == "number" else 0.0
            is_shift = abs(shift) > _LEAST_SHIFT + 3.5 * errors[place]
            if apart[place] <= _LEAST + chance[place] and not is_gap and not is_shift:
                continue
            known = own[place, :-1].sum(axis=1), rest[place, :-1].sum(axis=1)
            words = _words(column.kind, known, (here, there), shift)
            found.append(Standout(column.name, round(float(apart[place]), 3), words))
        return tuple(found)

    def count_ids_elsewhere(self, told: Told, n_parties: int) -> IdsElsewhere:
        """Return about how many of this party's ids stand at other parties, too."""
        if self._ids is None:
            return IdsElsewhere(0, 0, "its table names no row_id")
        found = self._ids.count_elsewhere(told.ids, n_parties - 1)
        if found is None:
            why = f"it has answered about {MOST_ANSWERS} other states of the tables, and no more"
            return IdsElsewhere(0, 0, why)
        return IdsElsewhere(found.about, found.error, "")

    @cached_property
    def _ids(self) -> OwnIds | None:
        """The ids of the rows; None if they have none."""
        found = [batch.ids for batch in self._table.batches()]
        ids = [part for part in found if part is not None]
        if not ids:
            return None
        return OwnIds(np.concatenate(ids), self._secret, self._memory, self._data)

    def _require_known_layout(self, ask: PlacesAsk | FitAsk) -> None:
        """Raise if there were too many ways already to divide the rows; remember this one."""
        if not ask.edges.size:
            return  # leading bits are the same whoever asks
        counts, marks = self._exact(ask)
        digest = sha256(b"layout\0" + self._secret + marks.tobytes() + counts.tobytes()).hexdigest()
        names = (f"layout {number}" for number in range(MOST_LAYOUTS))
        run = f"tables of {self._data}"
        if not any(self._memory.settle(run, name, digest) == digest for name in names):
            raise PolicyError(
                f"This party has divided its rows into bins in {MOST_LAYOUTS} ways, and does so in "
                "no other: differences of such counts would tell exact ones. Compare the tables as "
                "before; or the party's operator names its data anew (data in [ledger])."
            )

    def _counted(self, ask: PlacesAsk | FitAsk) -> Integers:
        """Return counts as they leave: multiples of `ROUNDED_TO`, right on average."""
        counts, marks = self._exact(ask)
        key = sha256(b"rounding" + self._secret).digest()
        up = draw_sticky(key, marks, counts, ROUNDED_TO) < counts % ROUNDED_TO
        rounded: Integers = ROUNDED_TO * (counts // ROUNDED_TO + up)
        return rounded

    def _exact(self, ask: PlacesAsk | FitAsk) -> tuple[Integers, Keys]:
        """Return the exact counts, and a mark of the cells that are counted in each."""
        schema = self._table.schema
        n_columns = len(schema.columns)
        is_fine = isinstance(ask, PlacesAsk)
        is_leading = is_fine and not ask.edges.size
        n_parts = _N_FINE if is_fine else n_parts_of(schema)
        if is_leading:
            n_parts = 1 << LEAD_BITS
        elif ask.edges.shape != (n_columns, (_N_FINE if is_fine else N_BINS) - 1):
            raise ProtocolError("The question does not fit this party's table.")
        n_classes = 1 if is_fine else _n_classes(schema)
        counts = np.zeros((n_columns, (n_parts + 1) * n_classes), np.int64)
        marks = np.zeros(counts.shape, np.uint64)
        for batch in self._table.batches():
            classes: Integers | int = batch.target.astype(np.int64) if n_classes > 1 else 0
            for place, column in enumerate(schema.columns):
                values = batch.values[place]
                gone = np.isnan(values)
                if is_leading:
                    parts = leading_parts(values)
                elif column.kind == "category":
                    parts = np.where(gone, 0, values).astype(np.int64) % n_parts
                else:
                    parts = np.searchsorted(ask.edges[place], values).astype(np.int64)
                parts[gone] = n_parts
                flat: Integers = parts * n_classes + classes
                counts[place] += np.bincount(flat, minlength=counts.shape[1])
                np.add.at(marks[place], flat, marks_of(values, column))
        shape = (n_columns, n_parts + 1, n_classes)
        last = n_parts if is_leading else n_parts + 1  # leading bits leave out who has no value
        return counts.reshape(shape)[:, :last], marks.reshape(shape)[:, :last]


def marks_of(values: NDArray[np.float32], column: Column) -> Keys:
    """Return a mark of each cell of a column, which no schema changes: of a category, by its name.

    Else who asks could list the categories in another order, and get other draws.
    """
    if column.categories is None:
        return mix((values + np.float32(0)).view(np.uint32).astype(np.uint64))
    named = hashes_of_ids([*map(str, column.categories), ""])  # the last: no value
    return named[np.where(np.isnan(values), len(column.categories), values).astype(np.int64)]


def rounding_variance(counts: Integers, n_parties: int) -> NDArray[np.float64]:
    """Return about how far the rounding of these parties moves their sums: its variance by cell.

    A count c below `ROUNDED_TO` has the variance c (`ROUNDED_TO` - c); over all, a sixth of its
    square.
    """
    most = n_parties * ROUNDED_TO**2 / 6
    variance: NDArray[np.float64] = np.minimum(most, ROUNDED_TO * counts.astype(np.float64))
    return variance


def n_parts_of(schema: Schema) -> int:
    """Return how many bins a column has; more categories than that share them."""
    most = max((len(column.categories or ()) for column in schema.columns), default=0)
    return min(max(most, N_BINS), _MOST_CATEGORIES)


def _n_classes(schema: Schema) -> int:
    return len(schema.label.classes or ()) or 1


def ask_sums(channel: Channel) -> Told:
    """Find out where numbers lie, lay bins, and sum the parties' counts."""
    schema = agree_on_schema(channel)
    n_columns, digest = len(schema.columns), schema.digest()
    widest = max((n_parts_of(schema) + 1) * _n_classes(schema), 1 << LEAD_BITS)
    if n_columns * widest > _MOST_CELLS:
        raise ProtocolError("The tables have too many columns and classes to be compared at once.")
    leading = channel.sum(PlacesAsk(digest, _NO_EDGES)).counts.reshape(n_columns, -1)
    grid = np.full((n_columns, _N_FINE - 1), np.inf, np.float32)
    for place, column in enumerate(schema.columns):
        if column.kind == "number":
            found = magnitude_edges(leading[place], _EVERYWHERE, _N_FINE)
            grid[place, : len(found)] = found
    parts = channel.sum(PlacesAsk(digest, grid)).counts.reshape(n_columns, -1)
    ask = FitAsk(digest, _bins(schema, grid, parts[:, :-1]))
    counts = channel.sum(ask).counts
    return Told(ask, counts, channel.sum(IdsAsk(digest)).cells)


def _bins(schema: Schema, grid: Edges, parts: Integers) -> Edges:
    """Return bin edges on the grid, with about as many rows in each bin."""
    edges = np.full((len(grid), N_BINS - 1), np.inf, np.float32)
    for place, column in enumerate(schema.columns):
        if column.kind == "boolean":
            edges[place, 0] = 0.0
        elif column.kind == "number" and parts[place].any():
            ranks = np.cumsum(parts[place])
            wanted = ranks[-1] * np.arange(1, N_BINS) / N_BINS
            ends = np.append(grid[place], np.inf)[np.searchsorted(ranks, wanted)]
            found = np.unique(ends)
            edges[place, : len(found)] = found
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


def who_stands_out(
    found: Mapping[str, tuple[Standout, ...]],
) -> dict[str, tuple[Standout, ...]]:
    """Return what every party found, without what another party's fault explains.

    Against a party with a fault all others look unlike the rest, but less so than that party.
    """
    most: dict[str, float] = {}
    for stands in found.values():
        for one in stands:
            most[one.column] = max(most.get(one.column, 0.0), one.distance)
    return {
        name: tuple(one for one in stands if one.distance >= _OF_MOST * most[one.column])
        for name, stands in found.items()
    }
