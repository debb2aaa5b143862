"""The coordinator's side of an evaluation with noise: one question, then arithmetic."""

import numpy as np

from spinney.errors import ProtocolError
from spinney.protocols.accounts.account import claims_of
from spinney.protocols.model import ForestModel
from spinney.protocols.private_evaluation.budget import EvaluationPlan, plan_of
from spinney.protocols.private_evaluation.cells import Cells
from spinney.protocols.private_evaluation.measures import (
    Noisy,
    PartQuality,
    PrivateQuality,
    qualities_of,
)
from spinney.protocols.private_evaluation.messages import EvaluationAsk
from spinney.protocols.private_evaluation.settings import Settings
from spinney.protocols.training import PartyClaim
from spinney.transport.channel import Channel
from spinney.typing import Integers

ALL: str = "all parties"


def evaluate(
    channel: Channel, models: tuple[ForestModel, ...], settings: Settings, rows: str
) -> tuple[PrivateQuality, tuple[PartyClaim, ...]]:
    """Ask the parties on the channel; return the quality, and what their ledgers promise."""
    cells, n_parties = Cells.of(models, settings), len(channel.parties)
    plan = plan_of(cells, n_parties)  # raises before any party is asked
    ask = EvaluationAsk(settings, n_parties, tuple(model.to_bytes() for model in models))
    parts: list[PartQuality] = []
    if settings.per_party:
        replies = channel.ask(ask)
        each = {name: _checked(plan, reply.counters) for name, reply in replies.items()}
        for name, counters in each.items():
            parts += qualities_of(cells, noisy_parts(cells, plan, counters, 1), name)
        total = sum(each.values(), np.zeros_like(next(iter(each.values()))))
    else:
        total = _checked(plan, channel.sum(ask).counters)
    n_noises = 1 if settings.privacy.in_shares else n_parties
    noisy = noisy_parts(cells, plan, total, n_noises)
    quality = PrivateQuality(
        rows,
        str(settings.privacy.epsilon),
        tuple(map(str, cells.schema.label.classes or ())),
        (*qualities_of(cells, noisy, ALL), *parts),
        len(models),
    )
    return quality, claims_of(channel, settings.privacy)


def _checked(plan: EvaluationPlan, counters: Integers) -> Integers:
    if counters.size != sum(n_cells for _, n_cells, *_ in plan.histograms):
        raise ProtocolError("A party's noisy counts do not match the histograms asked about.")
    return counters


def noisy_parts(
    cells: Cells, plan: EvaluationPlan, counters: Integers, n_noises: int
) -> tuple[Noisy, ...]:
    """Return the histograms with the law of their noise: as many noises as were added up."""
    ends = np.cumsum([histogram.n_cells for histogram in cells.histograms])
    pieces = np.split(counters, ends[:-1])
    return tuple(
        Noisy.of(histogram.what, piece.reshape(histogram.shape), noise, n_noises)
        for histogram, piece, noise in zip(cells.histograms, pieces, plan.noises, strict=True)
    )
