"""The terms on which a party's ledger opens a private job, its noise, and what that cannot hide."""

from fractions import Fraction
from functools import lru_cache

from msgspec import UNSET

from spinney.errors import InternalError
from spinney.privacy.accounting import JobTerms
from spinney.privacy.budget import Measure
from spinney.privacy.mechanisms import DiscreteGaussian, DiscreteLaplace, SmoothGaussian
from spinney.privacy.release import Mechanism
from spinney.privacy.scopes import PARTY_TOTALS, Budget, Disclosure, Protection
from spinney.protocols.settings import PrivacySettings, fraction_of

Noise = DiscreteLaplace | SmoothGaussian


def job_terms(privacy: PrivacySettings, n_parties: int, data: str) -> JobTerms:
    """Return the terms on which a party's ledger opens a job for a data set."""
    shares = privacy.shares(n_parties)
    budgets = (budget_of(privacy),) if privacy.epsilon else ()
    measure = budgets[0].measure if budgets else Measure.PURE
    honest = shares.honest if shares else 1
    return JobTerms(privacy.job, data, n_parties, honest, budgets, measure)


@lru_cache(maxsize=64)
def budget_of(privacy: PrivacySettings) -> Budget:
    """Return the budget of a job: pure epsilon; with a delta, that of Gaussian noise."""
    if privacy.delta is UNSET:
        return Budget.pure(privacy.amount)
    return Budget.gaussian(privacy.amount, fraction_of(privacy.delta, "delta"))


def noise_of(
    privacy: PrivacySettings, n_parties: int, part: Fraction, moved: Fraction, squared: Fraction
) -> Noise:
    """Return the noise of one release.

    Parameters
    ----------
    privacy, n_parties
        The job's budget, and who shares the noise.
    part
        The release's part of the budget; the parts of a job add up to 1.
    moved, squared
        How much one record moves all released numbers together: the sum of the absolute changes,
        and the sum of their squares.
    """
    budget, shares = budget_of(privacy), privacy.shares(n_parties)
    if budget.measure is Measure.PURE:
        return DiscreteLaplace(budget.amount * part, moved, shares=shares)
    return SmoothGaussian(budget.amount * part, squared, shares=shares)


def summed_variance(noise: Mechanism, n_parties: int) -> float:
    """Return the variance of the noise in a sum over parties: one whole in shares, or n wholes."""
    if not isinstance(noise, DiscreteLaplace | DiscreteGaussian):
        raise InternalError(f"No variance is known for a sum of {type(noise).__name__}.")
    return noise.variance * (1 if noise.shares else n_parties)


def totals_disclosure(privacy: PrivacySettings, n_parties: int) -> Disclosure:
    """Return the disclosure of what noise does not hide: roughly how many rows a party has."""
    what, shares = "each party's counts, with noise", privacy.shares(n_parties)
    if shares is None:
        why = "noise hides a record, not how many there are"
        return Disclosure(what, Protection.UNPROTECTED, why, (PARTY_TOTALS,))
    why = f"only their sum is opened while {shares.honest} of {shares.parties} are honest"
    return Disclosure(what, Protection.HIDDEN, why, (PARTY_TOTALS,))
