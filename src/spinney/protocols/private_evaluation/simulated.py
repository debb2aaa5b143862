"""An evaluation with noise by parties in one process."""

from collections.abc import Mapping
from dataclasses import dataclass

from spinney.privacy.ledger import Ledger
from spinney.protocols.model import ForestModel
from spinney.protocols.private_evaluation.coordinator import evaluate
from spinney.protocols.private_evaluation.measures import PrivateQuality
from spinney.protocols.private_evaluation.messages import SUMMED
from spinney.protocols.private_evaluation.party import Party
from spinney.protocols.private_evaluation.settings import Settings
from spinney.protocols.training import PartyClaim
from spinney.protocols.verified.simulated import connect_parties
from spinney.tables.table import Table
from spinney.transport.channel import Round


@dataclass(frozen=True)
class Evaluated:
    """The quality that was measured, what ledgers say about its price, and its rounds."""

    quality: PrivateQuality
    claims: tuple[PartyClaim, ...]
    rounds: tuple[Round, ...]


def evaluate_models(
    models: tuple[ForestModel, ...],
    tables: Mapping[str, Table],
    ledgers: Mapping[str, Ledger],
    settings: Settings,
    *,
    rows: str,
    n_jobs: int | None = None,
    data: str | None = None,
) -> Evaluated:
    """Evaluate models with simulated parties, each of which pays from its ledger for `data`."""
    sides = {
        name: Party(table, ledgers[name], n_parties=len(tables), n_jobs=n_jobs, data=data)
        for name, table in tables.items()
    }
    channel = connect_parties(
        sides,
        is_masked=settings.privacy.in_shares,
        privacy=settings.privacy,
        honest=settings.privacy.honest,
        unverified=SUMMED,
    )
    quality, claims = evaluate(channel, models, settings, rows)
    return Evaluated(quality, claims, tuple(channel.rounds))
