"""The lower bound on epsilon that `spinney audit` shows, as the statistical tests call it."""

from spinney.audit.lower_bound import LowerBound as Audit
from spinney.audit.lower_bound import bound_epsilon as audit

__all__ = ["Audit", "audit"]
