"""A party's side of verified growth: it checks what it is told, and answers what follows."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from spinney.errors import ProtocolError, SpinneyError
from spinney.privacy.entropy import secret_bytes
from spinney.privacy.keys import KEY_BYTES
from spinney.privacy.streams import ring_words
from spinney.protocols.secure_sums.channel import require_unmasked
from spinney.protocols.verified.derivation import Derivation, not_the_next
from spinney.protocols.verified.messages import (
    BLIND,
    HiddenReply,
    HiddenSums,
    Opened,
    StepAsk,
    keep_hidden,
    keep_ring,
    step_reply,
    story_after,
)
from spinney.protocols.verified.tags import TAG_WORDS, SumKeys, Tag, Vector
from spinney.transport.carried import Carried
from spinney.transport.channel import Answering, Ask, ToldBack, keep_told_back
from spinney.trees.threads import thread_count

_NO_TAG = np.zeros(0, np.uint64)
Form = tuple[tuple[int, ...], bool]  # a vector's shape, and whether its numbers have 64 bits


class Steps(Protocol):
    """What a party remembers about the steps of a run."""

    def keep(self, opened: Opened) -> None:
        """Keep what a step came to, after it was checked."""
        ...

    def kept(self) -> Sequence[Opened]:
        """Return what the steps came to, from the first one on."""
        ...

    def own(self) -> bytes:
        """Return a secret of this party alone, the same in all attempts of the run."""
        ...

    def end(self, why: str) -> None:
        """Remember that no further question of the run is answered."""
        ...


class NoSteps:
    """Remembers nothing: a simulation is not resumed."""

    def keep(self, opened: Opened) -> None:
        """Forget it."""

    def kept(self) -> Sequence[Opened]:
        """Return nothing."""
        return ()

    def own(self) -> bytes:
        """Return a new secret."""
        return secret_bytes(KEY_BYTES)

    def end(self, why: str) -> None:
        """Forget it."""


class VerifyingParty:
    """A party that answers the steps of its job, in order, and nothing else.

    Parameters
    ----------
    party
        Gives the answers.
    name
        The party's name.
    keys
        What the parties share and the coordinator does not have.
    derivation
        Says which question comes next.
    is_masked
        Whether sums leave masked; then a tag is about the numbers that are masked.
    least
        How many parties a sum must contain for this party to go on with it.
    is_blind
        Whether the sums themselves are for parties only.
    steps
        What the party remembers from one attempt of a run to the next.
    """

    def __init__(
        self,
        party: Answering,
        name: str,
        keys: SumKeys,
        derivation: Derivation,
        *,
        is_masked: bool,
        least: int = 1,
        is_blind: bool = False,
        steps: Steps | None = None,
    ) -> None:
        self._party = party
        self._name = name
        self._keys = keys
        self._derivation = derivation
        self._is_masked = is_masked
        self._least = least
        self._is_blind = is_blind
        self._steps = steps or NoSteps()
        self._own = b"" if derivation.is_shared else self._steps.own()
        self._n_threads = thread_count(None)
        self._number = 1  # of the step that comes next, or is answered again
        self._story = b""  # a digest of all that was told so far
        self._answered: tuple[Ask[Any], Any] | None = None  # the present step's, if not relayed
        self._ended: ProtocolError | None = None
        self._form: list[Form] | None = None  # of the vectors of the own reply
        for opened in self._steps.kept():
            self._go_on(opened)

    def answer(self, ask: Ask[Any]) -> Any:
        """Answer the next step of the job."""
        if not isinstance(ask, StepAsk):
            raise ProtocolError(
                f"This party does not answer {type(ask).__name__}: it derives its questions from "
                "the job it accepted. Nothing was released."
            )
        self.take(ask.before)
        if ask.number != self._number:
            raise ProtocolError(
                f"Step {ask.number} does not follow: this party has been told what came out up to "
                f"step {self._number - 1}. Nothing was released."
            )
        ask.after(self._story)
        if ask.verb == ("sum" if self._is_blind else BLIND):
            raise not_the_next()
        if ask.verb == BLIND and not self._derivation.to_a_sum(self._party.answer):
            return HiddenReply((), np.zeros(TAG_WORDS, np.uint64))  # the job has ended
        about = self._derivation.question(ask)
        ask.derived(about)
        if self._is_masked and ask.verb == "ask":
            require_unmasked(about)
        return self._tagged(ask, about, self._party.answer(about))

    def take(self, told: Sequence[Opened]) -> None:
        """Check what steps came to, and go on to the step after them."""
        if self._ended is not None:
            raise self._ended
        for opened in told:
            if opened.number >= self._number:
                if opened.number > self._number:
                    raise ProtocolError(
                        f"This party was not told what step {self._number} came to. Nothing was "
                        "released."
                    )
                self._check(opened)
                self._steps.keep(opened)
                self._go_on(opened)

    def _tagged(self, ask: StepAsk, about: Ask[Any], reply: Any) -> Any:
        """Return the reply with a tag that lets the others check it."""
        made = step_reply(about.reply_type, is_summed=ask.is_summable)
        self._answered = None
        if ask.verb == "ask":
            if about.is_relayed:
                return made(reply, self._tag(_words_of(Carried(reply))))
            self._answered = (about, reply)
            return made(reply, _NO_TAG)
        if not self._is_masked:
            return self._told_early(about, made(reply, self._tag(reply.vectors())))
        ring = about.to_ring(reply)
        if not self._is_blind:
            return keep_ring(made(reply, self._tag(ring)), ring)
        tag = self._tag(ring)
        bits = [8 * vector.itemsize for vector in ring]
        words = ring_words(ring, bits, copy=not about.ring_is_fresh)
        self._keys.hide(self._number, self._story, self._name, words)
        return keep_hidden(HiddenReply(words, tag), reply)

    def _told_early(self, about: Ask[Any], tagged: Any) -> Any:
        """Return an open reply; its sum may come back early if the job waits for all parties.

        A sum over fewer, told after a part of the sum over all, would show who was left out.
        """
        waits_for_all = self._least == len(self._derivation.parties or ())
        numbers = about.numbers_ahead(tagged.reply) if waits_for_all else None
        if numbers is None:
            return tagged
        return keep_told_back(tagged, ToldBack(numbers, about.told_worth))

    def _tag(self, vectors: Sequence[Vector]) -> Tag:
        self._form = _form_of(vectors)
        n_threads, here = self._n_threads, (self._number, self._story)
        n_parties = len(self._derivation.parties or ())
        return self._keys.tag(
            *here, self._name, vectors, own=self._own, n_parties=n_parties, n_threads=n_threads
        )

    def _check(self, opened: Opened) -> None:
        """Raise unless what is told is what the parties replied."""
        if self._is_blind:
            self._derivation.to_a_sum(self._party.answer)
        present = self._derivation.present()
        if present is None:
            if self._derivation.is_shared:  # with the coordinator in one process, and not asked
                return
            raise not_the_next()
        verb, about = present
        is_checked = verb == "sum" or about.is_relayed
        is_there = self._name in opened.answered and (opened.tags.size > 0 or not is_checked)
        if self._derivation.asks_all and (not is_there or len(set(opened.answered)) < self._least):
            raise ProtocolError(
                f"The sum of step {opened.number} leaves out too many parties, or this one. "
                "Nothing was released."
            )
        if not self._keys.checked(opened, lambda: self._is_true(opened, verb, about)):
            self._ended = ProtocolError(
                f"What this party was told of step {opened.number} is not what the parties "
                "replied. The coordinator, or a party, has changed it. This party answers no "
                "further question of the run."
            )
            self._steps.end(str(self._ended))
            raise self._ended

    def _is_true(self, opened: Opened, verb: str, about: Ask[Any]) -> bool:
        """Return whether every number told has the tag of its parties."""
        known, named = self._derivation.parties, set(opened.answered)
        if not named or len(named) != len(opened.answered) or not (known is None or named <= known):
            return False
        if verb == "ask" and not about.is_relayed:
            return not opened.results and not opened.tags.size
        try:
            if verb == "sum":
                return len(opened.results) == 1 and self._is_sum(opened, about)
            return self._are_replies(opened)
        except (SpinneyError, TypeError, ValueError, IndexError, OverflowError):
            return False  # not even numbers of the right kind and shape

    def _is_sum(self, opened: Opened, about: Ask[Any]) -> bool:
        total = self._total(opened, about)
        numbers = about.to_ring(total) if self._is_masked else total.vectors()
        if _form_of(numbers) != self._own_form(about):
            return False  # a tag says nothing about shapes, and less about large numbers
        n_threads, here = self._n_threads, (self._number, self._story)
        tags = opened.tags
        if not self._keys.is_sum(*here, opened.answered, numbers, tags, n_threads=n_threads):
            return False
        # Several counts may be packed into the same words; only one reading is true.
        return not self._is_masked or about.is_read_from(numbers, total)

    def _are_replies(self, opened: Opened) -> bool:
        names, tags = opened.answered, opened.tags
        if not len(names) == len(opened.results) == len(tags):
            return False
        n_threads, here = self._n_threads, (self._number, self._story)
        return all(
            self._keys.is_sum(*here, (name,), _words_of(carried), tag, n_threads=n_threads)
            for name, carried, tag in zip(names, opened.results, tags, strict=True)
        )

    def _own_form(self, about: Ask[Any]) -> list[Form]:
        """Return the form of this party's own reply; sums have the same."""
        if self._form is None:  # the party started again after it had replied
            reply = self._party.answer(about)
            self._form = _form_of(about.to_ring(reply) if self._is_masked else reply.vectors())
        return self._form

    def _total(self, opened: Opened, about: Ask[Any]) -> Any:
        """Return the sum that was told."""
        if not self._is_blind:
            return about.taken_in(opened.results[0])

        def read() -> Any:
            words = opened.results[0].open(HiddenSums).words
            return about.from_ring(
                self._keys.show(self._number, self._story, words, opened.answered)
            )

        return self._keys.shown(opened, read)

    def _go_on(self, opened: Opened) -> None:
        """Derive the next step from what this one came to."""
        if self._is_blind:
            self._derivation.to_a_sum(self._party.answer)
        present = self._derivation.present()
        is_shared = self._derivation.is_shared
        if present is not None:  # the result is needed by who derives what follows from it
            result = None if is_shared else self._result(opened, *present)
            self._derivation.tell(result, opened.answered)
        self._story = story_after(self._story, opened, is_shared=is_shared)
        self._number = opened.number + 1
        self._answered = self._form = None

    def _result(self, opened: Opened, verb: str, about: Ask[Any]) -> Any:
        """Return what a step came to, as the training is told it."""
        if verb == "sum":
            return self._total(opened, about)
        if about.is_relayed:
            replies = (carried.open(about.reply_type) for carried in opened.results)
            return dict(zip(opened.answered, replies, strict=True))
        # Nothing that follows depends on who replied what: the party's own reply stands for all.
        known = self._answered
        own = known[1] if known is not None and known[0] is about else self._party.answer(about)
        return dict.fromkeys(opened.answered, own)


def _form_of(vectors: Sequence[Vector]) -> list[Form]:
    return [(vector.shape, vector.itemsize == 8) for vector in vectors]


def _words_of(reply: Carried) -> tuple[Vector, ...]:
    """Return the bytes of a reply as numbers, with their length first."""
    data = reply.pack()
    return np.array([len(data)], np.int64), np.frombuffer(data, np.uint8)
