"""A party's masks in one attempt: one roster, one question per round, every sum opened once."""

from hashlib import sha256
from typing import Any, Final

from spinney.deployment.job import Agreed
from spinney.deployment.party.guard import RunRecord
from spinney.errors import ProtocolError
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
    KeyAsk,
    RosterAsk,
    RosterParty,
    RosterReply,
)
from spinney.transport.channel import Answering, Ask

MASK_ASKS: Final = (*ROSTER_ASKS, EpochAsk, LettersAsk, MaskedAsk, RevealAsk)


class MaskedSide:
    """Answer for a party with masked sums (secure aggregation).

    Parameters
    ----------
    party
        Gives the answers to be masked.
    summed
        The questions whose replies are summed.
    roster
        This party's key for the attempt.
    agreed
        The accepted job: which parties may be in a sum, and how many must be.
    record
        The facts that this party must remember about the run.
    """

    def __init__(
        self,
        name: str,
        party: Answering,
        summed: tuple[type[Ask[Any]], ...],
        roster: RosterParty,
        agreed: Agreed,
        *,
        record: RunRecord,
    ) -> None:
        self._name = name
        self._party = party
        self._summed = summed
        self._roster = roster
        self._agreed = agreed
        self._record = record
        self._taken: RosterAsk | None = None
        self._secure: SecureParty | None = None
        self._questions: dict[int, str] = {}  # round -> digest of its question

    def answer(self, ask: Ask[Any]) -> Any:
        """Answer a question of the job."""
        match ask:
            case KeyAsk():
                return self._roster.key(ask)
            case RosterAsk():
                return self._take(ask)
        if self._secure is None:
            raise ProtocolError("This party does not yet have the other parties' keys.")
        match ask:
            case MaskedAsk():
                return self._masked(ask, self._secure)
            case RevealAsk():
                return self._opened(ask, self._secure)
        return self._secure.answer(ask)

    def _take(self, ask: RosterAsk) -> RosterReply:
        """Accept the roster, only once: two rosters would allow a sum to be opened twice."""
        if self._taken is not None and ask != self._taken:
            raise ProtocolError(
                "This party already accepted another roster of keys in this attempt. "
                "Nothing was released."
            )
        if self._taken is None:
            job = self._agreed
            honest = job.honest_among(len(ask.names))
            masks = self._roster.masks(ask, job.parties, max(2, job.quorum), honest)
            self._secure = SecureParty(self._party, masks, self._name, self._summed)
            self._taken = ask
        return RosterReply(len(ask.names))

    def _masked(self, ask: MaskedAsk, secure: SecureParty) -> MaskedReply:
        """Answer under masks; a round accepts only the first question that was answered in it."""
        asked = sha256(ask.kind.encode() + b"\0" + ask.question).hexdigest()
        number = ask.mask.round_number
        if self._questions.get(number, asked) != asked:
            raise ProtocolError(
                f"Round {number} of the masks was about another question. Nothing was released."
            )
        reply: MaskedReply = secure.answer(ask)
        self._questions.setdefault(number, asked)
        return reply

    def _opened(self, ask: RevealAsk, secure: SecureParty) -> RevealReply:
        """Open a sum for one set of parties; two sets would differ by one party's reply."""
        number = ask.unmask.round_number
        asked = self._questions.get(number)
        if asked is None:
            raise ProtocolError(
                f"This party has no reply in round {number} of the masks. Nothing was released."
            )
        survivors = ",".join(sorted(ask.unmask.survivors))
        if not self._record.settle(f"opened {asked}", survivors):
            raise ProtocolError(
                "This sum was already opened for another set of parties. Nothing was released."
            )
        reply: RevealReply = secure.answer(ask)
        return reply
