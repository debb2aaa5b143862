"""The terms on which every party's ledger opens a private job, and what noise does not hide."""

from spinney.privacy.accounting import JobTerms
from spinney.privacy.scopes import PARTY_TOTALS, Budget, Disclosure, Protection
from spinney.protocols.settings import PrivacySettings


def job_terms(privacy: PrivacySettings, n_parties: int, data: str) -> JobTerms:
    """Return the terms on which a party's ledger opens a job for a data set."""
    shares = privacy.shares(n_parties)
    budgets = (Budget.pure(privacy.amount),) if privacy.epsilon else ()
    return JobTerms(privacy.job, data, n_parties, shares.honest if shares else 1, budgets)


def totals_disclosure(privacy: PrivacySettings, n_parties: int) -> Disclosure:
    """Return the disclosure of what noise does not hide: roughly how many rows a party has."""
    what, shares = "each party's counts, with noise", privacy.shares(n_parties)
    if shares is None:
        why = "noise hides a record, not how many there are"
        return Disclosure(what, Protection.UNPROTECTED, why, (PARTY_TOTALS,))
    why = f"only their sum is opened while {shares.honest} of {shares.parties} are honest"
    return Disclosure(what, Protection.HIDDEN, why, (PARTY_TOTALS,))
