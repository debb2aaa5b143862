"""The privacy, from a job file, of a job in which every tree reads every row."""

import warnings
from typing import Protocol

from msgspec import UNSET, UnsetType

from spinney.errors import SettingError, SpinneyWarning
from spinney.privacy.budget import probability
from spinney.protocols.settings import PrivacySettings, Task, as_text
from spinney.protocols.spec import JobFacts


class Priced(Protocol):
    """The keys of a job file that say what a private job costs."""

    @property
    def epsilon(self) -> int | float | None:
        """The budget of the whole job."""
        ...

    @property
    def delta(self) -> int | float | None:
        """The chance with which epsilon may not hold; None: epsilon is pure."""
        ...

    @property
    def n_rows(self) -> int | None:
        """Roughly how many rows all parties hold together, if it is declared."""
        ...

    @property
    def secure_sum(self) -> bool | None:
        """Whether sums are masked, so that the parties share the noise; the default is yes."""
        ...

    @property
    def honest(self) -> int | None:
        """How many parties must be honest for the masks to hold."""
        ...


def job_privacy(
    protocol: str,
    given: Priced,
    facts: JobFacts,
    leaf_share: float | None = None,
    *,
    tasks: tuple[Task, ...] = ("classification",),
) -> PrivacySettings:
    """Return the privacy of a job that always adds noise; raise if it gives no epsilon."""
    if facts.task not in tasks:
        raise SettingError(f"protocol = {protocol!r} is a classifier; drop task = 'regression'.")
    if given.epsilon is None:
        raise SettingError(
            f"protocol = {protocol!r} needs epsilon, the budget of the whole job. "
            "Give it in [settings]."
        )
    if given.honest is not None and given.secure_sum is False:
        raise SettingError("honest is for secure sums; drop it, or secure_sum = false.")
    warn_of_delta(given.delta, given.n_rows)
    return PrivacySettings(
        job=facts.name,
        epsilon=as_text(given.epsilon, "epsilon"),
        tree_rows="all",
        leaf_share=as_text(0.5 if leaf_share is None else leaf_share, "leaf_share"),
        in_shares=given.secure_sum is not False,
        honest=given.honest,
        delta=delta_text(given.delta),
    )


def delta_text(delta: float | None) -> str | UnsetType:
    """Return a user's delta as exact text; left out if it is None."""
    return UNSET if delta is None else str(probability(delta))


def warn_of_delta(delta: float | None, n_rows: int | None) -> None:
    """Warn if delta is so large that it allows to publish somebody's record."""
    if delta is not None and n_rows is not None and probability(delta) * n_rows > 1:
        warnings.warn(
            f"delta={float(delta):g} is above one over the number of rows: it would allow a "
            "mechanism that publishes a record at random. Take a smaller one, such as 1e-6.",
            SpinneyWarning,
            stacklevel=5,
        )
