"""Parties with encrypted labels: the label party keeps the key, the others add ciphertexts.

**Who learns what.** See `columns.encrypted_coordinator`.
"""

import logging
from collections.abc import Callable
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
from spinney.protocols.columns.cell_sums import CellSums
from spinney.protocols.columns.encrypted_messages import (
    ChooseAsk,
    ChooseReply,
    CutAsk,
    SumsAsk,
    SumsReply,
    cuts_as_bytes,
)
from spinney.protocols.columns.fields import Fields
from spinney.protocols.columns.growing import Growing
from spinney.protocols.columns.messages import Sealed, SplitReply, behind_split
from spinney.protocols.columns.notebook import RUN, Notebook
from spinney.protocols.columns.seat import UNSIGNED, Seat, Signed, Unsigned
from spinney.transport import codec
from spinney.trees.counts import Counts
from spinney.trees.dtypes import MISSING
from spinney.trees.frontier import ColumnCells, Slots
from spinney.trees.own_columns import OwnSplits
from spinney.trees.partition import NO_TURNS, Partition, Turns
from spinney.trees.split import BestSplits
from spinney.typing import Integers

LABELS, SUMS, CUTS = (
    "list of encrypted labels",
    "reply with sums",
    "choice of cuts",
)  # what is signed
ENDED = "ended"
_OWN = -2  # the number of the label party's own columns among sums
_LOG = logging.getLogger("spinney.party")  # stays at the party


class FeatureSide:
    """The side that adds ciphertexts without the key."""

    def __init__(self, growing: Growing, sealed: Sealed, seat: Seat | None, label: str) -> None:
        if seat is not None:  # whose key it is decides who can read the sums
            said = sealed.said(_labelled(growing.job.digest, label))
            seat.check(seat.lead, sealed.signed, LABELS, *said)
        self.label = label
        self._seat = seat
        self._he: AdditiveHE = of_public_key(sealed.scheme, sealed.public_key)
        self._fields = growing.fields(sealed.field_bits, self._he.room)
        self._slots: Slots | None = None
        if len(sealed.planes) != self._fields.n_planes:
            raise foreign_ciphertexts()
        n, multiples = growing.n_ciphertexts, growing.multiples()
        planes = [self._he.load(data, n + 1) for data in sealed.planes]
        groups = [*multiples, [n]]
        if multiples:
            planes = [self._he.sums(plane, groups) for plane in planes]
        self._zeros = [plane[len(multiples) or n] for plane in planes]
        self._cells = CellSums(self._he, planes)

    def sums(self, ask: SumsAsk, growing: Growing) -> SumsReply:
        """Return the encrypted label sums of every cell that holds rows; the same once more."""
        growing.settle("offered", codec.encode(ask.offered))
        slots = ask.offered.laid(growing.nodes)
        self._slots = slots
        stored = growing.stored_reply("sums")
        if stored is not None:
            return codec.decode(stored, SumsReply)
        reply = self._added(slots, growing)
        turns = growing.turns_of(slots.feature[slots.feature >= 0])
        if turns.size:
            reply = replace(reply, turns=turns)
        if self._seat is not None:
            said = reply.said(ask.job, ask.depth, ask.offered.n_slots)
            reply = replace(reply, signed=self._seat.sign(SUMS, *said))
        growing.store_reply("sums", codec.encode(reply))
        return reply

    def _added(self, slots: Slots, growing: Growing) -> SumsReply:
        columns, used = growing.nodes.columns, slots.feature >= 0
        counts = growing.count_rows(slots) if slots.n_cells else np.zeros(0, np.int64)
        n = int(np.count_nonzero(counts))
        per = self._fields.cells_in_one(n)
        added = self._cells.of_level(growing, slots, counts) if n else []
        sums = tuple(
            self._sent([*plane, *[zero] * (-n % per)], per)
            for plane, zero in zip(added, self._zeros, strict=False)
        )
        return SumsReply(
            False,
            self._he.key_id,
            slots.cells[used],
            columns.is_category[slots.feature[used]],
            columns.has_missing[slots.feature[used]],
            Counts(counts[:, None].astype(np.int32), np.cumsum(slots.cells[used], dtype=np.int64)),
            sums,
        )

    def _sent(self, cells: Ciphertexts, per: int) -> bytes:
        """Return sums of cells packed, under fresh randomness, as bytes."""
        packed = self._he.packed(cells, len(cells), self._fields.width, per)
        return self._he.dump(self._he.refreshed(packed))

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
    label: str = ""  # what is encrypted, if it changes in the course of a job


@dataclass(frozen=True)
class SealTerms:
    """Under which key something is encrypted."""

    job: str
    scheme: str
    key_bits: int


Packing = Callable[[int], tuple[int, list[list[int]]]]
"""Given a key's room, returns the bits of a field, and the numbers to encrypt, plane by plane."""


def _labelled(job: str, label: str) -> str:
    """Return the job's digest with what is encrypted, if that changes in the course of it."""
    return f"{job} {label}" if label else job


class LabelSide:
    """The side with the key."""

    def __init__(self, notebook: Notebook, seat: Seat | None) -> None:
        self._notebook = notebook
        self._seat = seat
        self._held: tuple[str, SecretHE, _Kept] | None = None

    def sealed(self, terms: SealTerms, packing: Packing, label: str = "") -> Sealed:
        """Return encrypted numbers; they are encrypted once, however often asked for."""
        held = self._key_of(terms.job)
        if held is None or held[1].label != label:
            key = held[0] if held else new_key(scheme_of(terms.scheme), terms.key_bits)
            bits, planes = packing(key.room)
            encrypted = tuple(key.dump(key.encrypt(numbers)) for numbers in planes)
            kept = _Kept(key.scheme, key.public_key, key.secret_key, encrypted, bits, label)
            self._notebook.keep_note(terms.job, "key", msgspec.msgpack.encode(kept))
            held = (key, kept)
            self._held = (terms.job, *held)
        kept = held[1]
        sealed = Sealed(kept.scheme, kept.public, kept.planes, kept.field_bits)
        if self._seat is None:
            return sealed
        said = sealed.said(_labelled(terms.job, label))
        return replace(sealed, signed=self._seat.sign(LABELS, *said))

    def _key_of(self, job: str) -> tuple[SecretHE, _Kept] | None:
        """Return the job's key and what was encrypted last, also after a restart."""
        if self._held is None or self._held[0] != job:
            note = self._notebook.note(job, "key")
            if note is None:
                return None
            kept = msgspec.msgpack.decode(note, type=_Kept)
            self._held = (job, of_secret_key(kept.scheme, kept.public, kept.secret), kept)
        return self._held[1:]

    def choose(self, ask: ChooseAsk, growing: Growing) -> ChooseReply:
        """Return the best cut of each open node over all parties' columns.

        A level has one question: whatever else is asked is refused before anything is decrypted.
        The first sums that do not fit end the job, and the key is erased.
        """
        held = self._key_of(ask.job)
        if held is None:
            raise ProtocolError("The label party has no key for this job. Start the job again.")
        growing.settle("asked", codec.encode(ask))
        own = _own_candidates(growing, ask)
        try:
            found = [own, *self._candidates(growing, ask, *held)]
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
        turns = chosen.turns if isinstance(chosen.turns, np.ndarray) else NO_TURNS
        split = np.flatnonzero(chosen.winner != -1)
        growing.choose_own(np.flatnonzero(chosen.winner == _OWN))
        seal = growing.seal_of_children(split, chosen.child_open, turns)
        return replace(chosen, signed=self._signed_cuts(ask, chosen), seal=seal)

    def _burn(self, job: str) -> None:
        """End the job for good: a key that refused once would tell more by refusing again."""
        self._notebook.keep_note(RUN, ENDED, job.encode())
        self._notebook.erase_note(job, "key")
        self._held = None
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
        turns = np.concatenate([one.turns for one in found])
        return ChooseReply(
            False,
            winner,
            np.where(winner != -1, slot[at], -1).astype(np.int16),
            best.cut.astype(np.uint8),
            best.missing_left,
            best.bin_set,
            growing.open_children(best.left[split], best.total[split]),
            turns=turns[at[split]] if turns.size else UNSIGNED,
        )

    def _candidates(
        self, growing: Growing, ask: ChooseAsk, key: SecretHE, kept: _Kept
    ) -> list["_Candidates"]:
        """Decrypt all parties' sums, then judge them all together; return every column's best."""
        fields = growing.fields(kept.field_bits, key.room)
        if self._seat is not None:
            _require_signed(self._seat, ask)
        coming = [_Incoming.of(one.reply, one.n_slots, growing, key, fields) for one in ask.others]
        opened = [one.opened(key, fields, growing) for one in coming]
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
        fields: Fields,
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

    def opened(self, key: SecretHE, fields: Fields, growing: Growing) -> Integers | None:
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
        return growing.counters(self.counts, sums)

    def fits(self, counters: Integers | None, growing: Growing) -> bool:
        """Return whether counters are possible: in every column they add up to the node's own."""
        if counters is None:
            return False
        if not self.node.size:
            return True
        begin = np.cumsum(self.reply.cells, dtype=np.int64) - self.reply.cells
        totals = np.add.reduceat(counters, begin, axis=0)
        sound = np.array_equal(totals, growing.open_moments[self.node]) and np.all(counters >= 0)
        return bool(sound and np.all(counters <= growing.most(counters)))

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
        turns = self.reply.turns if isinstance(self.reply.turns, np.ndarray) else NO_TURNS
        best = growing.search_cells(counters, slots, columns, self.node, turns)
        best = replace(best, gain=np.where(best.slot >= 0, best.gain, -np.inf))
        return _Candidates(number, self.node, place.astype(np.int64), self.slot, best, turns)


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

    source: int  # the number of the sums, `_OWN` for the label party's own
    node: Integers
    place: Integers
    slot: Integers
    best: BestSplits
    turns: Turns  # in which direction the columns may change the prediction; empty: in any


def _own_candidates(growing: Growing, ask: ChooseAsk) -> _Candidates:
    """Return the label party's own best cut of each node, from unencrypted counts."""
    gain, slot = growing.gains(ask.offered)
    node = np.flatnonzero(slot >= 0)
    n_slots = ask.offered.n_slots.astype(np.int64)
    begin = np.cumsum(n_slots) - n_slots
    best = replace(growing.found_splits(node), gain=gain[node])
    place = begin[node] + slot[node]
    turns = growing.turns_of(ask.offered.column[place].astype(np.int32))
    return _Candidates(_OWN, node, ask.place[place].astype(np.int64), slot[node], best, turns)


def _require_cells(reply: SumsReply, counts: Integers, n_slots: Integers, n_open: int) -> None:
    sizes = {reply.cells.size, reply.is_category.size, reply.has_missing.size, int(n_slots.sum())}
    if isinstance(reply.turns, np.ndarray):
        sizes.add(reply.turns.size)
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


class Growable(Protocol):
    """What this side needs of its party."""

    def grown_to(self, job: str, depth: int, newest: tuple[Partition, ...]) -> Growing | None:
        """Return the job's state at a depth; None if the party must start again."""
        ...


class EncryptedSide:
    """A party's answers in a job with encrypted labels, with or without the key."""

    def __init__(self, party: Growable, notebook: Notebook, seat: Seat | None) -> None:
        self._party = party
        self._seat = seat
        self._label_side = LabelSide(notebook, seat)
        self._feature_side: FeatureSide | None = None

    @property
    def answers(self) -> dict[type[Any], Callable[[Any], Any]]:
        """The method that answers each question."""
        return {SumsAsk: self._sums, ChooseAsk: self._choose, CutAsk: self._cut}

    def seal(self, terms: SealTerms, packing: Packing, label: str = "") -> Sealed:
        """Return encrypted numbers, signed for this run."""
        return self._label_side.sealed(terms, packing, label)

    def begin(self, growing: Growing, sealed: Sealed, label: str = "") -> None:
        """Receive encrypted numbers."""
        self._feature_side = FeatureSide(growing, sealed, self._seat, label)

    def _sums(self, ask: SumsAsk) -> SumsReply:
        growing = self._party.grown_to(ask.job, ask.depth, ask.newest)
        if growing is not None and isinstance(ask.sealed, Sealed):
            growing.settle("sealed", codec.encode(ask.sealed))
            self.begin(growing, ask.sealed, growing.label)
        side = self._feature_side
        if growing is None or side is None or side.label != growing.label:
            return behind_sums()
        return side.sums(ask, growing)

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
