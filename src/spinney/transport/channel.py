"""Questions and answers between a coordinator and parties.

There are two verbs: `ask` shows the coordinator each party's reply, `sum` shows only their sum.
Every round is recorded as it happens; the disclosure record is made only from these records.
"""

import os
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from itertools import pairwise
from typing import Any, ClassVar, Final, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from spinney.errors import ProtocolError
from spinney.transport.carried import Carried
from spinney.transport.codec import UNPACKED_LIMIT, encode
from spinney.transport.messages import Beside
from spinney.typing import Packs

Reply = TypeVar("Reply")
Vector = NDArray[Any]  # of integers
_PIECE_BYTES = 4 << 20


class Ask(Generic[Reply]):
    """A question, with everything needed to answer it. Subclasses are frozen dataclasses.

    `reveals` describes what a reply reveals about the party's table. `step` says its place in the
    job. A question about noise carries its privacy terms as a `PrivacySettings`, in a field of its
    own or deeper: a party finds them by their type, and refuses terms that it did not accept.
    """

    __slots__ = ("__weakref__",)  # nothing can be written into a question

    reveals: ClassVar[str]
    reply_type: ClassVar[type[Any]]
    refused_under_masks: ClassVar[bool] = False  # whether a reply would show what masks hide
    ring_is_fresh: ClassVar[bool] = False  # whether the result of `to_ring` may be changed in place
    is_relayed: ClassVar[bool] = False  # whether all parties see each party's reply
    is_told_back: ClassVar[bool] = False  # whether a sum over all may be told while it comes in
    told_worth: ClassVar[int] = 1  # the most bytes that are then told for each of a party's own

    @classmethod
    def called(cls) -> str:
        """Return the question's name in logs, journals and reports."""
        return cls.__name__.removesuffix("Ask")

    @property
    def step(self) -> int | None:
        """The step of the job, counted from 0: a level or a generation; None if there is none."""
        return None

    @property
    def meaning(self) -> bytes:
        """What it is about, as a digest: parties whose replies are masked together must agree."""
        return sha256(encode(self)).digest()

    @property
    def counted(self) -> tuple[str, ...]:
        """The parties whose replies are in its sum, if the others answer zeros; empty: all."""
        return ()

    @property
    def is_summable(self) -> bool:
        """Whether replies can be summed."""
        return hasattr(self.reply_type, "of_vectors")

    @property
    def story(self) -> tuple[Packs, ...]:
        """The earlier steps that it repeats, one value each; a party accepts only one version."""
        return ()

    @property
    def reply_bytes(self) -> int:
        """How many bytes a reply's packed values may unpack to; subclasses may be more precise."""
        return UNPACKED_LIMIT

    def running(self, n_parties: int, *, is_masked: bool) -> "Running | None":
        """Return what tells a sum over all while it comes in; None: it is told word by word."""
        del n_parties, is_masked
        return None

    def numbers_ahead(self, reply: Any) -> Vector | None:
        """Return the bytes of an open reply that are summed while they come in, if any."""
        del reply
        return None

    def to_ring(self, reply: Any) -> tuple[Vector, ...]:
        """Return the integers of a summable reply in the form for masks: modulo their width."""
        vectors: tuple[Vector, ...] = reply.vectors()
        return vectors

    def unhidden(self, reply: Any) -> Any:
        """Return a reply as it was before it was hidden: how its noise is shared is seen there."""
        return reply

    def laid_out(self, total: Any) -> Any:
        """Return a message that tells a sum of replies in the fewest bytes."""
        return total

    def taken_in(self, told: Carried) -> Any:
        """Return the sum of replies that a message from `laid_out` tells."""
        return told.open(self.reply_type, unpacked=self.reply_bytes)

    def from_ring(self, sums: tuple[Vector, ...]) -> Any:
        """Return the reply that holds these sums."""
        return self.reply_type.of_vectors(sums)

    def is_read_from(self, ring: tuple[Vector, ...], total: Any) -> bool:
        """Return whether a sum is what is read from its integers in the form for masks."""
        again = self.from_ring(tuple(word.view(f"i{word.itemsize}") for word in ring))
        return all(map(np.array_equal, again.vectors(), total.vectors()))


class Running(Protocol):
    """A sum over all parties, as far as their numbers have come."""

    def more(self, parts: Sequence[bytearray]) -> bytes:
        """Return what follows what was told, given each party's numbers so far."""
        ...


@dataclass(frozen=True)
class ToldBack:
    """Numbers of a reply whose sum over all parties is told them while others are on their way."""

    numbers: Vector
    worth: int = 1  # see `Ask.told_worth`


_TOLD_BACK: Final[Beside[ToldBack | None]] = Beside()


def keep_told_back(reply: Reply, told: ToldBack) -> Reply:
    """Keep beside a reply those of its numbers whose sum comes back while others go up."""
    _TOLD_BACK.get(reply, lambda: told)
    return reply


def told_back(reply: object) -> ToldBack | None:
    """Return the numbers of a reply whose sum comes back while others go up, if any."""
    return _TOLD_BACK.get(reply, lambda: None)


class Summable(Protocol):
    """A reply of integers that can be summed over parties."""

    def vectors(self) -> tuple[Vector, ...]:
        """Return its integers: the arrays themselves, not copies."""
        ...

    @classmethod
    def of_vectors(cls, vectors: tuple[Vector, ...]) -> Self:
        """Return the reply with these integers."""
        ...


Summand = TypeVar("Summand", bound=Summable)


def sum_replies(first: Summand, others: Iterable[Summand]) -> Summand:
    """Return the sum of replies; no reply is written into.

    Each reply is freed before the next is made, so at most the sum and two replies are held.
    """
    coming = iter(others)
    second = next(coming, None)
    if second is None:
        return first
    kind, totals = type(first), _fresh_sum(first.vectors(), second.vectors())
    del first, second
    while _add_next(totals, coming):
        pass
    return kind.of_vectors(totals)


def _fresh_sum(some: tuple[Vector, ...], others: tuple[Vector, ...]) -> tuple[Vector, ...]:
    """Return the sum of two replies in memory of its own."""
    totals = tuple(map(np.empty_like, some))
    for total, one, other in zip(totals, some, others, strict=True):
        _add(one, other, total)
    return totals


def _add_next(totals: tuple[Vector, ...], replies: Iterator[Any]) -> bool:
    """Add one more reply; return whether there was one."""
    reply = next(replies, None)
    if reply is None:
        return False
    for total, vector in zip(totals, reply.vectors(), strict=True):
        _add(total, vector, total)
    return True


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="spinney-sums")


if hasattr(os, "register_at_fork"):  # a forked child has none of its parent's threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


def _add(one: Vector, other: Vector, total: Vector) -> None:
    """Write the sum of two vectors into a third; a large vector uses all cores."""
    if one.shape != other.shape:
        raise ProtocolError("The replies of two parties differ in shape; nothing was used.")
    pieces = max(1, total.nbytes // _PIECE_BYTES)
    if pieces == 1:
        np.add(one, other, out=total)
        return
    cuts = [len(total) * i // pieces for i in range(pieces + 1)]
    parts = [slice(a, b) for a, b in pairwise(cuts)]
    list(_pool().map(lambda part: np.add(one[part], other[part], out=total[part]), parts))


@dataclass(frozen=True)
class Round:
    """One question to the parties and their answers."""

    number: int
    question: str
    verb: str  # "ask" or "sum"
    reveals: str
    protection: str  # what hides a single party's reply from the coordinator
    bytes_down: Mapping[str, int]  # to each party
    bytes_up: Mapping[str, int]  # from each party
    seconds: float
    answered: tuple[str, ...]  # the parties whose replies were used


class Answering(Protocol):
    """A party's side: it answers every kind of question."""

    def answer(self, ask: Ask[Any]) -> Any:
        """Return the reply to a question."""
        ...


class Channel(Protocol):
    """The coordinator's side."""

    parties: tuple[str, ...]
    rounds: list[Round]
    is_masked: bool = False  # whether `sum` hides single replies from the coordinator

    @abstractmethod
    def ask(
        self, ask: Ask[Reply], *, to: Sequence[str] | None = None, quorum: int | None = None
    ) -> dict[str, Reply]:
        """Put a question to all parties, or to some; return every party's reply.

        A party that does not answer ends the job, unless a quorum is given: then the other replies
        are returned if there are at least that many.
        """

    @abstractmethod
    def sum(self, ask: Ask[Summand], *, quorum: int | None = None) -> Summand:
        """Put a question to all parties; return only the sum of their replies.

        A party that does not answer ends the job, unless a quorum is given: then the other replies
        are summed if there are at least that many.
        """

    def ask_each(self, asks: Mapping[str, Ask[Reply]]) -> dict[str, Reply]:
        """Put a different question of the same kind to each party, in one round."""
        done = len(self.rounds)
        try:
            return {name: self.ask(ask, to=(name,))[name] for name, ask in asks.items()}
        finally:
            parts = self.rounds[done:]
            del self.rounds[done:]
            if parts:
                self.rounds.append(_as_one(parts))


def _as_one(rounds: Sequence[Round]) -> Round:
    """Join rounds with one party each into a single round."""
    return replace(
        rounds[0],
        bytes_down={name: n for part in rounds for name, n in part.bytes_down.items()},
        bytes_up={name: n for part in rounds for name, n in part.bytes_up.items()},
        seconds=sum(part.seconds for part in rounds),
        answered=tuple(name for part in rounds for name in part.answered),
    )
