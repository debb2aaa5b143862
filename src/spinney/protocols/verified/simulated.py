"""Parties in one process: the channel that every simulation and estimator uses."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from spinney.protocols.secure_sums.simulated import secure_parties
from spinney.protocols.settings import PrivacySettings
from spinney.protocols.verified.channel import VerifiedSums
from spinney.protocols.verified.derivation import SharedDerivation, SharedQuestions
from spinney.protocols.verified.messages import StepAsk
from spinney.protocols.verified.party import VerifyingParty
from spinney.protocols.verified.tags import SumKeys
from spinney.transport.channel import Answering, Ask, Channel
from spinney.transport.in_process import InProcess


def connect_parties(
    parties: Mapping[str, Answering],
    *,
    is_masked: bool,
    privacy: PrivacySettings | None = None,
    honest: int | None = None,
    is_blind: bool = False,
    unverified: Sequence[type[Ask[Any]]] = (),
    connect: Callable[[dict[str, Answering]], Channel] = InProcess,
) -> Channel:
    """Return the channel to parties in one process, of which none is ever missing.

    Parameters
    ----------
    parties
        The sides, by name.
    is_masked
        Whether sums are masked.
    privacy
        The privacy of a private job.
    honest
        How many parties must be honest for the masks to hold; None: half of them, rounded up.
    is_blind
        Whether masked sums are for the parties only.
    unverified
        For a job whose sums only the coordinator may see, so that parties cannot check them: its
        questions whose replies are summed.
    connect
        What carries the messages.
    """
    sides: dict[str, Answering] = dict(parties)
    if not is_masked and (unverified or len(sides) == 1):  # alone, a party has nobody to check
        return connect(sides)
    keys, questions = SumKeys.fresh(), SharedQuestions()
    if not unverified:
        for name, side in parties.items():
            own = SharedDerivation(questions)
            sides[name] = VerifyingParty(
                side, name, keys, own, is_masked=is_masked, is_blind=is_blind
            )
    channel = connect(sides) if not is_masked else None
    if channel is None:
        if privacy is not None:
            privacy.shares(len(sides))  # raises the clearest error if `honest` is wrong
        channel = secure_parties(
            sides,
            connect,
            unverified or (StepAsk,),
            job=f"simulation {uuid4()}",
            honest=honest,
            needs_all=True,
        )
    if unverified:
        return channel
    return VerifiedSums(channel, questions, blind=keys if is_blind else None)
