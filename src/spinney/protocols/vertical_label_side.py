"""The label party when labels are encrypted: it keeps the key, decrypts sums, and chooses cuts."""

from dataclasses import dataclass, replace

import msgspec
import numpy as np

from spinney.errors import ProtocolError
from spinney.privacy.homomorphic import (
    SecretHE,
    foreign_ciphertexts,
    new_key,
    of_secret_key,
    scheme_of,
    unpacked,
)
from spinney.protocols.vertical_fields import Fields
from spinney.protocols.vertical_job import Target
from spinney.protocols.vertical_messages import Sealed
from spinney.protocols.vertical_rows import Growing, Notebook
from spinney.protocols.vertical_sum_messages import (
    ChooseAsk,
    ChooseReply,
    Foreign,
    SealAsk,
    SumsReply,
)
from spinney.transport import codec
from spinney.trees.dtypes import MISSING
from spinney.trees.frontier import Columns, Slots
from spinney.trees.own_columns import best_of_slots
from spinney.trees.split import BestSplits
from spinney.typing import Integers


class _Kept(msgspec.Struct, frozen=True):
    """What the label party writes down of its key."""

    scheme: str
    public: bytes
    secret: bytes
    planes: tuple[bytes, ...]
    field_bits: int


class LabelSide:
    """The side with the key."""

    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook
        self._kept: tuple[str, SecretHE, Sealed] | None = None

    def sealed(self, ask: SealAsk, target: Target, tree_weight: int) -> Sealed:
        """Return the labels encrypted: once, whoever asks how often."""
        job = ask.job.digest
        if self._kept is None or self._kept[0] != job:
            note = self._notebook.note(job, "key")
            kept = self._read(note) if note else self._drawn(ask, target, tree_weight)
            self._kept = (job, *kept)
        return self._kept[2]

    def _drawn(self, ask: SealAsk, target: Target, weight: int) -> tuple[SecretHE, Sealed]:
        job = ask.job
        key = new_key(scheme_of(ask.scheme), ask.key_bits)
        bits = weight.bit_length() + (0 if job.n_classes else job.target_bits)
        fields = Fields.of(job, bits, key.room)
        planes = tuple(key.dump(key.encrypt(numbers)) for numbers in fields.planes(job, target))
        kept = _Kept(key.scheme, key.public_key, key.secret_key, planes, bits)
        self._notebook.keep_note(job.digest, "key", msgspec.msgpack.encode(kept))
        return key, Sealed(key.scheme, key.public_key, planes, bits)

    def _read(self, note: bytes) -> tuple[SecretHE, Sealed]:
        kept = msgspec.msgpack.decode(note, type=_Kept)
        key = of_secret_key(kept.scheme, kept.public, kept.secret)
        return key, Sealed(kept.scheme, kept.public, kept.planes, kept.field_bits)

    def choose(self, ask: ChooseAsk, growing: Growing) -> ChooseReply:
        """Return the best cut of each open node over all parties' columns."""
        if self._kept is None or self._kept[0] != ask.job:
            note = self._notebook.note(ask.job, "key")  # the party was stopped meanwhile
            if note is None:
                raise ProtocolError("The label party has no key of this job. Start the job again.")
            self._kept = (ask.job, *self._read(note))
        found = [_own_candidates(growing, ask)]
        for number, foreign in enumerate(ask.others):
            found.append(self._candidates(growing, foreign, number))
        node = np.concatenate([one.node for one in found])
        place = np.concatenate([one.place for one in found])
        gain = np.concatenate([one.best.gain for one in found])
        # The best of each node: the largest gain, and of equal ones the first that was drawn.
        order = np.lexsort((place, -gain, node))
        first = order[np.flatnonzero(np.diff(node[order], prepend=-1))]
        chosen = self._chosen(growing, found, node[first], first)
        growing.settle("choice", codec.encode(chosen))  # nobody can try out sums
        return chosen

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

    def _candidates(self, growing: Growing, foreign: Foreign, number: int) -> "_Candidates":
        """Decrypt a party's sums and return the best cut of each of its columns."""
        reply, job = foreign.reply, growing.job
        counts = reply.counts.counters.astype(np.int64)
        n_slots = foreign.n_slots.astype(np.int64)
        _require_cells(reply, counts, n_slots, growing.nodes.tree.size)
        assert self._kept is not None
        key, sealed = self._kept[1:]
        if reply.key_id != key.key_id:
            raise foreign_ciphertexts()
        counters = self._opened(key, Fields.of(job, sealed.field_bits, key.room), reply, counts)
        if job.n_classes:
            rest = counts - counters.sum(axis=1, keepdims=True)
            counters = np.hstack([rest, counters])
        else:
            counters = np.hstack([counts, counters])
        most = np.iinfo(np.int32).max if job.n_classes else counts * (2**job.target_bits - 1)
        if np.any(counters < 0) or np.any(counters[:, -1:] > most):
            raise foreign_ciphertexts()
        node = np.repeat(np.arange(n_slots.size), n_slots)
        cells = reply.cells[:, None]
        nothing = np.zeros_like(cells)
        slots = Slots.of(
            np.arange(cells.size, dtype=np.int32)[:, None], nothing, nothing.astype(np.uint8), cells
        )
        columns = Columns(cells[:, 0].astype(np.int64), reply.is_category, reply.has_missing)
        kind = np.int32 if job.n_classes else np.int64
        weight = growing.root_weight[node]
        best = best_of_slots(counters.astype(kind), slots, columns, growing.search, weight)
        best = replace(best, gain=np.where(best.slot >= 0, best.gain, -np.inf))
        begin = np.repeat(np.cumsum(n_slots) - n_slots, n_slots)
        slot = np.arange(node.size) - begin
        return _Candidates(number, node, foreign.place.astype(np.int64), slot, best)

    def _opened(
        self, key: SecretHE, fields: Fields, reply: SumsReply, counts: Integers
    ) -> Integers:
        """Return the label sums of all cells, (n_cells, n_fields)."""
        held = np.flatnonzero(counts[:, 0] > 0)
        if not held.size:
            return np.zeros((len(counts), fields.n_fields), np.int64)
        per = fields.cells_in_one(held.size)
        n_packs = -(-held.size // per)
        planes = []
        if len(reply.sums) != fields.n_planes:
            raise foreign_ciphertexts()
        for data in reply.sums:
            numbers = key.decrypt(key.load(data, n_packs), fields.width * per)
            planes.append(unpacked(numbers, held.size, fields.width, per))
        sums = np.zeros((len(counts), fields.n_fields), np.int64)
        sums[held] = fields.split(planes)
        return sums


@dataclass(frozen=True)
class _Candidates:
    """The best cuts of some columns, one each."""

    source: int  # the number of the sums, -2 for the label party's own
    node: Integers
    place: Integers
    slot: Integers
    best: BestSplits


def _own_candidates(growing: Growing, ask: ChooseAsk) -> _Candidates:
    """Return the label party's own best cut of each node, counted in the clear."""
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
        raise ProtocolError("A party's sums are not of the columns it was asked for.")
    if int(reply.cells.sum()) != len(counts) or np.any(counts < 0):
        raise ProtocolError("A party's sums do not have the cells it says.")


def _nothing(n_open: int, *, is_behind: bool) -> ChooseReply:
    none = np.zeros(n_open, np.bool_)
    nobody = np.full(n_open, -1, np.int16)
    cut, sets = np.zeros(n_open, np.uint8), np.zeros((n_open, 4), np.uint64)
    return ChooseReply(is_behind, nobody, nobody, cut, none, sets, none[:0])


def behind_choice() -> ChooseReply:
    """Return the reply of a party that must start again."""
    return _nothing(0, is_behind=True)
