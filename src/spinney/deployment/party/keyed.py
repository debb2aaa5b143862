"""A party among the others in one attempt: one roster of keys, and one set of parties in sums."""

from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final

from spinney.deployment.job import Agreed
from spinney.deployment.party.steps import Memory
from spinney.errors import ProtocolError
from spinney.privacy.keys import SumSettings
from spinney.protocols.secure_sums.channel import (
    EpochAsk,
    LettersAsk,
    MaskedAsk,
    MaskedReply,
    RevealAsk,
    RevealReply,
    SecureParty,
)
from spinney.protocols.secure_sums.roster import (
    ROSTER_ASKS,
    GroupAsk,
    GroupReply,
    KeyAsk,
    RosterAsk,
    RosterParty,
    RosterReply,
)
from spinney.protocols.verified.messages import StepAsk
from spinney.transport.channel import Answering, Ask

MASK_ASKS: Final = (EpochAsk, LettersAsk, MaskedAsk, RevealAsk)
KEY_ASKS: Final = ROSTER_ASKS


class KeyedSide:
    """Answer for a party that shares keys with the others, with masked sums if the job has them.

    Parameters
    ----------
    name
        The party's name.
    inside
        Returns what answers the questions of the job, given the secret that all parties share.
    summed
        The questions whose replies are summed.
    roster
        This party's key for the attempt.
    agreed
        The accepted job: which parties may be in a sum, and how many must be.
    memory
        Returns what settles over which parties sums are opened: the ledger, which nobody can put
        back to an earlier state unnoticed.
    held
        Returns the secret that it already shares with the others in this run.
    """

    def __init__(
        self,
        name: str,
        inside: Callable[[bytes], Answering],
        summed: tuple[type[Ask[Any]], ...],
        roster: RosterParty,
        agreed: Agreed,
        *,
        memory: Callable[[], Memory],
        held: Callable[[], bytes | None] = lambda: None,
    ) -> None:
        self._name = name
        self._held = held
        self._make = inside
        self._summed = summed
        self._roster = roster
        self._agreed = agreed
        self._memory = memory
        self._taken: tuple[RosterAsk, SumSettings, RosterReply] | None = None
        self._group: GroupAsk | None = None
        self._inside: Answering | None = None
        self._questions: dict[int, str] = {}  # round -> the question it is about
        self._counted: dict[int, frozenset[str]] = {}  # round -> whose replies are not zeros

    def answer(self, ask: Ask[Any]) -> Any:
        """Answer a question of the job."""
        match ask:
            case KeyAsk():
                return self._roster.key(ask)
            case RosterAsk():
                return self._take(ask)
            case GroupAsk():
                return self._share(ask)
        inside = self._inside
        if inside is None:
            raise ProtocolError("This party does not yet have the other parties' keys.")
        if isinstance(inside, SecureParty):
            match ask:
                case MaskedAsk():
                    return self._masked(ask, inside)
                case RevealAsk() if not self._agreed.needs_all:
                    return self._opened(ask, inside)
        return inside.answer(ask)

    def _take(self, ask: RosterAsk) -> RosterReply:
        """Accept the roster, only once: two rosters would allow a sum to be opened twice."""
        if self._taken is None:
            job = self._agreed
            honest = job.honest_among(len(ask.names))
            settings = self._roster.take(
                ask, job.parties, max(2, job.quorum), honest, needs_all=job.needs_all
            )
            reply = RosterReply(len(ask.names), self._roster.letters(settings, self._held()))
            self._taken = (ask, settings, reply)
        if self._taken[0] != ask:
            raise ProtocolError(
                "This party already accepted another roster of keys in this attempt. "
                "Nothing was released."
            )
        return self._taken[2]

    def _share(self, ask: GroupAsk) -> GroupReply:
        """Take the secret that all parties share, only once."""
        if self._taken is None:
            raise ProtocolError("This party does not yet have the other parties' keys.")
        settings = self._taken[1]
        if self._inside is None:
            inside = self._make(self._roster.secret(settings, ask))
            if self._agreed.is_masked:
                masks = self._roster.masks(settings)
                inside = SecureParty(inside, masks, self._name, self._summed)
            self._inside, self._group = inside, ask
        if self._group != ask:
            raise ProtocolError(
                "This party already accepted another secret in this attempt. Nothing was released."
            )
        return GroupReply(len(settings.roster))

    def _roster_names(self) -> frozenset[str]:
        return frozenset() if self._taken is None else frozenset(self._taken[0].names)

    def _masked(self, ask: MaskedAsk, secure: SecureParty) -> MaskedReply:
        """Answer under masks; a round accepts only the first question that was answered in it."""
        question = ask.unwrapped({kind.__name__: kind for kind in self._summed})
        meant = _meaning(question)
        number = ask.mask.round_number
        if self._questions.get(number, meant) != meant:
            raise ProtocolError(
                f"Round {number} of the masks was about another question. Nothing was released."
            )
        reply: MaskedReply = secure.answer(ask)
        self._questions.setdefault(number, meant)
        about = question
        if isinstance(question, StepAsk):
            if not question.is_derived:
                return reply
            about = question.about
        self._counted[number] = frozenset(about.counted)
        return reply

    def _are_those_of_earlier_sums(self, survivors: str) -> bool:
        """Return whether all sums of the job, in any run, are over these parties; note the first.

        It is not enough to compare sums of the same nodes: a node's rows are those of its children,
        so that a sum with a party and a later one without it also differ by that party's counts.
        """
        return self._memory().settle(self._agreed.digest, "sums", survivors) == survivors

    def _opened(self, ask: RevealAsk, secure: SecureParty) -> RevealReply:
        """Open a sum; all sums of a job are over the same parties."""
        number = ask.unmask.round_number
        if number not in self._questions:
            raise ProtocolError(
                f"This party has no reply in round {number} of the masks. Nothing was released."
            )
        counted, roster = self._counted.get(number, frozenset()), self._roster_names()
        if counted < roster and not counted <= set(ask.unmask.survivors):
            raise ProtocolError(
                "A party whose numbers this sum is about has left, and the sum of the others would "
                "show theirs. Nothing was released. Start the job again with the parties that stay."
            )
        survivors = ",".join(sorted(ask.unmask.survivors))
        if not self._are_those_of_earlier_sums(survivors):
            raise ProtocolError(
                "A sum of this job was already opened for another set of parties. The difference "
                "would be the counts of whoever is in one of them only. Nothing was released. Wait "
                "until all are back, or propose the job under another name for other parties."
            )
        reply: RevealReply = secure.answer(ask)
        return reply


def _meaning(question: Ask[Any]) -> str:
    """Return what a masked question is about: a step, whatever else the question says.

    Another question is told by its own encoding: a message may say more than a question holds.
    """
    if isinstance(question, StepAsk):
        return f"step {question.number}"
    return sha256(question.called().encode() + b"\0" + question.meaning).hexdigest()
