"""Questions and answers between a coordinator and parties.

Two verbs: `ask` shows the coordinator each party's reply, `sum` only their sum. Every round is
written down as it happens; the disclosure record is made from nothing else.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

Reply = TypeVar("Reply")


class Ask(Generic[Reply]):
    """A question; it carries all that is needed to answer it. Subclasses are frozen dataclasses.

    `reveals` says in words what a reply tells about the party's table.
    """

    reveals: ClassVar[str]
    reply_type: ClassVar[type[Any]]


class Summable(Protocol):
    """A reply of integers that is added up over parties."""

    def plus(self, others: Iterable[Self]) -> Self:
        """Return the sum; may reuse this reply's memory."""
        ...


Summand = TypeVar("Summand", bound=Summable)


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


class Answering(Protocol):
    """A party's side: one answer for each kind of question."""

    def answer(self, ask: Ask[Any]) -> Any:
        """Return the reply to a question."""
        ...


class Channel(Protocol):
    """The coordinator's side."""

    parties: tuple[str, ...]
    rounds: list[Round]

    @abstractmethod
    def ask(self, ask: Ask[Reply]) -> dict[str, Reply]:
        """Put a question to all parties; return every party's reply."""

    @abstractmethod
    def sum(self, ask: Ask[Summand]) -> Summand:
        """Put a question to all parties; return only the sum of their replies."""
