"""The one question of verified growth: here is what the last step came to; what is your next reply?

**Who learns what.** See `spinney.protocols.verified`.
"""

from dataclasses import make_dataclass
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from spinney.privacy.keys import digest, encode_parts
from spinney.protocols.verified.tags import Tag
from spinney.transport.carried import Carried
from spinney.transport.channel import Ask, Running, Vector
from spinney.transport.codec import UNPACKED_LIMIT
from spinney.transport.messages import Beside, message

BLIND: Final = "blind"


@message
class Opened:
    """What a step came to: the sum of the replies; or the replies that all parties may see."""

    number: int
    answered: tuple[str, ...]  # the parties that are in it
    results: tuple[Carried, ...]  # one sum; or a reply of each of them; or nothing
    tags: NDArray[np.uint64]  # (4,) of the sum; or (n, 4) of the replies; or (0,)


def story_after(story: bytes, opened: Opened, *, is_shared: bool) -> bytes:
    """Return the digest of all that parties were told, after one more step.

    With tags alone, parties that a colluder told different sums would have the same story. Parties
    in one process are told the same object, so its bytes need not be made.
    """

    def after() -> tuple[bytes, bytes]:
        names = encode_parts(*opened.answered)
        told = b"" if is_shared else digest(*(result.pack() for result in opened.results))
        return story, digest(story, opened.number, names, opened.tags.tobytes(), told)

    before, found = _STORIES.get(opened, after)
    return found if before == story else after()[1]


class _OfStep:
    """An attribute that differs from step to step: on a step, that of the step's own question."""

    def __init__(self, name: str, unknown: Any, in_general: Any = None) -> None:
        self._name = name
        self._unknown = unknown  # if the question is not known, as to a blind coordinator
        self._in_general = unknown if in_general is None else in_general

    def __get__(self, step: "StepAsk | None", kind: type[Any]) -> Any:
        if step is None:
            return self._in_general
        if step.verb == BLIND:
            return self._unknown
        return getattr(step.about, self._name)


class _TypeOfReply(_OfStep):
    """The type of a step's reply, with its tag."""

    def __get__(self, step: "StepAsk | None", kind: type[Any]) -> Any:
        if step is None:
            return StepReply
        if step.verb == BLIND:
            return HiddenReply
        return step_reply(step.about.reply_type, is_summed=step.is_summable)


@message
class HiddenSums:
    """Sums that only parties can read: each of them has added a mask that they all know."""

    words: tuple[NDArray[np.unsignedinteger], ...]


@message
class HiddenReply:
    """Words of a step that only parties can read, and their tag; none if the job has ended."""

    words: tuple[NDArray[np.unsignedinteger], ...]
    tag: NDArray[np.uint64]

    def vectors(self) -> tuple[Vector, ...]:
        """Return its words, and the tag last."""
        return (*self.words, self.tag)

    @classmethod
    def of_vectors(cls, vectors: tuple[Vector, ...]) -> "HiddenReply":
        """Return the reply with these words."""
        *words, tag = (vector.view(f"u{vector.itemsize}") for vector in vectors)
        return cls(tuple(words), tag)


@message
class StepReply:
    """A reply to a step; the message that travels also has the reply, see `step_reply`."""

    tag: Tag


@message
class StepAsk(Ask[Any]):
    """What is your reply to the next step of the job?

    Whoever derives the step's own question keeps it beside this one; what a reply reveals, and its
    type, are those of the step's question.
    """

    number: int  # from 1
    verb: str  # "sum" or "ask"; "blind" if the coordinator does not know the step's question
    before: tuple[Opened, ...]  # what the steps since the last common one came to

    called: ClassVar[Any] = _OfStep("called", lambda: "Step")
    reveals: ClassVar[Any] = _OfStep(
        "reveals", "numbers that only the parties can open", "what the question of its step reveals"
    )
    ring_is_fresh: ClassVar[Any] = _OfStep("ring_is_fresh", False)
    is_told_back: ClassVar[Any] = _OfStep("is_told_back", True, False)
    told_worth: ClassVar[Any] = _OfStep("told_worth", 1)
    reply_bytes: ClassVar[Any] = _OfStep("reply_bytes", UNPACKED_LIMIT)
    reply_type: ClassVar[Any] = _TypeOfReply("", StepReply)

    @property
    def about(self) -> Ask[Any]:
        """The step's own question."""
        return _ABOUT.get(self, _not_derived)

    @property
    def is_derived(self) -> bool:
        """Whether the step's own question is known here."""
        return self in _ABOUT

    def derived(self, about: Ask[Any]) -> "StepAsk":
        """Keep the step's own question beside this one."""
        _ABOUT.get(self, lambda: about)
        return self

    def after(self, story: bytes) -> "StepAsk":
        """Keep beside this step what it is about: its number, after all that was told before."""
        _MEANINGS.get(self, lambda: digest("step", self.number, story))
        return self

    @property
    def meaning(self) -> bytes:
        """What the step is about."""
        return _MEANINGS.get(self, _not_derived)

    @property
    def is_summable(self) -> bool:
        """Whether the step's replies are summed."""
        return self.verb != "ask"

    def running(self, n_parties: int, *, is_masked: bool) -> Running | None:
        """Return what tells the step's sum while it comes in."""
        if self.verb == BLIND or not self.is_derived:  # who does not know it cannot read its sum
            return None
        return self.about.running(n_parties, is_masked=is_masked)

    def to_ring(self, reply: Any) -> tuple[Vector, ...]:
        """Return the reply's integers as they are masked, and its tag."""
        if self.verb == BLIND:
            return tuple(vector.copy() for vector in reply.vectors())
        ring = _RINGS.get(reply, lambda: self.about.to_ring(reply.reply))
        return (*ring, reply.tag.copy())  # they are masked in place

    def unhidden(self, reply: Any) -> Any:
        """Return a reply as it was before it was hidden from a blind coordinator."""
        return _HIDDEN.get(reply, lambda: reply) if self.verb == BLIND else reply

    def from_ring(self, sums: tuple[Vector, ...]) -> Any:
        """Return the sum of the replies, and of their tags."""
        if self.verb == BLIND:
            return HiddenReply.of_vectors(sums)
        *vectors, tag = sums
        return self.reply_type(self.about.from_ring(tuple(vectors)), tag.view(np.uint64))


_STEP_REPLIES: Final[dict[tuple[type[Any], bool], type[Any]]] = {}
_ABOUT: Final[Beside[Ask[Any]]] = Beside()
_STORIES: Final[Beside[tuple[bytes, bytes]]] = Beside()  # before and after what a step came to
_MEANINGS: Final[Beside[bytes]] = Beside()
_RINGS: Final[Beside[tuple[Vector, ...]]] = Beside()  # of replies that are to be masked
_HIDDEN: Final[Beside[Any]] = Beside()  # replies beside what hides them


def _not_derived() -> Any:
    raise LookupError("The question of this step is not derived here.")


def keep_hidden(hidden: HiddenReply, reply: Any) -> HiddenReply:
    """Keep a reply beside the words that hide it."""
    _HIDDEN.get(hidden, lambda: reply)
    return hidden


def keep_ring(reply: Any, ring: tuple[Vector, ...]) -> Any:
    """Keep the integers of a reply, as they are to be masked, beside it."""
    _RINGS.get(reply, lambda: ring)
    return reply


class _Summed:
    """A reply that can be summed, together with its tag."""

    __slots__ = ()
    reply: Any
    tag: Tag
    kind: ClassVar[type[Any]]

    def vectors(self) -> tuple[Vector, ...]:
        """Return its integers, and the tag last."""
        return (*self.reply.vectors(), self.tag)

    @classmethod
    def of_vectors(cls, vectors: tuple[Vector, ...]) -> Any:
        """Return the reply with these integers."""
        *inner, tag = vectors
        made: Any = cls
        return made(cls.kind.of_vectors(tuple(inner)), tag)


def step_reply(kind: type[Any], *, is_summed: bool) -> type[Any]:
    """Return the message that carries a reply of some kind, and its tag."""
    known = _STEP_REPLIES.get((kind, is_summed))
    if known is None:
        known = _STEP_REPLIES[kind, is_summed] = make_dataclass(
            "StepReply",
            [("reply", kind), ("tag", NDArray[np.uint64])],
            bases=(_Summed,) if is_summed else (),
            namespace={"kind": kind, "__doc__": "A step's reply, and its tag."},
            frozen=True,
            slots=True,
            weakref_slot=True,
        )
    return known
