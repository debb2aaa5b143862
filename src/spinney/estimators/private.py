"""Turn an estimator's privacy parameters into the noise settings of a job, and open ledgers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spinney.privacy.ledger import Ledger
    from spinney.protocols.row_forest.settings import NoiseParameters

_PARAMETERS = (
    "epsilon",
    "epsilon_per_count",
    "mechanism",
    "tree_rows",
    "sample_rate",
    "leaf_share",
    "secure_sum",
    "honest",
)


def noise_of(estimator: Any) -> NoiseParameters:
    """Return how an estimator adds noise."""
    from spinney.protocols.row_forest.settings import NoiseParameters  # noqa: PLC0415  loads numba

    return NoiseParameters(**{name: getattr(estimator, name) for name in _PARAMETERS})


def is_private(estimator: Any) -> bool:
    """Return whether an estimator adds noise."""
    return estimator.epsilon is not None or estimator.epsilon_per_count is not None


def ledgers_of(parties: list[str]) -> dict[str, Ledger]:
    """Return a ledger for each simulated party; it ends with the process."""
    from spinney.privacy.ledger import Ledger  # noqa: PLC0415  only for private jobs

    return {name: Ledger.in_memory(name) for name in parties}
