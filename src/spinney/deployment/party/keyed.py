"""A party among the others in one attempt: one roster of keys, and every sum opened once."""

from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final

from spinney.deployment.job import Agreed
from spinney.deployment.party.guard import RunRecord
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
    record
        The facts that this party must remember about the run.
    of_job
        The same about all runs of the job; None: it has one.
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
        record: RunRecord,
        of_job: RunRecord | None = None,
        held: Callable[[], bytes | None] = lambda: None,
    ) -> None:
        self._name = name
        self._held = held
        self._make = inside
        self._summed = summed
        self._roster = roster
        self._agreed = agreed
        self._record = record
        self._of_job = of_job or record
        self._taken: tuple[RosterAsk, SumSettings, RosterReply] | None = None
        self._group: GroupAsk | None = None
        self._inside: Answering | None = None
        self._questions: dict[int, str] = {}  # round -> the question it is about
        self._nodes: dict[int, tuple[str, int, int]] = {}  # round -> the nodes it is about
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
                case RevealAsk():
                    return self._opened(ask, inside)
        return inside.answer(ask)

    def _take(self, ask: RosterAsk) -> RosterReply:
        """Accept the roster, only once: two rosters would allow a sum to be opened twice."""
        if self._taken is None:
            job = self._agreed
            honest = job.honest_among(len(ask.names))
            settings = self._roster.take(ask, job.parties, max(2, job.quorum), honest)
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
        self._nodes[number] = (f"{about.called()} {about.step}", *about.covers)
        self._counted[number] = frozenset(about.counted)
        return reply

    def _was_opened_for_others(self, number: int, survivors: str) -> bool:
        """Return whether others were in an earlier sum of a round's nodes; else note who is now.

        A later step may be about the same nodes, after a party has left, and so is another run.
        """
        nodes = self._nodes.get(number)
        if nodes is None:
            return False
        what, first, last = nodes
        for known, others in self._of_job.known(f"nodes {what} ").items():
            begin, end = map(int, known.split("-"))
            if begin < last and first < end and others != survivors:
                return True
        self._of_job.settle(f"nodes {what} {first}-{last}", survivors)
        return False

    def _opened(self, ask: RevealAsk, secure: SecureParty) -> RevealReply:
        """Open a sum for one set of parties; two sets would differ by one party's reply."""
        number = ask.unmask.round_number
        meant = self._questions.get(number)
        if meant is None:
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
        if self._was_opened_for_others(number, survivors) or not self._record.settle(
            f"opened {meant}", survivors
        ):
            raise ProtocolError(
                "This sum was already opened for another set of parties. Nothing was released. "
                "For other parties, propose the job under another name."
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
