"""How the budget of Truex's tree is divided: exactly, and every party computes it.

A record is in one node of a level and in one cell of every column. A level takes 2 epsilon_1 =
epsilon / (d + 1) of the budget: half for the rows of its nodes, half for the cells of all columns.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from spinney.errors import SettingError
from spinney.privacy.accounting import JobTerms
from spinney.privacy.mechanisms import DiscreteLaplace
from spinney.privacy.scopes import ALL_ROWS, Budget, Spend
from spinney.protocols.settings import PrivacySettings, fraction_of

MOST_DEPTH = 15


@dataclass(frozen=True, kw_only=True)
class TruexSettings:
    """What the job fixes; `privacy` has its name, its epsilon, and how noise is shared."""

    privacy: PrivacySettings
    max_depth: int = 6
    task: str = "classification"

    def __post_init__(self) -> None:
        if not isinstance(self.max_depth, int) or not 1 <= self.max_depth <= MOST_DEPTH:
            raise SettingError(
                f"max_depth must be a whole number between 1 and {MOST_DEPTH}; "
                f"got {self.max_depth!r}."
            )
        if self.privacy.epsilon is None:
            raise SettingError("A private tree needs epsilon, the budget of the whole job.")


@dataclass(frozen=True)
class TruexPlan:
    """What each release costs; every party computes it from public facts."""

    called: ClassVar[str] = "Truex's tree"

    settings: TruexSettings
    n_columns: int
    n_parties: int

    @property
    def privacy(self) -> PrivacySettings:
        """The privacy of the job: its budget and mechanism."""
        return self.settings.privacy

    @cached_property
    def node_epsilon(self) -> Fraction:
        """epsilon_1: for a node's rows, for all its columns together, and for a leaf's classes."""
        whole = fraction_of(self.privacy.epsilon or "", "epsilon")
        return whole / (2 * (self.settings.max_depth + 1))

    def noises(self, depth: int) -> list[DiscreteLaplace]:
        """Return the noise of a level's vectors: nodes' rows, cells' rows, cells by class."""
        shares = self.privacy.shares(self.n_parties)
        whole = DiscreteLaplace(self.node_epsilon, Fraction(1), shares=shares)
        if depth == self.settings.max_depth + 1:
            return [whole]
        # one record is in one cell of every column
        cells = DiscreteLaplace(self.node_epsilon / 2, Fraction(self.n_columns), shares=shares)
        return [whole, cells, cells]

    def spends(self, depth: int) -> list[Spend]:
        """Return the price of a level, or of the leaves."""
        noises = self.noises(depth)
        names = [f"{what} of level {depth}" for what in ("rows", "rows by cell", "class counts")]
        if len(noises) == 1:
            names = ["class counts of leaves"]
        return [Spend(name, noise, (ALL_ROWS,)) for name, noise in zip(names, noises, strict=True)]

    def terms(self, data: str) -> JobTerms:
        """Return the terms on which a party's ledger opens the job for a data set."""
        shares = self.privacy.shares(self.n_parties)
        budget = Budget.pure(fraction_of(self.privacy.epsilon or "", "epsilon"))
        honest = shares.honest if shares else 1
        return JobTerms(self.privacy.job, data, self.n_parties, honest, (budget,))

    def planned(self) -> list[Spend]:
        """Return everything the job may spend."""
        levels = [*range(self.settings.max_depth), self.settings.max_depth + 1]
        return [spend for depth in levels for spend in self.spends(depth)]
