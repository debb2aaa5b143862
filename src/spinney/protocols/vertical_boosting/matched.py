"""Boosting over columns from the parties' own tables: rows are matched, then the trees grow.

**Who learns what.** First as in `columns.matching`, then as in `vertical_boosting`, level by level
as in `vertical_forest`; with encrypted labels as in `columns.encrypted_coordinator`. Joined parts
are as in `columns.prediction`, its claims as in `accounts.account`. The rest is in
`columns.matched`.
"""

from typing import Any

from spinney.protocols.columns.agreeing import VerticalTraining
from spinney.protocols.columns.matched import SUMMED, MatchedParty, Term, match_then, matched_asks
from spinney.protocols.vertical_boosting.coordinator import train as boost
from spinney.protocols.vertical_boosting.party import ASKS as BOOSTING_ASKS
from spinney.protocols.vertical_boosting.party import Party as BoostingParty
from spinney.protocols.vertical_boosting.settings import MatchedSettings
from spinney.transport.channel import Channel
from spinney.typing import Progress, silent

__all__ = ["ASKS", "SUMMED", "Party", "train"]
ASKS = matched_asks(BOOSTING_ASKS)


class Party(MatchedParty):
    """One organisation's side, from its own table to its part of the trees."""

    kind = BoostingParty
    _settings: MatchedSettings

    def _own_terms(self, ask: Any) -> list[Term]:
        agreed, job = self._settings.vertical, ask.job
        return [
            ("settings", job.settings, agreed.boosting),
            ("scheme", job.scheme, agreed.scheme),
            ("key_bits", job.key_bits, agreed.key_bits),
        ]


def train(
    channel: Channel,
    settings: MatchedSettings,
    *,
    n_jobs: int | None = None,
    progress: Progress = silent,
) -> VerticalTraining:
    """Match the parties' rows and boost trees over them."""

    def grow() -> VerticalTraining:
        return boost(channel, settings.vertical, n_jobs=n_jobs, progress=progress)

    return match_then(channel, settings, progress, grow)
