"""The encrypted sums of cells, at a party without the key.

Of two siblings whose cells are those of their parent, only the lighter one's ciphertexts are added
up; the other's sums are the parent's minus the sibling's. The label party opens the same numbers
either way: sums are refreshed before they leave.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.privacy.homomorphic import AdditiveHE, Ciphertexts
from spinney.protocols.columns.growing import Growing
from spinney.trees.binning import BinnedTable
from spinney.trees.boosted_columns import OwnKin
from spinney.trees.dtypes import MISSING
from spinney.trees.frontier import Slots
from spinney.trees.rows import rows_of_entries
from spinney.typing import Bools, Integers

_MOST_KEPT = 200_000  # cells of a level that are kept for the next: some 60 MB
_DIRECT: Integers = np.zeros((0, 4), np.int64)  # all cells are added up from rows


@dataclass(frozen=True)
class _Above:
    """The sums of the newest level."""

    depth: int
    slots: Slots
    planes: list[list[Any]]  # one ciphertext for each cell; None where there are no rows


class CellSums:
    """Sums of the ciphertexts of one batch of trees, level by level."""

    def __init__(self, he: AdditiveHE, planes: Sequence[Ciphertexts]) -> None:
        self._he = he
        self._planes = planes
        self._above: _Above | None = None

    def of_level(self, growing: Growing, slots: Slots, counts: Integers) -> list[list[Any]]:
        """Return the sums of every cell that holds rows, plane by plane."""
        runs = self._derived_runs(growing.kin(slots), growing.depth, slots)
        counted = np.ones(slots.n_cells, np.bool_)
        for first, _, _, n in runs.tolist():
            counted[first : first + n] = False
        places = np.flatnonzero(counted & (counts > 0)).tolist()
        planes = []
        for number, plane in enumerate(self._planes):
            cells: list[Any] = [None] * slots.n_cells
            groups = _groups(growing, slots, counted)
            for place, total in zip(places, self._he.sums(plane, groups), strict=True):
                cells[place] = total
            if len(runs) and self._above is not None:
                self._derive(runs, counts, self._above.planes[number], cells)
            planes.append(cells)
        is_kept = slots.n_cells <= _MOST_KEPT
        self._above = _Above(growing.depth, slots, planes) if is_kept else None
        held = np.flatnonzero(counts > 0).tolist()
        return [[cells[place] for place in held] for cells in planes]

    def _derive(self, runs: Integers, counts: Integers, above: list[Any], cells: list[Any]) -> None:
        """Fill in the cells of heavier siblings: those of their parents minus the lighter's."""
        places, whole, part = [], [], []
        for own, beside, over, n in runs.tolist():
            for cell in range(n):
                if not counts[own + cell]:
                    continue
                if cells[beside + cell] is None:  # the sibling has no rows there
                    cells[own + cell] = above[over + cell]
                    continue
                places.append(own + cell)
                whole.append(above[over + cell])
                part.append(cells[beside + cell])
        for place, rest in zip(places, self._he.differences(whole, part), strict=True):
            cells[place] = rest

    def _derived_runs(self, kin: OwnKin | None, depth: int, slots: Slots) -> Integers:
        """Return runs of derived cells, (n, 4): the first, the sibling's, the parent's, the length.

        A column whose cells are not those of the parent is added up from rows.
        """
        above = self._above
        if kin is None or above is None or above.depth != depth - 1:
            return _DIRECT
        runs = []
        for node in np.flatnonzero(kin.derived).tolist():
            parent = int(kin.parent[node])
            has_next = node + 1 < kin.parent.size and kin.parent[node + 1] == parent
            sibling = node + 1 if has_next else node - 1
            for slot in np.flatnonzero(slots.feature[node] >= 0).tolist():
                column = slots.feature[node, slot]
                beside = np.flatnonzero(slots.feature[sibling] == column)
                over = np.flatnonzero(above.slots.feature[parent] == column)
                if column == kin.parent_cut[node] or not (beside.size and over.size):
                    continue
                laid = _layout(slots, node, slot)
                if (
                    laid
                    == _layout(slots, sibling, beside[0])
                    == _layout(above.slots, parent, over[0])
                ):
                    offsets = (slots.offset[node, slot], slots.offset[sibling, beside[0]])
                    runs.append((*offsets, above.slots.offset[parent, over[0]], laid[0]))
        return np.array(runs, np.int64).reshape(-1, 4)


def _layout(slots: Slots, node: int, slot: int) -> tuple[int, int, int]:
    """Return how a slot's cells lie over the bins."""
    at = (node, slot)
    return int(slots.cells[at]), int(slots.add[at]), int(slots.shift[at])


def _groups(growing: Growing, slots: Slots, counted: Bools) -> Iterator[list[int]]:
    """Yield the places of the ciphertexts for every counted cell that holds rows."""
    table, nodes = growing.table, growing.nodes
    held = nodes.standing
    for node in range(nodes.tree.size):
        used = [
            slot
            for slot in np.flatnonzero(slots.feature[node] >= 0).tolist()
            if counted[slots.offset[node, slot]]
        ]
        if not used:
            continue
        parts = [
            (block, held.entries[held.starts[node, block] : held.ends[node, block]])
            for block in range(held.starts.shape[1])
        ]
        places = [_places(table, block, entries) for block, entries in parts]
        at = np.concatenate([first for first, _ in places])
        height = np.concatenate([second for _, second in places])
        row = np.concatenate(
            [table.block_start[block] + rows_of_entries(e)[0] for block, e in parts]
        )
        weight = np.concatenate([rows_of_entries(e)[1] for _, e in parts])
        entry, cipher = growing.ciphertexts(node, row, weight)
        for slot in used:
            code = table.codes[at + height * slots.feature[node, slot]].astype(np.int64)
            cell = (code + slots.add[node, slot]) >> slots.shift[node, slot]
            cell = np.where(code == MISSING, slots.cells[node, slot] - 1, cell)[entry]
            order = np.argsort(cell, kind="stable")
            sizes = np.bincount(cell, minlength=int(slots.cells[node, slot]))
            ordered, end = cipher[order].tolist(), np.cumsum(sizes)
            for size, last in zip(sizes.tolist(), end.tolist(), strict=True):
                if size:
                    yield ordered[last - size : last]


def _places(
    table: BinnedTable, block: int, entries: NDArray[np.uint32]
) -> tuple[Integers, Integers]:
    """Return the place of each row's first cell in the table, and the stride between columns."""
    start = table.block_start[block]
    at = start * table.n_columns + rows_of_entries(entries)[0]
    return at, np.full(entries.size, table.block_start[block + 1] - start)
