"""Parties as objects in one process: the default, and what tests and users share.

Parties answer one after another; the work of an answer runs on all threads (kernels release the
GIL), so that the cores are busy whatever the number of parties.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from spinney.errors import PartyLostError, ProtocolError, SpinneyError
from spinney.transport import codec
from spinney.transport.channel import Answering, Ask, Channel, Reply, Round, Summand, summed

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

    def ask(
        self, ask: Ask[Reply], *, to: Sequence[str] | None = None, quorum: int | None = None
    ) -> dict[str, Reply]:
        """Put a question to all parties, or to some; return every party's reply."""
        begin = perf_counter()
        sizes = Sizes()
        replies: dict[str, Reply] = {}
        for name in self.parties if to is None else to:
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

    def sum(self, ask: Ask[Summand]) -> Summand:
        """Put a question to all parties; return only the sum of their replies."""
        begin = perf_counter()
        sizes = Sizes()
        first, *others = self.parties
        # Added as they come: two replies are held at most.
        total: Summand = summed(
            self._answer(first, ask, sizes), (self._answer(name, ask, sizes) for name in others)
        )
        self._note(ask, "sum", _IN_PROCESS_SUM, sizes, begin)
        return total

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
            return codec.decode(answer, ask.reply_type)
        except SpinneyError as error:
            error.party = error.party or name
            raise

    def _note(
        self, ask: Ask[Any], verb: str, protection: str, sizes: "Sizes", begin: float
    ) -> None:
        seconds = perf_counter() - begin
        question = type(ask).__name__.removesuffix("Ask")
        number = len(self.rounds) + 1
        heard = (sizes.down, sizes.up, seconds, tuple(sizes.up))
        self.rounds.append(Round(number, question, verb, ask.reveals, protection, *heard))


@dataclass
class Sizes:
    """Bytes of one round, by party."""

    down: dict[str, int] = field(default_factory=dict)
    up: dict[str, int] = field(default_factory=dict)
