"""What a private forest costs: one release of the counts of all leaves."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from spinney.errors import SettingError
from spinney.privacy.accounting import JobTerms
from spinney.privacy.mechanisms import DiscreteLaplace
from spinney.privacy.scopes import Spend
from spinney.protocols.accounts.budget import Noise, job_terms, noise_of
from spinney.protocols.accounts.private_rows import require_classes, require_ranges, require_small
from spinney.protocols.private_forest.settings import Settings
from spinney.protocols.rows.facts import public_binning
from spinney.protocols.settings import LARGEST_NOISE, PrivacySettings
from spinney.tables.schema import Schema
from spinney.trees.binning import Binning
from spinney.trees.dtypes import MAX_BINS


@dataclass(frozen=True)
class ForestPlan:
    """What the one release costs."""

    called: ClassVar[str] = "<class 'spinney.protocols.private_forest.ForestPlan'>"

    settings: Settings
    n_classes: int
    n_parties: int

    def __post_init__(self) -> None:
        require_small(
            f"{self.settings.n_estimators} trees of depth {self.settings.max_depth} over "
            f"{self.n_classes} classes",
            self.n_counters,
            self.settings.message_limit,
            "Grow fewer trees, or shallower ones.",
        )
        noise = self.noise  # raises if the shares are impossible
        each = self.privacy.amount / self.settings.n_estimators
        is_pure = isinstance(noise, DiscreteLaplace)
        if is_pure and each * LARGEST_NOISE < 1:
            n_trees = int(self.privacy.amount * LARGEST_NOISE)
            advice = f"n_estimators={n_trees} would work" if n_trees else "Raise epsilon"
            raise SettingError(
                f"n_estimators={self.settings.n_estimators} leaves too little budget for each "
                f"tree: epsilon={float(each):.3g}, with noise of about {float(1 / each):.3g} rows "
                f"in every leaf. {advice}."
            )
        if not is_pure and noise.variance > LARGEST_NOISE**2:
            raise SettingError(
                f"n_estimators={self.settings.n_estimators} leaves too little budget for each "
                f"tree: noise of about {noise.variance**0.5:.3g} rows in every leaf. Raise "
                "epsilon, or grow fewer trees."
            )

    @property
    def privacy(self) -> PrivacySettings:
        """The privacy of the job: its budget and mechanism."""
        return self.settings.privacy

    @property
    def n_counters(self) -> int:
        """How many counters the reply has."""
        return self.settings.n_estimators * (1 << self.settings.max_depth) * self.n_classes

    @cached_property
    def noise(self) -> Noise:
        """The noise of every leaf's counts; a record is in one leaf of every tree."""
        n_trees = Fraction(self.settings.n_estimators)
        return noise_of(self.privacy, self.n_parties, Fraction(1), n_trees, n_trees)

    def planned(self) -> list[Spend]:
        """Return everything the job spends."""
        what = f"class counts of the leaves of {self.settings.n_estimators} random trees"
        return [Spend(what, self.noise, n_values=self.n_counters)]

    def terms(self, data: str) -> JobTerms:
        """Return the terms on which a party's ledger opens the job for a data set."""
        return job_terms(self.privacy, self.n_parties, data)


def bins_of(schema: Schema) -> Binning:
    """Return the finest possible bins of every column, from public facts."""
    require_ranges(schema)
    return public_binning(schema, MAX_BINS)


def plan_of(schema: Schema, settings: Settings, n_parties: int) -> ForestPlan:
    """Return what the job costs; raise if the settings cannot be met."""
    return ForestPlan(settings, require_classes(schema), n_parties)
