"""What the sums told while a forest grew: to its coordinator, and to every party that checks them.

A node in whose histograms a class has one row shows the cell of that row in every column that the
node drew; the other cells are guessed as a reader of the model does. In a job with noise no count
is exact, so that none singles out a row.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.audit.guesses import Truth
from spinney.audit.reconstruction import (
    guess_rows,
    isolating_leaves,
    sample_of,
    structures_told,
)
from spinney.audit.rehearsal import Rehearsal, Sides
from spinney.audit.shares import share_of
from spinney.audit.told import counts_told
from spinney.protocols.horizontal_forest.messages import LevelAsk
from spinney.protocols.model import ForestModel
from spinney.protocols.rows.levels import BinnedRows
from spinney.protocols.training import Training
from spinney.report.audited import Rebuilt
from spinney.tables.table import MemoryTable
from spinney.transport.channel import Answering, Ask
from spinney.trees.binning import Binning
from spinney.trees.rows import Standing, rows_of_entries
from spinney.typing import Floats, Integers

COORDINATOR, PARTY = "the coordinator", "another party"


@dataclass
class Heard:
    """Every question about nodes, with the rows that stood in them."""

    asks: dict[tuple[int, int], LevelAsk] = field(default_factory=dict)
    rows: dict[tuple[int, int], list[tuple[Integers, Integers, Integers]]] = field(
        default_factory=dict
    )  # (depth, first node) -> node, class and row of each party's rows


class _Listening:
    """A party's side; the rows that its sums are about are noted beside it."""

    def __init__(self, side: Answering, table: MemoryTable, first: int, heard: Heard) -> None:
        self._side = side
        self._rows = BinnedRows(table, 1)
        self._first = first  # where its rows begin among those of all parties
        self._heard = heard

    def answer(self, ask: Ask[Any]) -> Any:
        """Answer a question."""
        if isinstance(ask, LevelAsk):
            place = (len(ask.levels), ask.first)
            self._heard.asks.setdefault(place, ask)
            self._heard.rows.setdefault(place, []).append(self._standing(ask))
        return self._side.answer(ask)

    def _standing(self, ask: LevelAsk) -> tuple[Integers, Integers, Integers]:
        table = self._rows.binned(ask.job)
        node, row = _entries(self._rows.standing(ask), ask.first, ask.last, table.block_start)
        label = table.classes[row].astype(np.int64) if table.classes.size else np.zeros_like(row)
        return node, label, row + self._first


def _entries(
    standing: Standing, first: int, last: int, block_start: Integers
) -> tuple[Integers, Integers]:
    """Return the node and the row of each entry of a range of nodes."""
    starts, ends = standing.starts[first:last], standing.ends[first:last]
    lengths = (ends - starts).ravel()
    n_blocks = starts.shape[1]
    of_segment = np.repeat(np.arange(lengths.size), lengths)
    within = np.arange(of_segment.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    rows, _ = rows_of_entries(standing.entries[starts.ravel()[of_segment] + within])
    return of_segment // n_blocks, rows + block_start[of_segment % n_blocks]


def listen(rehearsal: Rehearsal) -> tuple[Training, Heard]:
    """Grow the forest once more, and note what its sums are about."""
    heard = Heard()

    def watch(sides: Sides) -> Sides:
        found: Sides = {}
        first = 0
        for name, table in rehearsal.tables.items():
            found[name] = _Listening(sides[name], table, first, heard)
            first += table.n_rows
        return found

    return rehearsal.train(watch), heard


def rebuild_from_sums(
    model: ForestModel, rehearsal: Rehearsal, heard: Heard, *, views: tuple[str, ...]
) -> tuple[Rebuilt, ...]:
    """Return what the sums show of the training rows, to each view that has all of them."""
    told = counts_told(model, is_noisy=rehearsal.is_private)
    structures = structures_told(model, told)
    cells = model.rows(rehearsal.rows.values)
    where = isolating_leaves(model, rehearsal, cells, told)
    alone = np.flatnonzero(where >= 0)
    isolated = share_of(alone.size, len(cells))
    if not alone.size:
        return tuple(Rebuilt(view, structures, isolated) for view in views)
    truth, chosen = Truth.of(model, rehearsal), sample_of(alone)
    guess, width = np.tile(truth.typical, (len(cells), 1)), np.full(cells.shape, np.inf)
    guess[chosen] = guess_rows(model, rehearsal, truth, where, chosen, told=told)
    for place, ask in heard.asks.items():
        _read(ask, heard.rows[place], truth, guess, width)
    found = truth.judged(chosen, guess[chosen])
    blind = truth.judged(chosen, np.broadcast_to(truth.typical, guess[chosen].shape))
    shown = (found.cells, blind.cells.share, found.error, blind.error)
    return tuple(Rebuilt(view, structures, isolated, *shown) for view in views)


def _read(
    ask: LevelAsk,
    standing: list[tuple[Integers, Integers, Integers]],
    truth: Truth,
    guess: Floats,
    width: Floats,
) -> None:
    """Read the cells of rows that are alone in their class, where they are narrower than before."""
    node, label, row = (np.concatenate(parts) for parts in zip(*standing, strict=True))
    width_of = max(ask.job.n_classes, 1)
    key = node * width_of + label
    is_alone = np.bincount(key, minlength=1)[key] == 1
    slots = ask.frontier.slots.part(ask.first, ask.last)
    read = _Cells(ask.job.binning, truth)
    for here, found in zip(node[is_alone].tolist(), row[is_alone].tolist(), strict=True):
        for slot in np.flatnonzero(slots.feature[here] >= 0).tolist():
            column = int(slots.feature[here, slot])
            middle, span = read.cell(
                column,
                truth.cells[found, column],
                int(slots.add[here, slot]),
                int(slots.shift[here, slot]),
            )
            if span < width[found, column]:
                guess[found, column], width[found, column] = middle, span


class _Cells:
    """What a counted cell says about the value in it."""

    def __init__(self, binning: Binning, truth: Truth) -> None:
        self._edges: list[NDArray[np.float64]] = [
            np.concatenate([[-np.inf], edges.astype(np.float64), [np.inf]])
            for edges in binning.edges
        ]
        self._truth = truth

    def cell(self, column: int, value: float, add: int, shift: int) -> tuple[float, float]:
        """Return the known value in the middle of a value's cell, and the width of the cell."""
        truth = self._truth
        if np.isnan(value):
            return np.nan, np.inf
        if truth.is_category[column]:  # every category has a cell of its own
            return value, 0.0
        edges = self._edges[column]
        code = int(np.searchsorted(edges[1:-1], value, side="left"))
        cell = (code + add) >> shift
        first = max((cell << shift) - add, 0)
        last = max(min(((cell + 1) << shift) - 1 - add, edges.size - 2), first)
        known = truth.known[column]
        inside = known[(known > edges[first]) & (known <= edges[last + 1])]
        low = max(edges[first], truth.low[column])
        high = max(min(edges[last + 1], truth.high[column]), low)
        middle = inside[(inside.size - 1) // 2] if inside.size else (low + high) / 2
        return float(middle), float(high - low)


def views_of(rehearsal: Rehearsal) -> tuple[str, ...]:
    """Return who sees the job's sums."""
    seen: list[str] = []
    if not rehearsal.running.is_blind:
        seen.append(COORDINATOR)
    is_told = rehearsal.running.protocol.is_verified(rehearsal.settings)
    if is_told and len(rehearsal.tables) > 1:
        seen.append(PARTY)
    return tuple(seen)
