"""The base of the private estimators: budget, secure sums, and readable trees."""

from collections.abc import Mapping
from typing import Any, Self
from uuid import uuid4

import numpy as np
from sklearn.utils.validation import check_is_fitted

from spinney.errors import SettingError
from spinney.estimators.at_home import FitsAtHome
from spinney.estimators.base import refuse_others
from spinney.protocols.accounts.settings import delta_text, warn_of_delta
from spinney.protocols.settings import (
    PrivacySettings,
    as_text,
    require_honest_masks,
)
from spinney.report.tree_picture import tree_svg
from spinney.report.tree_text import tree_text


class PrivateRowsEstimator(FitsAtHome):
    """Train within a privacy budget."""

    def fit(self, X: Any, y: Any, party: Any = None, **others: Any) -> Self:
        """Grow the model; see `RowsEstimator.fit`. An error says why it takes nothing else."""
        refuse_others(self, others)
        return super().fit(X, y, party)

    @property
    def _is_private(self) -> bool:
        return True

    @property
    def _needs_ranges(self) -> bool:
        return True

    def _privacy(self, sizes: Mapping[str, int], leaf_share: Any = 0.5) -> PrivacySettings:
        """Return the privacy settings of a simulated job with a unique name."""
        n_parties = len(sizes)
        warn_of_delta(self.delta, sum(sizes.values()))
        if not isinstance(self.secure_sum, bool | np.bool_):
            raise SettingError(f"secure_sum must be True or False; got {self.secure_sum!r}.")
        require_honest_masks(self.honest, secure_sum=bool(self.secure_sum))
        in_shares = bool(self.secure_sum) and n_parties > 1
        return PrivacySettings(
            job=f"simulation {uuid4()}",
            epsilon=as_text(self.epsilon, "epsilon"),
            tree_rows="all",
            leaf_share=as_text(leaf_share, "leaf_share"),
            in_shares=in_shares,
            honest=self.honest if in_shares else None,
            delta=delta_text(self.delta),
        )

    def _is_masked(self, settings: Any, n_parties: int) -> bool:
        del n_parties
        return bool(settings.privacy.in_shares)

    # --- reading ---------------------------------------------------------------------------------

    def export_text(self, tree: int = 0) -> str:
        """Return a tree as text.

        Every split shows its noisy gain and standard error. Every leaf shows its probability and
        the 95 % bounds that the noise leaves.
        """
        check_is_fitted(self)
        return tree_text(self.model_, tree)

    def export_svg(self, tree: int = 0) -> str:
        """Return a tree as an SVG picture, with the facts of `export_text`."""
        check_is_fitted(self)
        return tree_svg(self.model_, tree)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # noise cannot be seeded
        if tags.classifier_tags is not None:
            tags.classifier_tags.poor_score = True  # on the small tables of the checks
        return tags
