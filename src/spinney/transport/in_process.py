"""Parties as objects in one process: the default, and what tests and users share.

Parties answer one after another; the work of an answer runs on all threads (kernels release the
GIL). With `prepares` the next party puts its rows in order meanwhile, so that no core waits for
what a party does on one thread; replies, which are large, are still made one at a time.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cache
from itertools import zip_longest
from time import perf_counter
from typing import Any, Protocol, runtime_checkable

from spinney.errors import PartyLostError, ProtocolError, SpinneyError
from spinney.transport import codec
from spinney.transport.channel import Answering, Ask, Channel, Reply, Round, Summand, summed

_NOTHING = "none: the coordinator sees each party's reply"
_IN_PROCESS_SUM = "summed by the channel; not masked"


@runtime_checkable
class Preparing(Protocol):
    """A party that can make ready for a question before it is asked."""

    def prepare(self, ask: Ask[Any]) -> None:
        """Do what an answer begins with; nothing leaves, and failure shows with the answer."""
        ...


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="spinney-parties")


if hasattr(os, "register_at_fork"):  # a child has none of its parent's threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


class InProcess(Channel):
    """A channel to parties in this process; `through_codec` sends every message as bytes."""

    def __init__(
        self,
        parties: Mapping[str, Answering],
        *,
        through_codec: bool = False,
        prepares: bool = False,
    ) -> None:
        if not parties:
            raise ProtocolError("A job needs at least one party.")
        self.parties = tuple(parties)
        self.rounds: list[Round] = []
        self._party_of_name = dict(parties)
        self._through_codec = through_codec
        self._prepares = prepares and not through_codec

    def ask(
        self, ask: Ask[Reply], *, to: Sequence[str] | None = None, quorum: int | None = None
    ) -> dict[str, Reply]:
        """Put a question to all parties, or to some; return every party's reply."""
        begin = perf_counter()
        sizes = Sizes()
        replies: dict[str, Reply] = {}
        names = self.parties if to is None else tuple(to)
        for name in self._in_turn(names, ask):
            try:
                replies[name] = self._answer(name, ask, sizes)
            except PartyLostError:
                if quorum is None:
                    raise
        if len(replies) < (quorum or 0):
            raise PartyLostError(
                f"Only {len(replies)} parties answered {type(ask).__name__}; {quorum} are needed."
            )
        self._note(ask, "ask", _NOTHING, sizes, begin)
        return replies

    def sum(self, ask: Ask[Summand], *, quorum: int | None = None) -> Summand:
        """Put a question to all parties; return only the sum of their replies."""
        begin = perf_counter()
        sizes = Sizes()
        # Added as they come: two replies are held at most.
        replies = self._replies(ask, sizes, lost_may_be_left_out=quorum is not None)
        first = next(replies, None)
        total: Summand | None = None if first is None else summed(first, replies)
        if total is None or len(sizes.up) < (quorum or 0):
            raise PartyLostError(
                f"Only {len(sizes.up)} parties answered {type(ask).__name__}; {quorum} are needed."
            )
        self._note(ask, "sum", _IN_PROCESS_SUM, sizes, begin)
        return total

    def _replies(
        self, ask: Ask[Summand], sizes: "Sizes", *, lost_may_be_left_out: bool
    ) -> Iterator[Summand]:
        """Give the replies in order, without those of lost parties if that may be."""
        for name in self._in_turn(self.parties, ask):
            try:
                reply: Summand = self._answer(name, ask, sizes)
            except PartyLostError:
                if not lost_may_be_left_out:
                    raise
                continue
            yield reply
            del reply  # let go before the next is made

    def _in_turn(self, names: tuple[str, ...], ask: Ask[Any]) -> Iterator[str]:
        """Give the names in order; whoever is next makes ready."""
        ready: Future[None] | None = None
        for name, following in zip_longest(names, names[1:]):
            if ready is not None:
                wait([ready])
            party = self._party_of_name.get(following) if self._prepares else None
            ready = _pool().submit(party.prepare, ask) if isinstance(party, Preparing) else None
            yield name

    def _answer(self, name: str, ask: Ask[Any], sizes: "Sizes") -> Any:
        party = self._party_of_name[name]
        try:
            if not self._through_codec:
                sizes.down[name] = next(iter(sizes.down.values()), 0) or codec.encoded_size(ask)
                reply = party.answer(ask)
                sizes.up[name] = codec.encoded_size(reply)
                return reply
            question = codec.encode(ask)
            sizes.down[name] = len(question)
            answer = codec.encode(party.answer(codec.decode(question, type(ask))))
            sizes.up[name] = len(answer)
            return codec.decode(answer, ask.reply_type, unpacked=ask.reply_bytes)
        except SpinneyError as error:
            error.party = error.party or name
            raise

    def _note(
        self, ask: Ask[Any], verb: str, protection: str, sizes: "Sizes", begin: float
    ) -> None:
        seconds = perf_counter() - begin
        question = type(ask).__name__.removesuffix("Ask")
        number = len(self.rounds) + 1
        answered = tuple(name for name in self.parties if name in sizes.up)
        heard = (_in_order(sizes.down, self.parties), _in_order(sizes.up, answered), seconds)
        self.rounds.append(Round(number, question, verb, ask.reveals, protection, *heard, answered))


def _in_order(sizes: dict[str, int], names: tuple[str, ...]) -> dict[str, int]:
    """Return the sizes in the parties' order, not in that of their answers."""
    return {name: sizes[name] for name in names if name in sizes}


@dataclass
class Sizes:
    """Bytes of one round, by party."""

    down: dict[str, int] = field(default_factory=dict)
    up: dict[str, int] = field(default_factory=dict)
