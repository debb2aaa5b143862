"""The coordinator's side of verified growth: it relays what every step came to."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from spinney.errors import PartyLostError
from spinney.protocols.verified.blind import NOT_SEEN
from spinney.protocols.verified.derivation import SharedQuestions
from spinney.protocols.verified.messages import (
    BLIND,
    HiddenSums,
    Opened,
    StepAsk,
    story_after,
)
from spinney.protocols.verified.tags import SumKeys
from spinney.transport.carried import Carried
from spinney.transport.channel import Ask, Channel, Reply, Round, Summand

_NO_TAG = np.zeros(0, np.uint64)


class VerifiedSums(Channel):
    """A channel that asks for the next step, and tells what the step before came to."""

    def __init__(
        self,
        inner: Channel,
        questions: SharedQuestions | None = None,
        *,
        blind: SumKeys | None = None,
    ) -> None:
        self._inner = inner
        self._questions = questions  # of parties in the same process
        self._blind = blind  # keys of parties whose sums a coordinator would not read
        self._story = b""
        self.parties = inner.parties
        self.is_masked = inner.is_masked
        self._number = 0
        self._before: tuple[Opened, ...] = ()

    @property
    def rounds(self) -> list[Round]:  # type: ignore[override]  # the record of the inner channel
        """Every round so far."""
        return self._inner.rounds

    @property
    def opened(self) -> tuple[Opened, ...]:
        """What the last steps came to, for who is told outside a step."""
        return self._before

    def ask(
        self, ask: Ask[Reply], *, to: Sequence[str] | None = None, quorum: int | None = None
    ) -> dict[str, Reply]:
        """Put a step to all parties, or to some; return every party's reply."""
        replies = self._inner.ask(self._step("ask", ask), to=to, quorum=quorum)
        results: tuple[Carried, ...] = ()
        tags = _NO_TAG
        if ask.is_relayed:
            if not replies:
                raise PartyLostError(f"Nobody answered {ask.called()}, which some party must.")
            results = tuple(Carried(reply.reply) for reply in replies.values())
            tags = np.stack([reply.tag for reply in replies.values()])
        self._tell(Opened(self._number, tuple(replies), results, tags), common=to is None)
        return {name: reply.reply for name, reply in replies.items()}

    def sum(self, ask: Ask[Summand], *, quorum: int | None = None) -> Summand:
        """Put a step to all parties; return only the sum of their replies."""
        if self._blind is not None:
            return self._sum_of_parties(ask, self._blind, quorum)
        total: Any = self._inner.sum(self._step("sum", ask), quorum=quorum)
        answered = self.rounds[-1].answered
        told = Carried(ask.laid_out(total.reply))
        self._tell(Opened(self._number, answered, (told,), total.tag), common=True)
        opened: Summand = total.reply
        return opened

    def _sum_of_parties(self, ask: Ask[Summand], keys: SumKeys, quorum: int | None) -> Summand:
        """Put a step to all parties; return the sum, as a party reads it.

        A simulation has the parties' keys; see `blind.relay_steps` for a coordinator without them.
        """
        hidden: Any = self._inner.sum(self._step(BLIND, ask), quorum=quorum)
        done = self.rounds[-1]
        self.rounds[-1] = replace(  # the report tells what parties learn, not what travels
            done,
            question=ask.called(),
            reveals=ask.reveals,
            protection=f"{done.protection}; {NOT_SEEN}",
        )
        answered = done.answered
        opened = Opened(self._number, answered, (Carried(HiddenSums(hidden.words)),), hidden.tag)
        sums = keys.show(self._number, self._story, hidden.words, answered)
        total: Summand = keys.shown(opened, lambda: ask.from_ring(sums))
        self._tell(opened, common=True)
        return total

    def _step(self, verb: str, ask: Ask[Any]) -> StepAsk:
        self._number += 1
        if self._questions is not None:
            self._questions.last = ask
        return StepAsk(self._number, verb, self._before).derived(ask).after(self._story)

    def _tell(self, opened: Opened, *, common: bool) -> None:
        """Remember what to tell; parties that were not asked have not heard of earlier steps."""
        is_shared = self._questions is not None
        self._story = story_after(self._story, opened, is_shared=is_shared)
        self._before = (opened,) if common else (*self._before, opened)
