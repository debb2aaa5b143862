"""From an estimator's privacy parameters to the settings of a private job."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from spinney.errors import SettingError

if TYPE_CHECKING:
    from spinney.protocols.settings import MechanismName, PrivacySettings


def is_private(estimator: Any) -> bool:
    """Tell whether an estimator is to add noise."""
    return estimator.epsilon is not None or estimator.epsilon_per_count is not None


def is_noisy(estimator: Any) -> bool:
    """Tell whether noise is added to counts while trees grow."""
    return is_private(estimator) and estimator.mechanism == "noisy_histograms"


def privacy_settings(estimator: Any, job: str | None = None) -> PrivacySettings | None:
    """Return the privacy of a job; None without noise.

    Parameters
    ----------
    estimator
        What holds the parameters.
    job
        The job's name; None: a simulated job under a name of its own.
    """
    from spinney.protocols.settings import (
        MECHANISMS,
        PrivacySettings,
        as_text,
    )

    if estimator.mechanism not in MECHANISMS:
        known = " or ".join(map(repr, MECHANISMS))
        raise SettingError(f"mechanism must be {known}; got {estimator.mechanism!r}.")
    if estimator.honest is not None and not estimator.secure_sum:
        raise SettingError(
            "honest says how many parties' secrets a secure sum rests on. It needs "
            "secure_sum=True; without it each party's own noise is enough for itself."
        )
    if not is_private(estimator):
        return None

    def text(name: str) -> str | None:
        value = getattr(estimator, name)
        return None if value is None else as_text(value, name)

    mechanism: MechanismName = estimator.mechanism
    return PrivacySettings(
        job=job or f"simulation {uuid4()}",
        mechanism=mechanism,
        epsilon=text("epsilon"),
        epsilon_per_count=text("epsilon_per_count"),
        tree_rows=estimator.tree_rows,
        sample_rate=as_text(estimator.sample_rate, "sample_rate"),
        leaf_share=as_text(estimator.leaf_share, "leaf_share"),
        in_shares=bool(estimator.secure_sum) and is_noisy(estimator),
        honest=estimator.honest if is_noisy(estimator) else None,
    )


def with_read_facts(settings: Any, facts: tuple[str, ...]) -> Any:
    """Return the settings of a job that knows which public facts were read from the rows."""
    if settings.privacy is None:
        return settings
    return replace(settings, privacy=replace(settings.privacy, read_facts=facts))
