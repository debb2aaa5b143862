"""What an evaluation costs: one release of each of its histograms."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from spinney.errors import SettingError
from spinney.privacy.accounting import JobTerms
from spinney.privacy.mechanisms import DiscreteLaplace
from spinney.privacy.scopes import Spend
from spinney.protocols.accounts.budget import job_terms
from spinney.protocols.private_evaluation.cells import Cells
from spinney.protocols.private_evaluation.settings import Settings
from spinney.protocols.settings import LARGEST_NOISE, PrivacySettings


@dataclass(frozen=True)
class EvaluationPlan:
    """What the releases cost; `shapes` are the sizes of the histograms."""

    called: ClassVar[str] = "<class 'spinney.protocols.private_evaluation.EvaluationPlan'>"

    settings: Settings
    histograms: tuple[tuple[str, int, int, str], ...]  # name, cells, per record, share
    n_parties: int

    def __post_init__(self) -> None:
        for noise, (what, *_) in zip(self.noises, self.histograms, strict=True):
            if noise.decay * LARGEST_NOISE < 1:
                raise SettingError(
                    f"epsilon={float(self.privacy.amount):.3g} is too small to evaluate with: the "
                    f"{what} would carry noise of about {float(1 / noise.decay):.3g} rows in every "
                    "count. Raise it."
                )

    @property
    def privacy(self) -> PrivacySettings:
        """The privacy of the job: its budget and mechanism."""
        return self.settings.privacy

    @cached_property
    def noises(self) -> tuple[DiscreteLaplace, ...]:
        """The noise of each histogram."""
        shares = self.privacy.shares(self.n_parties)
        return tuple(
            DiscreteLaplace(self.privacy.amount * Fraction(share), Fraction(per), shares=shares)
            for _, _, per, share in self.histograms
        )

    def planned(self) -> list[Spend]:
        """Return everything the job spends."""
        return [
            Spend(f"{what}, for an evaluation", noise, n_values=n_cells)
            for noise, (what, n_cells, *_) in zip(self.noises, self.histograms, strict=True)
        ]

    def terms(self, data: str) -> JobTerms:
        """Return the terms on which a party's ledger opens the job for a data set."""
        return job_terms(self.privacy, self.n_parties, data)


def plan_of(cells: Cells, n_parties: int) -> EvaluationPlan:
    """Return what an evaluation costs; raise if the settings cannot be met."""
    told = tuple((h.what, h.n_cells, h.per_record, str(h.share)) for h in cells.histograms)
    return EvaluationPlan(cells.settings, told, n_parties)
