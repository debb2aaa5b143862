"""Parties as objects in one process: the default, and what tests and users share.

Parties answer one after another; the work of an answer runs on all threads (kernels release the
GIL), so that the cores are busy whatever the number of parties.
"""

from collections.abc import Mapping
from time import perf_counter
from typing import Any

from spinney.errors import ProtocolError, SpinneyError
from spinney.transport import codec
from spinney.transport.channel import Answering, Ask, Channel, Reply, Round, Summand

_NOTHING = "none: the coordinator sees each party's reply"
_IN_PROCESS_SUM = "summed by the channel; not masked"


class InProcess(Channel):
    """A channel to parties in this process; `through_codec` sends every message as bytes."""

    def __init__(self, parties: Mapping[str, Answering], *, through_codec: bool = False) -> None:
        if not parties:
            raise ProtocolError("A job needs at least one party.")
        self.parties = tuple(parties)
        self.rounds: list[Round] = []
        self._party_of_name = dict(parties)
        self._through_codec = through_codec

    def ask(self, ask: Ask[Reply]) -> dict[str, Reply]:
        """Put a question to all parties; return every party's reply."""
        begin = perf_counter()
        down: dict[str, int] = {}
        up: dict[str, int] = {}
        replies = {name: self._answer(name, ask, down, up) for name in self.parties}
        self._note(ask, "ask", _NOTHING, (down, up), begin)
        return replies

    def sum(self, ask: Ask[Summand]) -> Summand:
        """Put a question to all parties; return only the sum of their replies."""
        begin = perf_counter()
        down: dict[str, int] = {}
        up: dict[str, int] = {}
        first, *others = self.parties
        total: Summand = self._answer(first, ask, down, up)
        for name in others:  # added as they come: two replies are held at most
            total = total.plus([self._answer(name, ask, down, up)])
        self._note(ask, "sum", _IN_PROCESS_SUM, (down, up), begin)
        return total

    def _answer(self, name: str, ask: Ask[Any], down: dict[str, int], up: dict[str, int]) -> Any:
        party = self._party_of_name[name]
        try:
            if not self._through_codec:
                down[name] = next(iter(down.values()), 0) or codec.encoded_size(ask)
                reply = party.answer(ask)
                up[name] = codec.encoded_size(reply)
                return reply
            question = codec.encode(ask)
            down[name] = len(question)
            answer = codec.encode(party.answer(codec.decode(question, type(ask))))
            up[name] = len(answer)
            return codec.decode(answer, ask.reply_type)
        except SpinneyError as error:
            error.party = error.party or name
            raise

    def _note(
        self,
        ask: Ask[Any],
        verb: str,
        protection: str,
        sizes: tuple[dict[str, int], dict[str, int]],
        begin: float,
    ) -> None:
        seconds = perf_counter() - begin
        question = type(ask).__name__.removesuffix("Ask")
        number = len(self.rounds) + 1
        self.rounds.append(Round(number, question, verb, ask.reveals, protection, *sizes, seconds))
