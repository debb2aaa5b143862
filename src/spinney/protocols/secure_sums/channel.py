"""`channel.sum` under masks (secure aggregation): the coordinator sees sums and no summand.

Bonawitz et al. (2017), *Practical Secure Aggregation*, in the form described in
`spinney.privacy.masking`. There is a wrapper at each end: `SecureSums` around the coordinator's
channel, `SecureParty` around a party. Protocols do not change.

**Who learns what.** The coordinator learns the sum over the parties that answered, and who they
were. It learns nothing about one party's numbers, as long as at most K - t parties collude with
it. Parties learn each other's public keys and who dropped out. `ask` is not masked: what a
protocol asks party by party stays visible. A party refuses an unmasked answer to a question whose
replies are meant to be summed.

**Dropouts.** A party that does not answer a round is out for the rest of the job, and a sum is the
sum over the parties that answered it. Later counts do not include its rows; earlier counts stand.
So the forest is the one that grows unmasked if that party's counts are zero from the round it
missed (bins are laid again over the parties that stay). It cannot come back: sums of the same nodes
with and without it would differ by its own counts. For the same reason leaving can leak: if a sum
before and a sum after cover the same rows (a node's rows and its children's), their difference is
what the departed party had there. So a deployed party opens all sums of a job for the same parties,
and a run waits for who is away (`deployment.party.keyed`). Below `min_survivors` the job ends and
nothing is opened.

If noise is drawn in shares (`privacy.release`), no party may be missing at all: colluding parties
may know K - t shares, so a claim for t honest parties needs all K parties in the sum. Every party
checks this itself before it opens a round, whatever the settings of the sums allow. It also checks
that the masks hold against at least as many colluding parties as the noise does.

**Rounds and bytes.** One ask per sum if no party may be missing (`SumSettings.needs_all`): masks
follow from the keys on the roster. Otherwise two, and two more every 32 sums for fresh keys. Masked
numbers cannot be packed by their own magnitude; counts take as many bits as a known bound of their
sum.
"""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, ClassVar

from spinney.errors import ProtocolError
from spinney.privacy.keys import KeysAsk, KeysReply, SharesAsk, SharesReply, SumSettings
from spinney.privacy.masking import (
    MaskAsk,
    MaskReply,
    SecureSumCoordinator,
    SecureSumParty,
    UnmaskAsk,
    UnmaskReply,
)
from spinney.privacy.release import shares_in
from spinney.transport.carried import Carried
from spinney.transport.channel import (
    Answering,
    Ask,
    Channel,
    Reply,
    Round,
    Running,
    Summand,
    ToldBack,
    keep_told_back,
)
from spinney.transport.messages import message

AskTypes = dict[str, type[Ask[Any]]]


@message
class EpochReply:
    """A party's public key, its sealed pair secrets and its sealed letters to the others."""

    keys: KeysReply


@message
class EpochAsk(Ask[EpochReply]):
    """Which keys do you use for the next sums?"""

    keys: KeysAsk
    reveals: ClassVar[str] = "a public key, sealed keys and key shares; nothing of the table"
    reply_type: ClassVar[type[Any]] = EpochReply


@message
class LettersReply:
    """The letters were opened."""

    shares: SharesReply


@message
class LettersAsk(Ask[LettersReply]):
    """Will you take these letters? (Each party opens its own.)"""

    recipients: tuple[str, ...]
    shares: tuple[SharesAsk, ...]
    reveals: ClassVar[str] = "nothing"
    reply_type: ClassVar[type[Any]] = LettersReply


@message
class MaskedReply:
    """A party's masked numbers: uniformly random words to anyone without the shares."""

    masked: MaskReply


@message
class MaskedAsk(Ask[MaskedReply]):
    """What is your masked answer to this question?"""

    mask: MaskAsk
    kind: str
    question: Carried
    reveals: ClassVar[str] = "masked numbers"
    reply_type: ClassVar[type[Any]] = MaskedReply

    def running(self, n_parties: int, *, is_masked: bool) -> Running | None:
        """Return what tells the sum of the question inside while masked numbers come in."""
        del is_masked
        inner: Ask[Any] = self.question.open(Ask)
        return inner.running(n_parties, is_masked=True)

    def unwrapped(self, known: AskTypes) -> Ask[Any]:
        """Return the question inside."""
        if self.kind not in known:
            raise ProtocolError(f"This party does not answer {self.kind!r} with masks.")
        return self.question.open(known[self.kind])


@message
class RevealReply:
    """Shares that open the sum."""

    shares: UnmaskReply


@message
class RevealAsk(Ask[RevealReply]):
    """Which shares open the sum over these survivors?"""

    unmask: UnmaskAsk
    reveals: ClassVar[str] = (
        "shares of one mask key for each party, checks of dropped parties' keys"
    )
    reply_type: ClassVar[type[Any]] = RevealReply


def require_unmasked(ask: Ask[Any]) -> None:
    """Raise if a question must not be answered without masks in a job that has them."""
    if ask.refused_under_masks:
        raise ProtocolError(
            f"This party does not answer {type(ask).__name__}: its job has secure_sum=True, "
            "and the reply would show what masks hide."
        )
    if ask.is_summable:
        raise ProtocolError(
            f"This party answers {type(ask).__name__} only with masks: its job has secure_sum=True."
        )


class SecureParty:
    """A party that masks every reply that is to be summed."""

    def __init__(
        self, party: Answering, masks: SecureSumParty, name: str, known: Sequence[type[Ask[Any]]]
    ) -> None:
        self._party = party
        self._masks = masks
        self._name = name
        self._known: AskTypes = {kind.__name__: kind for kind in known}
        self._n_needed: dict[int, int] = {}  # round -> parties that share the noise of its sum

    def answer(self, ask: Ask[Any]) -> Any:
        """Answer a question; mask the reply if it is to be summed."""
        match ask:
            case EpochAsk():
                return EpochReply(self._masks.make_keys(ask.keys))
            case LettersAsk():
                return LettersReply(self._masks.take_shares(self._own_letters(ask)))
            case MaskedAsk():
                return self._masked(ask)
            case RevealAsk():
                self._require_all_shares(ask.unmask)
                return RevealReply(self._masks.unmask(ask.unmask))
        require_unmasked(ask)
        return self._party.answer(ask)

    def _own_letters(self, ask: LettersAsk) -> SharesAsk:
        if ask.recipients.count(self._name) != 1 or len(ask.recipients) != len(ask.shares):
            raise ProtocolError(
                f"The letters must be for each party once, with party {self._name!r} among them. "
                "Nothing was revealed."
            )
        return ask.shares[ask.recipients.index(self._name)]

    def _masked(self, ask: MaskedAsk) -> MaskedReply:
        """Answer the question inside and mask the reply."""
        settings, mask = self._masks.settings, ask.mask
        own = settings.roster.bits([self._name])
        if any(survivors and not survivors & own for survivors in set(mask.history)):
            raise ProtocolError(
                f"Party {self._name!r} missed an earlier sum of this job and cannot rejoin: "
                "sums with and without it would differ by its own counts. Start the job again."
            )
        question = ask.unwrapped(self._known)
        reply = self._party.answer(question)
        shares = shares_in(question.unhidden(reply))
        if shares and (shares.parties != len(settings.roster) or shares.honest < settings.honest):
            raise ProtocolError(
                f"{shares.parties} parties share the noise, of which {shares.honest} must be "
                f"honest; the masks are for {len(settings.roster)} and need {settings.honest}. "
                "Agree on masks that need no more honest parties than the noise. Nothing was "
                "released."
            )
        if shares:
            self._n_needed[mask.round_number] = shares.parties
        vectors = question.to_ring(reply)
        bits = [8 * vector.itemsize for vector in vectors]
        taken, about = question.ring_is_fresh, question.meaning
        masked = MaskedReply(self._masks.mask(mask, vectors, bits, about=about, taken=taken))
        if settings.needs_all and question.is_told_back:  # no mask is left in the sum over all
            told = ToldBack(masked.masked.vectors[0], question.told_worth)
            keep_told_back(masked, told)
        return masked

    def _require_all_shares(self, unmask: UnmaskAsk) -> None:
        """Raise if a party's share of the noise is missing from a sum."""
        n_there, n_needed = len(unmask.survivors), self._n_needed.get(unmask.round_number, 0)
        if n_there < n_needed:
            raise ProtocolError(
                f"Round {unmask.round_number}: only {n_there} of the {n_needed} parties that share "
                "the noise are in the sum, so the sum has too little noise. "
                "Nothing was revealed; ask again when all are there."
            )


class SecureSums(Channel):
    """A channel with a masked `sum`; `ask` is passed through unchanged.

    A party that misses a round is not asked again.
    """

    is_masked = True

    def __init__(self, inner: Channel, settings: SumSettings) -> None:
        self._inner = inner
        self._settings = settings
        self._coordinator = SecureSumCoordinator(settings)
        self.parties = inner.parties
        self.rounds: list[Round] = []
        self._present = inner.parties

    def ask(
        self, ask: Ask[Reply], *, to: Sequence[str] | None = None, quorum: int | None = None
    ) -> dict[str, Reply]:
        """Ask all parties, unmasked; lost parties are left out, down to the quorum."""
        if to is None:
            replies = self._ask_present(ask, quorum or self._settings.min_survivors)
        else:
            replies = self._inner.ask(ask, to=to, quorum=quorum)
        self._adopt(self._inner.rounds[-1:], ask, "ask", tuple(replies))
        return replies

    def sum(self, ask: Ask[Summand], *, quorum: int | None = None) -> Summand:
        """Ask all parties and learn only the sum of their replies.

        Lost parties are left out, down to the job's `min_survivors` or to a larger quorum.
        """
        begin, mark = perf_counter(), len(self._inner.rounds)
        if not self._coordinator.rounds_left:
            self._begin_epoch()
        round_ = self._coordinator.begin_round(ask.meaning)
        masked = MaskedAsk(round_, type(ask).__name__, Carried(ask))
        least = max(self._settings.min_survivors, quorum or 0)
        replies = self._ask_present(masked, least)
        for masked_reply in replies.values():
            self._coordinator.add_vector(masked_reply.masked)
        unmask = self._coordinator.end_vectors()
        if not self._settings.needs_all:
            shares = self._ask_present(RevealAsk(unmask), self._settings.threshold)
            for share in shares.values():
                self._coordinator.add_shares(share.shares)
        total: Summand = ask.from_ring(self._coordinator.sums())
        self._adopt(self._inner.rounds[mark:], ask, "sum", unmask.survivors, perf_counter() - begin)
        return total

    def _begin_epoch(self) -> None:
        quorum = self._settings.min_survivors
        keys = self._ask_present(EpochAsk(self._coordinator.begin_epoch()), quorum)
        for reply in keys.values():
            self._coordinator.add_keys(reply.keys)
        letters = self._coordinator.end_keys()
        self._ask_present(LettersAsk(tuple(letters), tuple(letters.values())), quorum)

    def _ask_present(self, ask: Ask[Reply], quorum: int) -> dict[str, Reply]:
        """Ask all parties that have answered so far; one that does not answer now has left."""
        replies = self._inner.ask(ask, to=self._present, quorum=quorum)
        self._present = tuple(name for name in self._present if name in replies)
        return replies

    def _adopt(
        self,
        parts: Sequence[Round],
        ask: Ask[Any],
        verb: str,
        answered: tuple[str, ...],
        seconds: float | None = None,
    ) -> None:
        """Record the inner rounds as one round."""
        honest, n_parties = self._settings.honest, len(self._settings.roster)
        masked = masked_in_words(honest, n_parties)
        self.rounds.append(
            Round(
                len(self.rounds) + 1,
                ask.called(),
                verb,
                ask.reveals,
                masked if verb == "sum" else parts[-1].protection,
                _totals(parts, self.parties, lambda part: part.bytes_down),
                _totals(parts, self.parties, lambda part: part.bytes_up),
                sum(part.seconds for part in parts) if seconds is None else seconds,
                answered,
            )
        )


def masked_in_words(honest: int, n_parties: int) -> str:
    """Return how a masked sum is protected."""
    return f"masked: single replies are hidden while {honest} of {n_parties} parties are honest"


def _totals(
    parts: Sequence[Round], parties: tuple[str, ...], size: Callable[[Round], Any]
) -> dict[str, int]:
    return {name: sum(size(part).get(name, 0) for part in parts) for name in parties}
