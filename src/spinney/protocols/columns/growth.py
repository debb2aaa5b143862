"""The coordinator's side of growing over columns: which party is asked what, and which wins.

It numbers all columns and knows the party of each, but nothing else about them. After every level
it can write a checkpoint and later resume from it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.errors import ProtocolError, SettingError, StorageError
from spinney.protocols.columns.growing import Offered
from spinney.protocols.columns.job import ColumnsJob
from spinney.protocols.columns.level_seal import join_seals
from spinney.protocols.columns.messages import (
    FinishAsk,
    GainAsk,
    GainReply,
    Sealed,
    SplitAsk,
    StartReply,
)
from spinney.protocols.columns.prediction import ownership_of
from spinney.protocols.columns.seat import UNSIGNED, Unsigned
from spinney.transport.channel import Ask, Channel
from spinney.trees import storage
from spinney.trees.draws import DrawnColumns, OpenKeys, Winners
from spinney.trees.layout import join_forests
from spinney.trees.own_columns import OwnSplits
from spinney.trees.partial import Ownership, partial_forest
from spinney.trees.partition import NO_TURNS, Partition, PartitionMerge, Turns
from spinney.typing import Bools, Integers

_KIND = "vertical job"


@dataclass(frozen=True)
class Owners:
    """The owner of each column: the party's number, and the column's number at that party."""

    parties: tuple[str, ...]
    party: NDArray[np.int16]  # (n_columns,)
    own_number: NDArray[np.int32]  # (n_columns,) a party's columns are counted from 0

    @classmethod
    def of(
        cls, parties: tuple[str, ...], n_columns: Mapping[str, int], owners: Sequence[str] | None
    ) -> "Owners":
        """Return the owners of the columns in the given order, or party after party."""
        if owners is None:
            owners = [name for name in parties for _ in range(n_columns[name])]
        for name in parties:
            if owners.count(name) != n_columns[name]:
                raise SettingError(
                    f"The job gives party {name!r} {owners.count(name)} columns; it holds "
                    f"{n_columns[name]}."
                )
        party = np.array([parties.index(name) for name in owners], np.int16)
        own = np.zeros(party.size, np.int32)
        for number in range(len(parties)):
            own[party == number] = np.arange(int((party == number).sum()))
        return cls(parties, party, own)

    def numbers(self, party: int) -> Integers:
        """Return the numbers of a party's columns."""
        return np.flatnonzero(self.party == party)

    def offered(self, drawn: DrawnColumns, party: int) -> tuple[Offered, NDArray[np.int32]]:
        """Return a party's part of a draw, and the place of each of its columns in the draw."""
        part = drawn.of_party(party, self.party, self.own_number)
        return Offered(part.n_slots, part.column, part.phase), part.place


@dataclass(frozen=True)
class GrownLevel:
    """A level as the coordinator knows it."""

    partition: Partition
    winner: NDArray[np.int16]  # of each split node
    column: NDArray[np.int32]
    child_exhausted: Bools

    def own(self, party: int) -> int:
        """Return how many cuts a party made."""
        return int((self.winner == party).sum())


Begin = Callable[[str, tuple[Partition, ...], tuple[int, ...]], Ask[StartReply]]
"""Returns the question that brings a party to a depth, given the levels and how many cuts it made.
"""


class Coordination:
    """One job, level by level.

    Parameters
    ----------
    channel, job, owners, label_party
        The parties, what they agreed on, and who holds which column, and the labels.
    begin
        Makes the question with which a party begins, or begins again.
    checkpoint
        A file that is written after every level. If it already exists, the job resumes from it.
    """

    keys: OpenKeys
    merge: PartitionMerge

    def __init__(
        self,
        channel: Channel,
        job: ColumnsJob,
        owners: Owners,
        *,
        label_party: str,
        begin: Begin,
        checkpoint: Path | None = None,
    ) -> None:
        self.channel = channel
        self.job = job
        self.owners = owners
        self.label_party = label_party
        self.fresh: Sealed | Unsigned = UNSIGNED  # what feature parties must be sent next
        self._begin_ask = begin
        self._checkpoint = checkpoint
        self._batches: list[tuple[int, int]] = []  # the first level and the trees of each batch
        self.levels: list[GrownLevel] = []
        if checkpoint is not None and checkpoint.exists():
            self.levels = _read(checkpoint, job)

    @property
    def depth(self) -> int:
        """The depth of the open nodes."""
        return len(self.levels)

    @property
    def n_open(self) -> int:
        """How many nodes are open."""
        return self.keys.n_open

    @property
    def newest(self) -> tuple[Partition, ...]:
        """The partition of the previous level, if there is one."""
        return (self.levels[-1].partition,) if self.levels else ()

    def start(self, roots: Callable[[Bools], OpenKeys]) -> Bools:
        """Start at all parties, from the checkpoint if there is one; return exhausted columns.

        `roots` returns the keys of the first trees, given which columns are exhausted.
        """
        replies = self.channel.ask_each({name: self._begin(name, 0) for name in self._names})
        first = replies[self._names[0]]
        exhausted = np.zeros(self.owners.party.size, np.bool_)
        for number, name in enumerate(self._names):
            numbers = self.owners.numbers(number)
            if replies[name].exhausted.size != numbers.size:
                raise ProtocolError(f"Party {name!r} answers about columns that it does not hold.")
            if not np.array_equal(replies[name].sizes, first.sizes):
                raise ProtocolError(
                    f"Parties {self._names[0]!r} and {name!r} drew different samples. They "
                    "must hold the same rows in the same order."
                )
            exhausted[numbers] = replies[name].exhausted
        grown, self.levels = self.levels, []
        self.begin_trees(roots(exhausted), first.sizes)
        for level in grown:
            self._take(level, known=True)
        if grown:
            self.channel.ask_each({name: self._begin(name, len(grown)) for name in self._names})
        return exhausted

    def begin_trees(self, keys: OpenKeys, sizes: Integers) -> None:
        """Begin with the roots of trees that grow together, which have so many row entries."""
        self._batches.append((self.depth, keys.n_open))
        self.keys = keys
        self.merge = PartitionMerge(sizes)

    @property
    def _names(self) -> tuple[str, ...]:
        return self.channel.parties

    def _begin(self, name: str, depth: int) -> Ask[StartReply]:
        """Return the question that brings a party to a depth."""
        number = self._names.index(name)
        levels = self.levels[:depth]
        return self._begin_ask(
            name,
            tuple(level.partition for level in levels),
            tuple(level.own(number) for level in levels),
        )

    def ask(
        self, asks: Mapping[str, Ask[Any]], before: Mapping[str, Ask[Any]] | None = None
    ) -> dict[str, Any]:
        """Ask each party its question; a party that was restarted starts again and is asked again.

        `before` holds the questions that such a party must answer first.
        """
        replies: dict[str, Any] = self.channel.ask_each(asks)
        behind = [name for name, reply in replies.items() if reply.is_behind]
        if not behind:
            return replies
        self.channel.ask_each({name: self._begin(name, self.depth) for name in behind})
        if before is not None:
            self.channel.ask_each({name: before[name] for name in behind})
        replies |= self.channel.ask_each({name: asks[name] for name in behind})
        for name in behind:
            if replies[name].is_behind:
                raise ProtocolError(f"Party {name!r} cannot catch up. Start the job again.")
        return replies

    def grow(self) -> None:
        """Grow one level: the best gain wins each node, and its party splits the rows."""
        drawn = self.keys.draw()  # Alg. 2: randomly select features
        offers = [self.owners.offered(drawn, party) for party in range(len(self._names))]
        job, depth, newest = self.job.digest, self.depth, self.newest  # the same for all parties
        asks = {
            name: GainAsk(job, depth, newest, offers[party][0])
            for party, name in enumerate(self._names)
        }
        gains = self.ask(asks)  # Alg. 2: receive {p}
        winner, place = self._winners(gains, offers)
        nodes = (winner >= 0).nonzero()[0]
        column = drawn.column[nodes, place[nodes]]
        splits = self._asked_to_split(winner, before=asks)
        self._take(self._merged(winner, column, splits))

    def _winners(
        self, gains: Mapping[str, GainReply], offers: Sequence[tuple[Offered, NDArray[np.int32]]]
    ) -> tuple[NDArray[np.int16], Integers]:
        """Return the party that wins each node, -1 for none, and its column in the draw.

        If gains are equal, the column that was drawn first wins, as in a pooled table.
        """
        winners = Winners(self.n_open)
        for party, (name, (offered, places)) in enumerate(zip(self._names, offers, strict=True)):
            reply = gains[name]
            if reply.gain.shape != (self.n_open,) or reply.slot.shape != (self.n_open,):
                raise ProtocolError(f"Party {name!r} answered for nodes it was not asked about.")
            if not winners.compare(party, reply.gain, reply.slot, offered.n_slots, places):
                raise ProtocolError(
                    f"Party {name!r} answered for columns it was not asked about. Its reply was "
                    "not used."
                )
        return winners.party, winners.place

    def _asked_to_split(
        self, winner: NDArray[np.int16], before: Mapping[str, Ask[Any]]
    ) -> dict[int, Any]:
        """Ask the winners how they split the rows of their nodes."""
        asks = {
            name: SplitAsk(self.job.digest, self.depth, (winner == party).nonzero()[0])
            for party, name in enumerate(self._names)
            if np.any(winner == party)
        }
        replies = self.ask(asks, before)  # Alg. 2: notify client j
        return {self._names.index(name): reply for name, reply in replies.items()}

    def _merged(
        self,
        winner: NDArray[np.int16],
        column: NDArray[np.int32],
        splits: Mapping[int, Any],
        seals: tuple[bytes | Unsigned, ...] = (),
        turns: Turns | None = None,
    ) -> GrownLevel:
        """Merge the winners' replies, so that no partition shows whose cut it was."""
        split = winner >= 0
        winner = winner[split]
        child_open = np.zeros((winner.size, 2), np.bool_)
        exhausted = np.zeros((winner.size, 2), np.bool_)
        parts = []
        nodes = split.nonzero()[0]
        for party, reply in splits.items():
            own = (winner == party).nonzero()[0]
            if reply.child_open.size != 2 * own.size or reply.exhausted.size != 2 * own.size:
                raise ProtocolError(
                    f"Party {self._names[party]!r} answered for nodes it was not asked about."
                )
            child_open[own] = reply.child_open.reshape(-1, 2)
            exhausted[own] = reply.exhausted.reshape(-1, 2)
            parts.append((nodes[own], reply.sides))
        partition = self.merge.merged(split, child_open.reshape(-1), parts)
        every = [*seals, *(reply.seal for reply in splits.values())]
        partition.turns = self._turns(winner, splits) if turns is None else turns
        partition.seal = np.frombuffer(join_seals(one or b"" for one in every), np.uint8)
        return GrownLevel(partition, winner, column, exhausted.reshape(-1))

    @staticmethod
    def _turns(winner: NDArray[np.int16], splits: Mapping[int, Any]) -> Turns:
        """Return in which direction the split columns may change the prediction; empty: in any."""
        found = np.zeros(winner.size, np.int8)
        told = {
            party: reply.turns for party, reply in splits.items() if reply.turns is not UNSIGNED
        }
        for party, turns in told.items():
            if turns.size != np.count_nonzero(winner == party):
                raise ProtocolError("A party answered for nodes it was not asked about.")
            found[winner == party] = turns
        return found if told else NO_TURNS

    def _take(self, level: GrownLevel, *, known: bool = False) -> None:
        """Add a level, and write it to the checkpoint."""
        if known:
            part = (np.flatnonzero(level.partition.split), level.partition.sides)
            self.merge.merged(level.partition.split, level.partition.child_open, [part])
        self.keys = self.keys.after(level.partition, level.column, level.child_exhausted)
        self.levels.append(level)
        if self._checkpoint is not None and not known:
            _write(self._checkpoint, self.job, self.levels)

    def finish(self) -> None:
        """Let every party finish its part."""
        asks = {
            name: FinishAsk(
                self.job.digest, self.depth, self.newest, name, self.owners.numbers(party)
            )
            for party, name in enumerate(self._names)
        }
        n_nodes = {reply.n_nodes for reply in self.ask(asks).values()}
        if len(n_nodes) != 1:
            raise ProtocolError("The parties' parts do not belong to the same forest.")

    def ownership(self) -> Ownership:
        """Return the owner of each node's cut in the finished forest."""
        none = OwnSplits.none()
        levels = []
        for level in self.levels:
            nodes = np.flatnonzero(level.partition.split)
            zeros = np.zeros(nodes.size)
            whose = replace(
                none, node=nodes, feature=level.winner.astype(np.int32), gain=zeros,
                missing_left=zeros.astype(np.bool_),
            )  # fmt: skip
            levels.append((level.partition, whose))
        ends = [first for first, _ in self._batches[1:]] + [len(levels)]
        parts = [
            partial_forest(n_trees, levels[first:last], None, [], None)
            for (first, n_trees), last in zip(self._batches, ends, strict=True)
        ]
        return ownership_of(join_forests(parts))


def _write(path: Path, job: ColumnsJob, levels: Sequence[GrownLevel]) -> None:
    arrays: dict[str, NDArray[Any]] = {}
    for depth, level in enumerate(levels):
        for name in ("split", "child_open", "sides", "seal"):
            arrays[f"{depth}.{name}"] = getattr(level.partition, name)
        for name in ("winner", "column", "child_exhausted"):
            arrays[f"{depth}.{name}"] = getattr(level, name)
    storage.write_file(path, _KIND, {"job": job.digest, "levels": len(levels)}, arrays)


def _read(path: Path, job: ColumnsJob) -> list[GrownLevel]:
    meta, arrays = storage.read_file(path, _KIND)
    if meta.get("job") != job.digest:
        raise StorageError(
            f"{str(path)!r} is the checkpoint of another job. Use a separate file for this job."
        )
    try:
        return [
            GrownLevel(
                _partition(arrays, depth),
                arrays[f"{depth}.winner"],
                arrays[f"{depth}.column"],
                arrays[f"{depth}.child_exhausted"],
            )
            for depth in range(int(meta["levels"]))
        ]
    except (KeyError, ValueError) as error:
        raise StorageError(f"{str(path)!r} is not a complete checkpoint: {error}.") from None


def _partition(arrays: Mapping[str, NDArray[Any]], depth: int) -> Partition:
    """Return a level's partition; those of Spinney 0.1.0 have no seal."""
    split, children, sides = (
        arrays[f"{depth}.{name}"] for name in ("split", "child_open", "sides")
    )
    return Partition(split, children, sides, arrays.get(f"{depth}.seal", np.zeros(0, np.uint8)))
