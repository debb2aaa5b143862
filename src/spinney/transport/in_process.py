"""Parties as objects in one process: the default, and what tests and users share.

The work of an answer runs on all threads (kernels release the GIL); with `at_once` above one the
next party begins meanwhile, so that no core waits for what a party does on one thread.
"""

import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cache
from time import perf_counter
from typing import Any

from spinney.errors import PartyLostError, ProtocolError, SpinneyError
from spinney.transport import codec
from spinney.transport.channel import Answering, Ask, Channel, Reply, Round, Summand, summed

_NOTHING = "none: the coordinator sees each party's reply"
_IN_PROCESS_SUM = "summed by the channel; not masked"


@cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads, thread_name_prefix="spinney-parties")


if hasattr(os, "register_at_fork"):  # a child has none of its parent's threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


class InProcess(Channel):
    """A channel to parties in this process; `through_codec` sends every message as bytes."""

    def __init__(
        self, parties: Mapping[str, Answering], *, through_codec: bool = False, at_once: int = 1
    ) -> None:
        if not parties:
            raise ProtocolError("A job needs at least one party.")
        self.parties = tuple(parties)
        self.rounds: list[Round] = []
        self._party_of_name = dict(parties)
        self._through_codec = through_codec
        self._at_once = at_once

    def ask(
        self, ask: Ask[Reply], *, to: Sequence[str] | None = None, quorum: int | None = None
    ) -> dict[str, Reply]:
        """Put a question to all parties, or to some; return every party's reply."""
        begin = perf_counter()
        sizes = Sizes()
        replies: dict[str, Reply] = {}
        names = self.parties if to is None else tuple(to)
        for name, answered in zip(names, self._answers(names, ask, sizes), strict=True):
            try:
                replies[name] = answered.result()
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
        # Added as they come: one more reply is held than parties answer at once.
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
        for answered in self._answers(self.parties, ask, sizes):
            try:
                reply: Summand = answered.result()
            except PartyLostError:
                if not lost_may_be_left_out:
                    raise
                continue
            yield reply
            del reply, answered  # let go before the next is made

    def _answers(
        self, names: Sequence[str], ask: Ask[Any], sizes: "Sizes"
    ) -> Iterator["Future[Any]"]:
        """Give the parties' answers in order; the next ones are begun before they are wanted."""
        coming, under_way = iter(names), deque["Future[Any]"]()
        try:
            for name in coming:
                under_way.append(self._begin(name, ask, sizes))
                if len(under_way) >= self._at_once:
                    yield under_way.popleft()
            while under_way:
                yield under_way.popleft()
        finally:
            for begun in under_way:  # somebody failed: nobody goes on behind the caller's back
                begun.cancel()
            wait(under_way)

    def _begin(self, name: str, ask: Ask[Any], sizes: "Sizes") -> "Future[Any]":
        if self._at_once > 1:
            return _pool(self._at_once).submit(self._answer, name, ask, sizes)
        done: Future[Any] = Future()
        try:
            done.set_result(self._answer(name, ask, sizes))
        except PartyLostError as lost:
            done.set_exception(lost)
        return done

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
