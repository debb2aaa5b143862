"""Secure sums between parties in one process: their keys are set up here and nowhere else."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from spinney.privacy.keys import KeyPair, Roster, SumSettings
from spinney.privacy.masking import SecureSumParty
from spinney.protocols.secure_sums.channel import SecureParty, SecureSums
from spinney.protocols.settings import PrivacySettings
from spinney.transport.channel import Answering, Ask, Channel
from spinney.transport.in_process import InProcess


def secure_parties(
    parties: dict[str, Answering],
    connect: Callable[[dict[str, Answering]], Channel],
    known: Sequence[type[Ask[Any]]],
    *,
    job: str,
    honest: int | None = None,
    min_survivors: int | None = None,
) -> SecureSums:
    """Return a masked channel to parties in one process, each with its own fresh keys."""
    keys = {name: KeyPair.fresh() for name in parties}
    roster = Roster.of({name: key.public for name, key in keys.items()})
    settings = SumSettings.of(job, roster, honest=honest, min_survivors=min_survivors)
    wrapped: dict[str, Answering] = {
        name: SecureParty(party, SecureSumParty(settings, name, keys[name]), name, known)
        for name, party in parties.items()
    }
    return SecureSums(connect(wrapped), settings)


def connect_parties(
    parties: Mapping[str, Answering],
    summed: Sequence[type[Ask[Any]]],
    *,
    is_masked: bool,
    privacy: PrivacySettings | None = None,
    honest: int | None = None,
    connect: Callable[[dict[str, Answering]], Channel] = InProcess,
) -> Channel:
    """Return the channel to parties in one process, which every simulation and estimator uses.

    Parameters
    ----------
    parties
        The sides, by name.
    summed
        The questions whose replies are summed.
    is_masked
        Whether those sums are masked.
    privacy
        The privacy of a private job. Its sums need all parties: a missing party takes its share of
        the noise with it.
    honest
        How many parties must be honest for the masks to hold; None: half of them, rounded up.
    connect
        What carries the messages.
    """
    sides = dict(parties)
    if not is_masked:
        return connect(sides)
    if privacy is not None:
        privacy.shares(len(sides))  # raises the clearest error if `honest` is wrong
    return secure_parties(
        sides,
        connect,
        summed,
        job=f"simulation {uuid4()}",
        honest=honest,
        min_survivors=None if privacy is None else len(sides),
    )
