"""Parties as objects in one process: the default, used by both tests and users.

Parties answer one after another; the work of an answer runs on all threads (kernels release the
GIL). With `at_once`, several parties answer at the same time, so that no core is idle while a party
works on one thread; replies, which are large, are still used one at a time.
"""

import os
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache, partial
from time import perf_counter
from typing import Any

from spinney.errors import PartyLostError, ProtocolError, SpinneyError
from spinney.transport import codec
from spinney.transport.channel import Answering, Ask, Channel, Reply, Round, Summand, sum_replies

_NOTHING = "none: the coordinator sees each party's reply"
_IN_PROCESS_SUM = "summed by the channel; not masked"


@cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads, thread_name_prefix="spinney-parties")


if hasattr(os, "register_at_fork"):  # a forked child has none of its parent's threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


class InProcess(Channel):
    """A channel to parties in this process; `through_codec` sends every message as bytes."""

    def __init__(
        self,
        parties: Mapping[str, Answering],
        *,
        through_codec: bool = False,
        at_once: int = 1,
    ) -> None:
        if not parties:
            raise ProtocolError("A job needs at least one party.")
        self.parties = tuple(parties)
        self.rounds: list[Round] = []
        self._party_of_name = dict(parties)
        self._through_codec = through_codec
        self._at_once = at_once
        self._measure = codec.Measure()  # of questions

    def ask(
        self, ask: Ask[Reply], *, to: Sequence[str] | None = None, quorum: int | None = None
    ) -> dict[str, Reply]:
        """Put a question to all parties, or to some; return every party's reply."""
        begin = perf_counter()
        sizes = self._sizes(ask)
        names = self.parties if to is None else tuple(to)
        replies = dict(self._answers(names, ask, sizes, bears_loss=quorum is not None))
        if len(replies) < (quorum or 0):
            raise PartyLostError(
                f"Only {len(replies)} parties answered {type(ask).__name__}; {quorum} are needed."
            )
        self._note(ask, "ask", _NOTHING, sizes, begin)
        return replies

    def ask_each(self, asks: Mapping[str, Ask[Reply]]) -> dict[str, Reply]:
        """Put a different question of the same kind to each party, in one round."""
        if self._at_once == 1 or len(asks) < 2:
            return self._ask_in_turn(asks)
        begin, sizes = perf_counter(), {name: self._sizes(ask) for name, ask in asks.items()}
        working = {
            name: _pool(self._at_once).submit(self._answer, name, ask, sizes[name])
            for name, ask in asks.items()
        }
        try:
            replies: dict[str, Reply] = {name: future.result() for name, future in working.items()}
        finally:  # no party is still working when a job has ended
            wait(working.values())
        joined = Sizes(0)
        for one in sizes.values():
            joined.down |= one.down
            joined.up |= one.up
        self._note(next(iter(asks.values())), "ask", _NOTHING, joined, begin)
        return replies

    def _ask_in_turn(self, asks: Mapping[str, Ask[Reply]]) -> dict[str, Reply]:
        """Put each party its question, one after another."""
        begin, sizes = perf_counter(), Sizes(0)
        replies: dict[str, Reply] = {}
        try:
            for name, ask in asks.items():
                sizes.question = 0 if self._through_codec else self._measure.size(ask)
                replies[name] = self._answer(name, ask, sizes)
        finally:
            if replies:
                self._note(next(iter(asks.values())), "ask", _NOTHING, sizes, begin)
        return replies

    def sum(self, ask: Ask[Summand], *, quorum: int | None = None) -> Summand:
        """Put a question to all parties; return only the sum of their replies."""
        begin = perf_counter()
        sizes = self._sizes(ask)
        # Replies are added as they arrive: at most two are held.
        answering = self._answers(self.parties, ask, sizes, bears_loss=quorum is not None)
        with closing(answering) as answers:
            replies = (reply for _, reply in answers)
            first = next(replies, None)
            total: Summand | None = None if first is None else sum_replies(first, replies)
        if total is None or len(sizes.up) < (quorum or 0):
            raise PartyLostError(
                f"Only {len(sizes.up)} parties answered {type(ask).__name__}; {quorum} are needed."
            )
        self._note(ask, "sum", _IN_PROCESS_SUM, sizes, begin)
        return total

    def _answers(
        self, names: tuple[str, ...], ask: Ask[Reply], sizes: "Sizes", *, bears_loss: bool
    ) -> Generator[tuple[str, Reply], None, None]:
        """Yield the replies in order, without those of lost parties if `bears_loss`.

        A reply is freed before the next is requested, so at most `at_once` are held.
        """
        with closing(self._calls(names, ask, sizes)) as calls:
            for name, call in calls:
                try:
                    answer = (name, call())
                except PartyLostError:
                    if not bears_loss:
                        raise
                    continue
                yield answer
                del answer, call

    def _calls(
        self, names: tuple[str, ...], ask: Ask[Any], sizes: "Sizes"
    ) -> Generator[tuple[str, Callable[[], Any]], None, None]:
        """Yield for each party a call that returns its reply; the next ones work meanwhile."""
        if self._at_once == 1:
            for name in names:
                yield name, partial(self._answer, name, ask, sizes)
            return
        waiting, working = deque(names), deque[tuple[str, Future[Any]]]()
        try:
            while waiting or working:
                while waiting and len(working) < self._at_once:
                    name = waiting.popleft()
                    future = _pool(self._at_once).submit(self._answer, name, ask, sizes)
                    working.append((name, future))
                name, future = working[0]  # counts as working until its reply is used
                yield name, future.result
                working.popleft()
                del future
        finally:  # no party is still working when a job has ended
            for _, future in working:
                future.cancel()
            wait([future for _, future in working])

    def _answer(self, name: str, ask: Ask[Any], sizes: "Sizes") -> Any:
        party = self._party_of_name[name]
        try:
            if not self._through_codec:
                sizes.down[name] = sizes.question
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

    def _sizes(self, ask: Ask[Any]) -> "Sizes":
        """Return an empty record of a round's sizes; the question is measured once for all."""
        return Sizes(0 if self._through_codec else self._measure.size(ask))

    def _note(
        self, ask: Ask[Any], verb: str, protection: str, sizes: "Sizes", begin: float
    ) -> None:
        seconds = perf_counter() - begin
        question = ask.called()
        number = len(self.rounds) + 1
        answered = tuple(name for name in self.parties if name in sizes.up)
        heard = (_in_order(sizes.down, self.parties), _in_order(sizes.up, answered), seconds)
        self.rounds.append(Round(number, question, verb, ask.reveals, protection, *heard, answered))


def _in_order(sizes: dict[str, int], names: tuple[str, ...]) -> dict[str, int]:
    """Return the sizes in the order of the parties, not of their answers."""
    return {name: sizes[name] for name in names if name in sizes}


@dataclass
class Sizes:
    """Bytes of one round, by party."""

    question: int  # bytes of the question, if it does not go through the codec
    down: dict[str, int] = field(default_factory=dict)
    up: dict[str, int] = field(default_factory=dict)
