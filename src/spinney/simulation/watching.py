"""Count the simulated parties that have answered, for the progress bar."""

from collections.abc import Callable, Mapping
from typing import Any

from spinney.transport.channel import Answering, Ask

Heard = Callable[[int, int], None]  # number of answers, number of parties


class _Watched:
    """A party whose answers are counted."""

    def __init__(self, party: Answering, answered: Callable[[], None]) -> None:
        self._party = party
        self._answered = answered

    def answer(self, ask: Ask[Any]) -> Any:
        """Answer a question."""
        reply = self._party.answer(ask)
        self._answered()
        return reply


def watch_parties(parties: Mapping[str, Answering], heard: Heard) -> dict[str, Answering]:
    """Return the parties; each answer calls `heard` with the number of answers so far."""
    answered: set[str] = set()

    def note(name: str) -> None:
        if name in answered:  # the next question
            answered.clear()
        answered.add(name)
        heard(len(answered), len(parties))

    return {
        name: _Watched(party, lambda name=name: note(name))  # type: ignore[misc]
        for name, party in parties.items()
    }
