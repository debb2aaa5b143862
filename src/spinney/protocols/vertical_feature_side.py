"""A party without the labels when they are encrypted: it adds ciphertexts that it cannot read."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.errors import ProtocolError
from spinney.privacy.homomorphic import AdditiveHE, foreign_ciphertexts, of_public_key
from spinney.protocols.vertical_fields import Fields
from spinney.protocols.vertical_job import Job
from spinney.protocols.vertical_messages import Sealed
from spinney.protocols.vertical_rows import Growing
from spinney.protocols.vertical_sum_messages import CutAsk, SumsAsk, SumsReply
from spinney.trees._kernels.rows import ROW_MASK, WEIGHT_SHIFT
from spinney.trees.binning import BinnedTable
from spinney.trees.counts import Counts
from spinney.trees.dtypes import MISSING
from spinney.trees.frontier import Slots
from spinney.trees.own_columns import OwnNodes, OwnSplits, counted
from spinney.typing import Integers

_MULTIPLES = 3  # of each ciphertext that are kept: a row is drawn more often once in fifty


class FeatureSide:
    """The side that adds without the key."""

    def __init__(self, job: Job, sealed: Sealed) -> None:
        self._he: AdditiveHE = of_public_key(sealed.scheme, sealed.public_key)
        self._fields = Fields.of(job, sealed.field_bits, self._he.room)
        self._slots: Slots | None = None
        n = job.n_rows + 1
        if len(sealed.planes) != self._fields.n_planes:
            raise foreign_ciphertexts()
        self._n_rows = job.n_rows
        # Rows are drawn more than once; their ciphertexts are doubled and tripled beforehand.
        times = range(1, _MULTIPLES + 1 if job.settings.bootstrap else 2)
        groups = [[row] * time for time in times for row in range(job.n_rows)]
        groups.append([job.n_rows])
        self._zero = len(groups) - 1
        self._planes = [self._he.sums(self._he.load(data, n), groups) for data in sealed.planes]

    def sums(self, ask: SumsAsk, growing: Growing) -> SumsReply:
        """Return the encrypted label sums of every cell that holds rows."""
        slots = ask.offered.laid(growing.nodes)
        self._slots = slots
        columns, used = growing.nodes.columns, slots.feature >= 0
        n_open = growing.nodes.tree.size
        counts = np.zeros((0, 1), np.int64)
        groups: list[list[int]] = []
        if slots.n_cells:
            every = counted(growing.table, growing.nodes, slots, (0, n_open), 0)
            counts = every.reshape(-1, 2)[:, :1]
            groups = list(_groups(growing.table, growing.nodes, slots, self._n_rows))
        per = self._fields.cells_in_one(len(groups))
        groups += [[self._zero]] * (-len(groups) % per)
        width = self._fields.width
        sums = tuple(
            self._he.dump(
                self._he.refreshed(
                    self._he.packed(self._he.sums(plane, groups), len(groups), width, per)
                )
            )
            for plane in self._planes
            if groups
        )
        return SumsReply(
            False,
            self._he.key_id,
            slots.cells[used],
            columns.is_category[slots.feature[used]],
            columns.has_missing[slots.feature[used]],
            Counts(counts.astype(np.int32), np.cumsum(slots.cells[used], dtype=np.int64)),
            sums,
        )

    def cuts(self, ask: CutAsk) -> OwnSplits | None:
        """Return chosen cuts in own bins; None if the party must start again."""
        slots = self._slots
        if slots is None:
            return None
        same = {ask.node.size, ask.slot.size, ask.cut.size, ask.missing_left.size, len(ask.bin_set)}
        at = (ask.node, ask.slot.astype(np.int64))
        if len(same) != 1 or not _are_within(at, slots.feature) or np.any(slots.feature[at] < 0):
            raise ProtocolError("The question chooses columns that were not offered.")
        if np.any(ask.cut.astype(np.int64) >= slots.cells[at]):
            raise ProtocolError("The question chooses cells that are not there.")
        cut = ((ask.cut.astype(np.int64) + 1) << slots.shift[at]) - 1 - slots.add[at]
        return OwnSplits(
            ask.node,
            slots.feature[at],
            np.minimum(cut, 254).astype(np.uint8),
            ask.missing_left,
            ask.bin_set,
            np.zeros(ask.node.size),
        )


def _are_within(at: tuple[Integers, Integers], places: NDArray[Any]) -> bool:
    node, slot = at
    if not node.size:
        return True
    return bool(
        node.min() >= 0
        and node.max() < len(places)
        and slot.min() >= 0
        and slot.max() < places.shape[1]
        and np.all(node[1:] > node[:-1])
    )


def _groups(table: BinnedTable, nodes: OwnNodes, slots: Slots, n_rows: int) -> Iterator[list[int]]:
    """Give for every cell that holds rows the places of their ciphertexts."""
    held = nodes.standing
    for node in range(nodes.tree.size):
        parts = [
            (block, held.entries[held.starts[node, block] : held.ends[node, block]])
            for block in range(held.starts.shape[1])
        ]
        places = [_places(table, block, entries) for block, entries in parts]
        at = np.concatenate([first for first, _ in places])
        height = np.concatenate([second for _, second in places])
        row = np.concatenate(
            [table.block_start[block] + (e & ROW_MASK).astype(np.int64) for block, e in parts]
        )
        weight = np.concatenate([(e >> WEIGHT_SHIFT).astype(np.int64) for _, e in parts])
        entry, cipher = _ciphertexts(row, weight, n_rows)
        for slot in np.flatnonzero(slots.feature[node] >= 0):
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
    """Return where a row's first cell is among the table's, and how far the next column's."""
    start = table.block_start[block]
    at = start * table.n_columns + (entries & ROW_MASK).astype(np.int64)
    return at, np.full(entries.size, table.block_start[block + 1] - start)


def _ciphertexts(row: Integers, weight: Integers, n_rows: int) -> tuple[Integers, Integers]:
    """Return which ciphertexts add up to each row as often as it is drawn, and whose they are."""
    whole, rest = np.divmod(weight, _MULTIPLES)
    entry = np.repeat(np.arange(row.size), whole)
    some = np.flatnonzero(rest)
    cipher = (_MULTIPLES - 1) * n_rows + row[entry]
    return np.r_[entry, some], np.r_[cipher, (rest[some] - 1) * n_rows + row[some]]


def behind_sums() -> SumsReply:
    """Return the reply of a party that must start again."""
    none = np.zeros(0, np.bool_)
    nothing = Counts(np.zeros((0, 1), np.int32), np.zeros(0, np.int64))
    return SumsReply(True, "", np.zeros(0, np.int32), none, none, nothing, ())
