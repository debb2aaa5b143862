"""A vertical forest from the parties' own tables: rows are matched, then the forest grows.

**Who learns what.** First as in `columns.matching`, then as in `vertical_forest`; with encrypted
labels as in `columns.encrypted_coordinator`. Joined parts are as in `columns.prediction`, its
claims as in `accounts.account`. The rest is in `columns.matched`.
"""

from pathlib import Path
from typing import Any

from spinney.protocols.columns.agreeing import VerticalTraining
from spinney.protocols.columns.matched import SUMMED, MatchedParty, Term, match_then, matched_asks
from spinney.protocols.vertical_forest.coordinator import train as grow_forest
from spinney.protocols.vertical_forest.job import public_settings
from spinney.protocols.vertical_forest.messages import SealAsk
from spinney.protocols.vertical_forest.party import ASKS as FOREST_ASKS
from spinney.protocols.vertical_forest.party import Party as ForestParty
from spinney.protocols.vertical_forest.settings import MatchedSettings
from spinney.transport.channel import Channel
from spinney.typing import Progress, silent

__all__ = ["ASKS", "SUMMED", "Party", "train"]
ASKS = matched_asks(FOREST_ASKS)


class Party(MatchedParty):
    """One organisation's side, from its own table to its part of the forest."""

    kind = ForestParty
    _settings: MatchedSettings

    def _own_terms(self, ask: Any) -> list[Term]:
        agreed = self._settings.vertical
        terms: list[Term] = [("settings", ask.job.settings, public_settings(agreed.forest))]
        if isinstance(ask, SealAsk):
            terms += [
                ("scheme", ask.scheme, agreed.scheme),
                ("key_bits", ask.key_bits, agreed.key_bits),
            ]
        return terms


def train(
    channel: Channel,
    settings: MatchedSettings,
    *,
    checkpoint: Path | None = None,
    n_jobs: int | None = None,
    progress: Progress = silent,
) -> VerticalTraining:
    """Match the parties' rows and grow a forest; parameters as in `vertical_forest.train`."""
    vertical = settings.vertical

    def grow() -> VerticalTraining:
        return grow_forest(
            channel, vertical, checkpoint=checkpoint, n_jobs=n_jobs, progress=progress
        )

    return match_then(channel, settings, progress, grow)
