"""Parties with encrypted labels: the label party keeps the key, the others add ciphertexts.

**Who learns what.** See `vertical_forest.encrypted_coordinator`.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from spinney.errors import ProtocolError
from spinney.privacy.homomorphic import (
    AdditiveHE,
    Ciphertexts,
    SecretHE,
    foreign_ciphertexts,
    unpack,
)
from spinney.privacy.schemes import new_key, of_public_key, of_secret_key, scheme_of
from spinney.protocols.vertical_forest.encrypted_messages import (
    ChooseAsk,
    ChooseReply,
    CutAsk,
    SealAsk,
    SealReply,
    SumsAsk,
    SumsReply,
    cuts_as_bytes,
)
from spinney.protocols.vertical_forest.fields import LabelFields
from spinney.protocols.vertical_forest.growing import Growing
from spinney.protocols.vertical_forest.job import Job, Target
from spinney.protocols.vertical_forest.messages import Sealed, SplitReply, behind_split
from spinney.protocols.vertical_forest.notebook import Notebook
from spinney.protocols.vertical_forest.seat import UNSIGNED, Seat, Signed, Unsigned
from spinney.protocols.vertical_forest.settings import NAME
from spinney.transport import codec
from spinney.trees.binning import BinnedTable
from spinney.trees.counts import Counts
from spinney.trees.dtypes import MISSING
from spinney.trees.frontier import ColumnCells, Slots
from spinney.trees.own_columns import OwnNodes, OwnSplits, best_of_slots, count_cells
from spinney.trees.partition import Partition
from spinney.trees.rows import rows_of_entries
from spinney.trees.split import BestSplits
from spinney.typing import Integers

LABELS, SUMS, CUTS = (
    "list of encrypted labels",
    "reply with sums",
    "choice of cuts",
)  # what is signed
ENDED = "ended"
_LOG = logging.getLogger("spinney.party")  # stays at the party
_MULTIPLES = 3  # stored multiples of each ciphertext: one row in fifty is drawn more often


class FeatureSide:
    """The side that adds ciphertexts without the key."""

    def __init__(self, job: Job, sealed: Sealed, seat: Seat | None) -> None:
        if seat is not None:  # whose key it is decides who can read the sums
            seat.check(seat.lead, sealed.signed, LABELS, *sealed.said(job.digest))
        self._seat = seat
        self._he: AdditiveHE = of_public_key(sealed.scheme, sealed.public_key)
        self._fields = LabelFields.of(job, sealed.field_bits, self._he.room)
        self._slots: Slots | None = None
        n = job.n_rows + 1
        if len(sealed.planes) != self._fields.n_planes:
            raise foreign_ciphertexts()
        self._n_rows = job.n_rows
        # Rows may be drawn more than once; their ciphertexts are doubled and tripled beforehand.
        times = range(1, _MULTIPLES + 1 if job.settings.bootstrap else 2)
        groups = [[row] * time for time in times for row in range(job.n_rows)]
        groups.append([job.n_rows])
        self._zero = len(groups) - 1
        self._planes = [self._he.sums(self._he.load(data, n), groups) for data in sealed.planes]

    def sums(self, ask: SumsAsk, growing: Growing) -> SumsReply:
        """Return the encrypted label sums of every cell that holds rows; the same once more."""
        growing.settle("offered", codec.encode(ask.offered))
        slots = ask.offered.laid(growing.nodes)
        self._slots = slots
        stored = growing.stored_reply("sums")
        if stored is not None:
            return codec.decode(stored, SumsReply)
        reply = self._added(slots, growing)
        if self._seat is not None:
            said = reply.said(ask.job, ask.depth, ask.offered.n_slots)
            reply = replace(reply, signed=self._seat.sign(SUMS, *said))
        growing.store_reply("sums", codec.encode(reply))
        return reply

    def _added(self, slots: Slots, growing: Growing) -> SumsReply:
        columns, used = growing.nodes.columns, slots.feature >= 0
        n_open = growing.nodes.tree.size
        counts = np.zeros((0, 1), np.int64)
        groups: list[list[int]] = []
        if slots.n_cells:
            every = count_cells(growing.table, growing.nodes, slots, (0, n_open), 0)
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
        """Return the chosen cuts in own bins; None if the party must start again."""
        slots = self._slots
        if slots is None:
            return None
        if self._seat is not None:
            chosen = cuts_as_bytes(ask.node, ask.slot, ask.cut, ask.missing_left, ask.bin_set)
            name = self._seat.name
            self._seat.check(self._seat.lead, ask.signed, CUTS, ask.job, ask.depth, name, *chosen)
        same = {ask.node.size, ask.slot.size, ask.cut.size, ask.missing_left.size, len(ask.bin_set)}
        at = (ask.node, ask.slot.astype(np.int64))
        if len(same) != 1 or not _are_within(at, slots.feature) or np.any(slots.feature[at] < 0):
            raise ProtocolError("The question chooses columns that were not offered.")
        if np.any(ask.cut.astype(np.int64) >= slots.cells[at]):
            raise ProtocolError("The question chooses cells that do not exist.")
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
    """Yield the places of the ciphertexts for every cell that holds rows."""
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
            [table.block_start[block] + rows_of_entries(e)[0] for block, e in parts]
        )
        weight = np.concatenate([rows_of_entries(e)[1] for _, e in parts])
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
    """Return the place of each row's first cell in the table, and the stride between columns."""
    start = table.block_start[block]
    at = start * table.n_columns + rows_of_entries(entries)[0]
    return at, np.full(entries.size, table.block_start[block + 1] - start)


def _ciphertexts(row: Integers, weight: Integers, n_rows: int) -> tuple[Integers, Integers]:
    """Return the ciphertexts that add up to each row times its weight, and the row of each."""
    whole, rest = np.divmod(weight, _MULTIPLES)
    entry = np.repeat(np.arange(row.size), whole)
    some = np.flatnonzero(rest)
    cipher = (_MULTIPLES - 1) * n_rows + row[entry]
    return np.r_[entry, some], np.r_[cipher, (rest[some] - 1) * n_rows + row[some]]


def ended() -> ProtocolError:
    """Return the one refusal of everything that is wrong with encrypted sums, and of all after."""
    return ProtocolError(
        "Encrypted sums do not fit this job. The label party has ended the job and erased its key. "
        "Nothing was released; start the job again as a new run."
    )


def behind_sums() -> SumsReply:
    """Return the reply of a party that must start again."""
    none = np.zeros(0, np.bool_)
    nothing = Counts(np.zeros((0, 1), np.int32), np.zeros(0, np.int64))
    return SumsReply(True, "", np.zeros(0, np.int32), none, none, nothing, ())


class _Kept(msgspec.Struct, frozen=True):
    """What the label party stores of its key."""

    scheme: str
    public: bytes
    secret: bytes
    planes: tuple[bytes, ...]
    field_bits: int


class LabelSide:
    """The side with the key."""

    def __init__(self, notebook: Notebook, seat: Seat | None) -> None:
        self._notebook = notebook
        self._seat = seat
        self._kept: tuple[str, SecretHE, Sealed] | None = None

    def sealed(self, ask: SealAsk, target: Target, tree_weight: int) -> Sealed:
        """Return the encrypted labels; they are encrypted once, however often asked for."""
        job = ask.job.digest
        if self._kept is None or self._kept[0] != job:
            note = self._notebook.note(job, "key")
            kept = self._read(job, note) if note else self._drawn(ask, target, tree_weight)
            self._kept = (job, *kept)
        return self._kept[2]

    def _drawn(self, ask: SealAsk, target: Target, weight: int) -> tuple[SecretHE, Sealed]:
        job = ask.job
        key = new_key(scheme_of(ask.scheme), ask.key_bits)
        bits = weight.bit_length() + (0 if job.n_classes else job.target_bits)
        fields = LabelFields.of(job, bits, key.room)
        planes = tuple(key.dump(key.encrypt(numbers)) for numbers in fields.planes(job, target))
        kept = _Kept(key.scheme, key.public_key, key.secret_key, planes, bits)
        self._notebook.keep_note(job.digest, "key", msgspec.msgpack.encode(kept))
        return key, self._signed(job.digest, kept)

    def _signed(self, job: str, kept: _Kept) -> Sealed:
        sealed = Sealed(kept.scheme, kept.public, kept.planes, kept.field_bits)
        if self._seat is None:
            return sealed
        return replace(sealed, signed=self._seat.sign(LABELS, *sealed.said(job)))

    def _read(self, job: str, note: bytes) -> tuple[SecretHE, Sealed]:
        kept = msgspec.msgpack.decode(note, type=_Kept)
        return of_secret_key(kept.scheme, kept.public, kept.secret), self._signed(job, kept)

    def choose(self, ask: ChooseAsk, growing: Growing) -> ChooseReply:
        """Return the best cut of each open node over all parties' columns.

        A level has one question: whatever else is asked is refused before anything is decrypted.
        The first sums that do not fit end the job, and the key is erased.
        """
        if self._kept is None or self._kept[0] != ask.job:
            note = self._notebook.note(ask.job, "key")  # the party was restarted meanwhile
            if note is None:
                raise ProtocolError("The label party has no key for this job. Start the job again.")
            self._kept = (ask.job, *self._read(ask.job, note))
        growing.settle("asked", codec.encode(ask))
        own = _own_candidates(growing, ask)
        try:
            found = [own, *self._candidates(growing, ask)]
        except Exception:  # noqa: BLE001  whatever is wrong with sums from outside is one failure
            self._burn(ask.job)
            raise ended() from None
        node = np.concatenate([one.node for one in found])
        place = np.concatenate([one.place for one in found])
        gain = np.concatenate([one.best.gain for one in found])
        # The best of each node: the largest gain; of equal gains, the first that was drawn.
        order = np.lexsort((place, -gain, node))
        first = order[np.flatnonzero(np.diff(node[order], prepend=-1))]
        chosen = self._chosen(growing, found, node[first], first)
        seal = growing.seal_of_children(np.flatnonzero(chosen.winner != -1), chosen.child_open)
        return replace(chosen, signed=self._signed_cuts(ask, chosen), seal=seal)

    def _burn(self, job: str) -> None:
        """End the job for good: a key that refused once would tell more by refusing again."""
        self._notebook.keep_note(NAME, ENDED, job.encode())
        self._notebook.erase_note(job, "key")
        self._kept = None
        _LOG.warning(
            "Encrypted sums did not fit the job. The job has ended here, and its key is erased. "
            "Somebody sent forged or damaged sums; ask who, before you run the job again."
        )

    def _signed_cuts(self, ask: ChooseAsk, chosen: ChooseReply) -> tuple[Signed, ...] | Unsigned:
        """Sign for each of the others which cuts it shall make."""
        seat = self._seat
        if seat is None:
            return UNSIGNED
        return tuple(
            seat.sign(CUTS, ask.job, ask.depth, name,
                *chosen.cuts_of(np.flatnonzero(chosen.winner == number)))
            for number, name in enumerate(_signers(ask))
        )  # fmt: skip

    def _chosen(
        self, growing: Growing, found: list["_Candidates"], node: Integers, chosen: Integers
    ) -> ChooseReply:
        n_open = growing.nodes.tree.size
        every = BestSplits.of_parts([one.best for one in found])
        at = np.zeros(n_open, np.int64)
        at[node] = chosen
        has_any = np.zeros(n_open, np.bool_)
        has_any[node] = np.isfinite(every.gain[chosen])
        picked = [value[at] for value in vars(every).values()] if len(every.slot) else []
        if not picked:
            return _nothing(n_open, is_behind=False)
        best = BestSplits(*picked)
        best = replace(best, slot=np.where(has_any, best.slot, -1))
        gain, is_good = growing.accepted(best)
        split = np.flatnonzero(is_good & has_any)
        growing.keep_gains(gain[split])
        source = np.concatenate([np.full(one.node.size, one.source) for one in found])
        slot = np.concatenate([one.slot for one in found])
        winner = np.full(n_open, -1, np.int16)
        winner[split] = source[at[split]]
        return ChooseReply(
            False,
            winner,
            np.where(winner != -1, slot[at], -1).astype(np.int16),
            best.cut,
            best.missing_left,
            best.bin_set,
            growing.open_children(best.left[split], best.total[split]),
        )

    def _candidates(self, growing: Growing, ask: ChooseAsk) -> list["_Candidates"]:
        """Decrypt all parties' sums, then judge them all together; return every column's best."""
        assert self._kept is not None
        key, sealed = self._kept[1:]
        fields = LabelFields.of(growing.job, sealed.field_bits, key.room)
        if self._seat is not None:
            _require_signed(self._seat, ask)
        coming = [_Incoming.of(one.reply, one.n_slots, growing, key, fields) for one in ask.others]
        opened = [one.opened(key, fields, growing.job) for one in coming]
        if not all(
            one.fits(counters, growing) for one, counters in zip(coming, opened, strict=True)
        ):
            raise foreign_ciphertexts()
        return [
            coming[number].candidates(number, foreign.place, counters, growing)
            for number, (foreign, counters) in enumerate(zip(ask.others, opened, strict=True))
            if counters is not None
        ]


@dataclass(frozen=True)
class _Incoming:
    """A party's sums before they are opened: as many cells and ciphertexts as there must be."""

    reply: SumsReply
    node: Integers  # the open node of each column
    slot: Integers
    counts: Integers  # (n_cells, 1)
    held: Integers  # the cells that hold rows
    planes: tuple[Ciphertexts, ...]

    @classmethod
    def of(
        cls,
        reply: SumsReply,
        slots: NDArray[np.uint16],
        growing: Growing,
        key: SecretHE,
        fields: LabelFields,
    ) -> "_Incoming":
        """Return sums of the right shape, under this key; raise for others."""
        counts, n_slots = reply.counts.counters.astype(np.int64), slots.astype(np.int64)
        _require_cells(reply, counts, n_slots, growing.nodes.tree.size)
        held = np.flatnonzero(counts[:, 0] > 0)
        n_packs = -(-held.size // fields.cells_in_one(held.size))
        if reply.key_id != key.key_id or len(reply.sums) != (fields.n_planes if held.size else 0):
            raise foreign_ciphertexts()
        node = np.repeat(np.arange(n_slots.size), n_slots)
        slot = np.arange(node.size) - np.repeat(np.cumsum(n_slots) - n_slots, n_slots)
        planes = tuple(key.load(data, n_packs) for data in reply.sums)
        return cls(reply, node, slot, counts, held, planes)

    def opened(self, key: SecretHE, fields: LabelFields, job: Job) -> Integers | None:
        """Return the counters of all cells; None if a number is out of range."""
        per = fields.cells_in_one(self.held.size)
        found = [_decrypted(key, one, fields.width * per) for one in self.planes]
        sums = np.zeros((len(self.counts), fields.n_fields), np.int64)
        if found:
            planes = [
                unpack(one, self.held.size, fields.width, per) for one in found if one is not None
            ]
            if len(planes) < len(found):
                return None
            sums[self.held] = fields.split(planes)
        first = self.counts - sums.sum(axis=1, keepdims=True) if job.n_classes else self.counts
        return np.hstack([first, sums])

    def fits(self, counters: Integers | None, growing: Growing) -> bool:
        """Return whether counters are possible: in every column they add up to the node's own."""
        if counters is None:
            return False
        if not self.node.size:
            return True
        begin = np.cumsum(self.reply.cells, dtype=np.int64) - self.reply.cells
        totals = np.add.reduceat(counters, begin, axis=0)
        sound = np.array_equal(totals, growing.open_moments[self.node]) and np.all(counters >= 0)
        if growing.job.n_classes:
            return bool(sound)
        most = self.counts * (2**growing.job.target_bits - 1)
        return bool(sound and np.all(counters[:, -1:] <= most))

    def candidates(
        self, number: int, place: NDArray[np.int32], counters: Integers, growing: Growing
    ) -> "_Candidates":
        """Return the best cut of each of the party's columns."""
        cells = self.reply.cells[:, None]
        nothing = np.zeros_like(cells)
        slots = Slots.of(
            np.arange(cells.size, dtype=np.int32)[:, None], nothing, nothing.astype(np.uint8), cells
        )
        columns = ColumnCells(
            cells[:, 0].astype(np.int64), self.reply.is_category, self.reply.has_missing
        )
        kind = np.int32 if growing.job.n_classes else np.int64
        weight = growing.root_weight[self.node]
        best = best_of_slots(counters.astype(kind), slots, columns, growing.search, weight)
        best = replace(best, gain=np.where(best.slot >= 0, best.gain, -np.inf))
        return _Candidates(number, self.node, place.astype(np.int64), self.slot, best)


def _decrypted(key: SecretHE, ciphertexts: Ciphertexts, bits: int) -> list[int] | None:
    """Return the numbers; None if one is out of range."""
    try:
        return key.decrypt(ciphertexts, bits)
    except ProtocolError:
        return None


def _require_signed(seat: Seat, ask: ChooseAsk) -> None:
    """Raise unless each of the others sent its own sums, once."""
    names = _signers(ask)
    if sorted(names) != list(seat.others):
        raise ProtocolError("The sums are not those of the run's parties.")
    for name, foreign in zip(names, ask.others, strict=True):
        said = foreign.reply.said(ask.job, ask.depth, foreign.n_slots)
        seat.check(name, foreign.reply.signed, SUMS, *said)


def _signers(ask: ChooseAsk) -> list[str]:
    """Return who says to have made each of the sums."""
    return [one.reply.signed.party if one.reply.signed else "" for one in ask.others]


@dataclass(frozen=True)
class _Candidates:
    """The best cut of each of some columns."""

    source: int  # the number of the sums, -2 for the label party's own
    node: Integers
    place: Integers
    slot: Integers
    best: BestSplits


def _own_candidates(growing: Growing, ask: ChooseAsk) -> _Candidates:
    """Return the label party's own best cut of each node, from unencrypted counts."""
    gain, slot = growing.gains(ask.offered)
    node = np.flatnonzero(slot >= 0)
    n_slots = ask.offered.n_slots.astype(np.int64)
    begin = np.cumsum(n_slots) - n_slots
    best = growing.found_splits(node)
    return _Candidates(-2, node, ask.place[begin[node] + slot[node]].astype(np.int64), slot[node],
        replace(best, gain=gain[node]))  # fmt: skip


def _require_cells(reply: SumsReply, counts: Integers, n_slots: Integers, n_open: int) -> None:
    sizes = {reply.cells.size, reply.is_category.size, reply.has_missing.size, int(n_slots.sum())}
    sound = n_slots.size == n_open and len(sizes) == 1 and counts.shape[1:] == (1,)
    if not sound or np.any(reply.cells < 1) or np.any(reply.cells > MISSING + 1):
        raise ProtocolError("A party's sums do not match the columns it was asked for.")
    if int(reply.cells.sum()) != len(counts) or np.any(counts < 0):
        raise ProtocolError("A party's sums do not match its number of cells.")


def _nothing(n_open: int, *, is_behind: bool) -> ChooseReply:
    none = np.zeros(n_open, np.bool_)
    nobody = np.full(n_open, -1, np.int16)
    cut, sets = np.zeros(n_open, np.uint8), np.zeros((n_open, 4), np.uint64)
    return ChooseReply(is_behind, nobody, nobody, cut, none, sets, none[:0])


def behind_choice() -> ChooseReply:
    """Return the reply of a party that must start again."""
    return _nothing(0, is_behind=True)


class Labelled(Protocol):
    """What this side needs of its party."""

    def labels(self, job: Job) -> Target:
        """Return the labels that the job may use."""
        ...

    def heaviest(self, job: Job) -> int:
        """Return the number of rows in the largest sample."""
        ...

    def grown_to(self, job: str, depth: int, newest: tuple[Partition, ...]) -> Growing | None:
        """Return the job's state at a depth; None if the party must start again."""
        ...


class EncryptedSide:
    """A party's answers in a job with encrypted labels, with or without the key."""

    def __init__(self, party: Labelled, notebook: Notebook, seat: Seat | None) -> None:
        self._party = party
        self._seat = seat
        self._label_side = LabelSide(notebook, seat)
        self._feature_side: FeatureSide | None = None

    @property
    def answers(self) -> dict[type[Any], Callable[[Any], Any]]:
        """The method that answers each question."""
        return {
            SealAsk: self._seal,
            SumsAsk: self._sums,
            ChooseAsk: self._choose,
            CutAsk: self._cut,
        }

    def begin(self, job: Job, sealed: Sealed) -> None:
        """Receive the encrypted labels."""
        self._feature_side = FeatureSide(job, sealed, self._seat)

    def _seal(self, ask: SealAsk) -> SealReply:
        target = self._party.labels(ask.job)
        return SealReply(self._label_side.sealed(ask, target, self._party.heaviest(ask.job)))

    def _sums(self, ask: SumsAsk) -> SumsReply:
        growing = self._party.grown_to(ask.job, ask.depth, ask.newest)
        if growing is None or self._feature_side is None:
            return behind_sums()
        return self._feature_side.sums(ask, growing)

    def _choose(self, ask: ChooseAsk) -> ChooseReply:
        growing = self._party.grown_to(ask.job, ask.depth, ask.newest)
        return behind_choice() if growing is None else self._label_side.choose(ask, growing)

    def _cut(self, ask: CutAsk) -> SplitReply:
        growing = self._party.grown_to(ask.job, ask.depth, ())
        own = self._feature_side.cuts(ask) if growing and self._feature_side else None
        if growing is None or own is None:
            return behind_split()
        sides, exhausted = growing.cut(own)
        seal = growing.seal_of_sides(own.node, sides)
        return SplitReply(False, sides, np.zeros(0, np.bool_), exhausted, seal)
