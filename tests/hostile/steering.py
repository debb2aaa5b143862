"""A party that lies about its own counts, so that the splits single out the others' rows.

The coordinator follows the protocol and shares what it sees with the liar: no check of sums finds
them. The liar adds rows that it does not have, far more than the others have, to every reply. They
separate perfectly at the cut that it wants, and nowhere else, so that every party derives this cut.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hostile.cheats import Run, tables_for  # type: ignore[import-not-found]
from spinney import HorizontalForestClassifier
from spinney.protocols import horizontal_forest
from spinney.protocols.horizontal_forest.messages import LevelAsk
from spinney.protocols.rows.facts import FactsReply
from spinney.protocols.rows.setup import CountsReply, FactsAsk
from spinney.trees.counts import Counts
from spinney.trees.rows import rows_of_entries

LIAR = "c"
_MANY, _SOME = 100_000, 500  # invented rows of a node: on their side of the cut, and on the other


class Liar:
    """Steers every tree: each node is cut in the middle of a column that has many bins left."""

    def __init__(self, side: Any, seed: int = 0) -> None:
        self._side = side
        self._random = np.random.default_rng(seed)

    def answer(self, ask: Any) -> Any:
        """Answer with counts that are not its own."""
        reply = self._side.answer(ask)
        if isinstance(ask, FactsAsk):  # so that invented counts fit the fields of masked sums
            n_rows, classes = reply.n_rows + 2_000_000, reply.classes + 1_000_000
            return FactsReply(n_rows, classes, reply.missing, reply.categories, reply.leading)
        return self._steered(ask, reply) if isinstance(ask, LevelAsk) else reply

    def _steered(self, ask: LevelAsk, reply: CountsReply) -> CountsReply:
        counters, slots = reply.counts.counters.copy(), ask.slots
        for node in range(len(slots.feature)):
            has_cut = (slots.feature[node] >= 0) & (slots.cells[node] > 1)
            chosen, cut = self._choice(np.where(has_cut, slots.cells[node], 0))
            for slot in np.flatnonzero(slots.feature[node] >= 0):
                at = int(slots.offset[node, slot])
                left, right = (at + cut, at + cut + 1) if slot == chosen else (at, at)
                counters[left] += (_MANY, _SOME)
                counters[right] += (_SOME, _MANY)
        return CountsReply(Counts(counters, reply.counts.run_ends))

    def _choice(self, cells: Any) -> tuple[int, int]:
        """Return the slot and the cell after which it is cut; -1 if there is nothing to cut."""
        if not cells.any():
            return -1, 0
        weight = np.log2(np.maximum(cells, 1))
        slot = int(self._random.choice(cells.size, p=weight / weight.sum()))
        return slot, int(cells[slot]) // 2 - 1


@dataclass
class OpenedNode:
    """What a node's histograms are about: rows of the honest parties, by class."""

    parent: int
    rows: list[set[tuple[str, int]]]
    columns: set[int] = field(default_factory=set)  # counted to the very bin


class Watched:
    """An honest side; what it lets be counted is noted for the measurement."""

    def __init__(self, side: Any, name: str, opened: dict[tuple[int, int], OpenedNode]) -> None:
        self._side, self._name, self._opened = side, name, opened

    def answer(self, ask: Any) -> Any:
        """Answer truly."""
        reply = self._side.answer(ask)
        if isinstance(ask, LevelAsk):
            self._note(ask)
        return reply

    def _note(self, ask: LevelAsk) -> None:
        rows = self._side._counting._rows
        standing, table, slots = rows.standing(ask), rows.binned(ask.job), ask.slots
        is_in = rows.is_in(ask)
        for node in range(ask.first, ask.last):
            place = node - ask.first
            key = (len(ask.levels), node)
            if key not in self._opened:
                exact = (slots.feature[place] >= 0) & (slots.shift[place] == 0)
                columns = set(slots.feature[place][exact].tolist())
                parent = int(ask.frontier.parent[node])
                self._opened[key] = OpenedNode(
                    parent, [set() for _ in range(ask.job.n_classes)], columns
                )
            if is_in is not None and not is_in[place]:
                continue
            for block, base in enumerate(table.block_start[:-1]):
                own = slice(standing.starts[node, block], standing.ends[node, block])
                for row in rows_of_entries(standing.entries[own])[0] + base:
                    label = int(table.classes[row])
                    self._opened[key].rows[label].add((self._name, int(row)))


@dataclass(frozen=True)
class Loot:
    """What the liar and the coordinator know of the honest parties' rows."""

    n_rows: int
    n_cells: int
    alone: set[tuple[str, int]]  # rows that are alone in their class, in a node's histograms
    subtracted: set[tuple[str, int]]  # or once a node's children are subtracted from it
    cells: set[tuple[str, int, int]]  # cells of these rows that are known to their bin

    @property
    def shares(self) -> tuple[float, float, float]:
        """The share of rows alone, of rows alone or subtracted, and of cells read."""
        known = self.alone | self.subtracted
        return (
            len(self.alone) / self.n_rows,
            len(known) / self.n_rows,
            len(self.cells) / self.n_cells,
        )


def loot_of(opened: dict[tuple[int, int], OpenedNode], n_rows: int, n_columns: int) -> Loot:
    """Return who stands alone.

    The nodes of a tree are nested, so that whatever their histograms tell together follows from
    each node's own, less those of its open children.
    """
    alone: set[tuple[str, int]] = set()
    subtracted: set[tuple[str, int]] = set()
    cells: set[tuple[str, int, int]] = set()
    below: dict[tuple[int, int], list[OpenedNode]] = {}
    for (depth, _), node in opened.items():
        below.setdefault((depth - 1, node.parent), []).append(node)
    for key, node in opened.items():
        children = below.get(key, [])
        columns = node.columns.intersection(*(child.columns for child in children))
        for label, rows in enumerate(node.rows):
            left = rows.difference(*(child.rows[label] for child in children))
            for found, known, told in ((rows, alone, node.columns), (left, subtracted, columns)):
                if len(found) == 1:
                    known.update(found)
                    ((party, row),) = found
                    cells |= {(party, row, column) for column in told}
    return Loot(n_rows, n_rows * n_columns, alone, subtracted, cells)


def honest_rows(n_rows: int = 1500, n_columns: int = 8, seed: int = 3) -> tuple[Any, Any]:
    """Return rows of which a third is the liar's, as in the attack on growth without checks."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, n_columns))
    y = (X[:, 0] + X[:, 1] * random.normal(size=n_rows) > 0).astype(int)
    return X, y


def steer(min_own_rows: int, *, is_masked: bool = False, **changes: Any) -> tuple[Loot, Any]:
    """Play the attack; return what it gets, and the training."""
    X, y = honest_rows()
    tables = tables_for(HorizontalForestClassifier(), X, y)
    facts: dict[str, Any] = {
        "n_estimators": 20,
        "max_depth": 12,
        "min_samples_leaf": 20,
        "max_features": X.shape[1] - 1,  # with all of them, siblings would be derived
        "max_bins": 64,
        "max_cells": 64,
        "seed": 1,
    }
    job = horizontal_forest.Settings(task="classification", criterion="gini", **(facts | changes))
    opened: dict[tuple[int, int], OpenedNode] = {}
    sides: dict[str, Any] = {}
    for name, table in tables.items():
        own = 0 if name == LIAR else min_own_rows
        side = horizontal_forest.Party(table, is_masked=is_masked, min_own_rows=own)
        sides[name] = Liar(side) if name == LIAR else Watched(side, name, opened)
    run = Run("horizontal_forest", tables, job, sides=sides, is_masked=is_masked)
    training = run.trained()
    n_rows = sum(table.n_rows for name, table in tables.items() if name != LIAR)
    return loot_of(opened, n_rows, X.shape[1]), training
