"""Parties in one process: the channel that every simulation and estimator uses."""

from collections.abc import Callable, Mapping
from uuid import uuid4

from spinney.protocols.secure_sums.simulated import secure_parties
from spinney.protocols.settings import PrivacySettings
from spinney.protocols.verified.channel import VerifiedSums
from spinney.protocols.verified.derivation import SharedDerivation, SharedQuestions
from spinney.protocols.verified.messages import StepAsk
from spinney.protocols.verified.party import VerifyingParty
from spinney.protocols.verified.tags import SumKeys
from spinney.transport.channel import Answering, Channel
from spinney.transport.in_process import InProcess


def connect_parties(
    parties: Mapping[str, Answering],
    *,
    is_masked: bool,
    privacy: PrivacySettings | None = None,
    honest: int | None = None,
    is_blind: bool = False,
    connect: Callable[[dict[str, Answering]], Channel] = InProcess,
) -> Channel:
    """Return the channel to parties in one process.

    Parameters
    ----------
    parties
        The sides, by name.
    is_masked
        Whether sums are masked.
    privacy
        The privacy of a private job. Its sums need all parties: a missing party takes its share of
        the noise with it.
    honest
        How many parties must be honest for the masks to hold; None: half of them, rounded up.
    is_blind
        Whether masked sums are for the parties only.
    connect
        What carries the messages.
    """
    if len(parties) == 1 and not is_masked:
        return connect(dict(parties))  # there is nobody to be protected from
    keys, questions = SumKeys.fresh(), SharedQuestions()
    sides: dict[str, Answering] = {
        name: VerifyingParty(
            side,
            name,
            keys,
            SharedDerivation(questions),
            is_masked=is_masked,
            is_blind=is_blind,
        )
        for name, side in parties.items()
    }
    if not is_masked:
        return VerifiedSums(connect(sides), questions)
    if privacy is not None:
        privacy.shares(len(sides))  # raises the clearest error if `honest` is wrong
    masked = secure_parties(
        sides,
        connect,
        (StepAsk,),
        job=f"simulation {uuid4()}",
        honest=honest,
        min_survivors=None if privacy is None else len(sides),
    )
    return VerifiedSums(masked, questions, blind=keys if is_blind else None)
