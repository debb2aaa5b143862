"""The privacy of a horizontal forest, from the parameters that users give."""

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from spinney.errors import SettingError
from spinney.protocols.settings import (
    MECHANISMS,
    MechanismName,
    PrivacySettings,
    TreeRows,
    as_text,
    require_honest_masks,
)


@dataclass(frozen=True, kw_only=True)
class NoiseParameters:
    """The user's parameters for noise; see `HorizontalForestClassifier`."""

    epsilon: Any = None
    epsilon_per_count: Any = None
    mechanism: MechanismName = "noisy_histograms"
    tree_rows: TreeRows = "disjoint"
    sample_rate: Any = 0.5
    leaf_share: Any = 0.25
    secure_sum: bool = False
    honest: int | None = None

    @property
    def is_private(self) -> bool:
        """Whether any noise is added."""
        return self.epsilon is not None or self.epsilon_per_count is not None

    @property
    def is_noisy(self) -> bool:
        """Whether noise is added to counts while trees grow."""
        return self.is_private and self.mechanism == "noisy_histograms"

    def privacy(self, job: str | None = None) -> PrivacySettings | None:
        """Return the privacy of a job; None without noise. A simulated job gets a fresh name."""
        if self.mechanism not in MECHANISMS:
            known = " or ".join(map(repr, MECHANISMS))
            raise SettingError(f"mechanism must be {known}; got {self.mechanism!r}.")
        require_honest_masks(self.honest, secure_sum=bool(self.secure_sum))
        if not self.is_private:
            return None
        per_count = self.epsilon_per_count
        return PrivacySettings(
            job=job or f"simulation {uuid4()}",
            mechanism=self.mechanism,
            epsilon=None if self.epsilon is None else as_text(self.epsilon, "epsilon"),
            epsilon_per_count=None
            if per_count is None
            else as_text(per_count, "epsilon_per_count"),
            tree_rows=self.tree_rows,
            sample_rate=as_text(self.sample_rate, "sample_rate"),
            leaf_share=as_text(self.leaf_share, "leaf_share"),
            in_shares=bool(self.secure_sum) and self.is_noisy,
            honest=self.honest if self.is_noisy else None,
        )
