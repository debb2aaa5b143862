"""What a party weighs: its number of rows, with noise that its ledger has paid for (S4, line 7).

Noise hides whether one record is there, not how large a party is: that only masks hide. It is drawn
once in a job and stored, since fresh noise on a repeated question would average away.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from spinney.errors import PolicyError
from spinney.privacy.accounting import Job
from spinney.privacy.budget import Unit
from spinney.privacy.mechanisms import DiscreteLaplace
from spinney.privacy.release import Charge, Exact
from spinney.privacy.scopes import ALL_ROWS, Budget, Disclosure, Protection, Spend
from spinney.protocols.fitness import MAX_ROWS
from spinney.protocols.genetic_settings import GeneticSettings
from spinney.protocols.paying import Purse
from spinney.protocols.private_settings import PrivacySettings, fraction_of
from spinney.tables.table import Table

_SCORES = Disclosure(
    "scores of structures, depths, votes and the party's own structure",
    Protection.UNPROTECTED,
    "exact functions of the rows; no noise is added to them",
    tuple(Unit),
)


@dataclass(frozen=True)
class SizePlan:
    """The price of a party's number of rows."""

    job: str
    epsilon: str
    n_parties: int

    @property
    def privacy(self) -> PrivacySettings:
        """How much and how."""
        return PrivacySettings(job=self.job, epsilon=self.epsilon)

    @property
    def mechanism(self) -> DiscreteLaplace:
        """The noise: one record more or less changes the number by one."""
        return DiscreteLaplace(fraction_of(self.epsilon, "size_epsilon"), Fraction(1))

    def terms(self, data: str) -> Job:
        """Return the terms on which a party's ledger opens the job for a data set."""
        budget = Budget.pure(fraction_of(self.epsilon, "size_epsilon"))
        return Job(self.job, data, self.n_parties, 1, (budget,))

    def planned(self) -> list[Spend]:
        """Return all that the job may spend."""
        return [Spend("the number of rows", self.mechanism, (ALL_ROWS,))]


class SizePurse:
    """A party's number of rows, as it weighs its scores."""

    def __init__(self, table: Table, purse: Purse | None) -> None:
        self._table = table
        self._purse = purse
        self._known: dict[SizePlan, int] = {}  # what the ledger has stored, to look it up once

    def weight(self, settings: GeneticSettings, n_parties: int) -> int:
        """Return the number of rows, noised once and for all if the job says so; at least 1."""
        n_rows = self._table.n_rows
        if settings.size_epsilon is not None:
            plan = SizePlan(settings.job, settings.size_epsilon, n_parties)
            if plan not in self._known:
                self._known[plan] = self._noised(plan)
            n_rows = self._known[plan]
        return min(max(n_rows, 1), MAX_ROWS)

    def _noised(self, plan: SizePlan) -> int:
        if self._purse is None:
            raise PolicyError(
                "size_epsilon asks for noise, and this party has no ledger to pay from. "
                "Give it one."
            )

        def draw(charges: tuple[Charge, ...]) -> bytes:
            exact = Exact(np.array([self._table.n_rows], np.int64))
            return plan.mechanism.release(exact, charges[0]).values.tobytes()

        self._purse.join(plan)
        stored = self._purse.pay(plan, 0, plan, plan.planned(), draw, disclosures=[_SCORES])
        return int(np.frombuffer(stored, np.int64)[0])
