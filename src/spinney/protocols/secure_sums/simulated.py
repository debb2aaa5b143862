"""Secure sums between parties in one process: their keys are set up here and nowhere else."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from spinney.privacy.keys import KeyPair, Roster, SumSettings
from spinney.privacy.masking import SecureSumParty
from spinney.protocols.secure_sums.channel import SecureParty, SecureSums
from spinney.transport.channel import Answering, Ask, Channel


def secure_parties(
    parties: dict[str, Answering],
    connect: Callable[[dict[str, Answering]], Channel],
    known: Sequence[type[Ask[Any]]],
    *,
    job: str,
    honest: int | None = None,
    min_survivors: int | None = None,
    needs_all: bool = False,
) -> SecureSums:
    """Return a masked channel to parties in one process, each with its own fresh keys.

    `needs_all` says that no party is ever missing, as by default in a deployed job.
    """
    keys = {name: KeyPair.fresh() for name in parties}
    roster = Roster.of({name: key.public for name, key in keys.items()})
    if needs_all:
        min_survivors = len(roster)
    settings = SumSettings.of(job, roster, honest=honest, min_survivors=min_survivors)
    settings = replace(settings, needs_all=needs_all)
    masks = {name: SecureSumParty(settings, name, keys[name]) for name in parties}
    wrapped: dict[str, Answering] = {
        name: SecureParty(party, masks[name], name, known) for name, party in parties.items()
    }
    return SecureSums(connect(wrapped), settings)
