"""The base of the private estimators: budget, secure sums, baselines, and readable trees."""

import warnings
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import numpy as np
from sklearn.utils.validation import check_is_fitted

from spinney.errors import SettingError, SpinneyWarning
from spinney.estimators.at_home import FitsAtHome
from spinney.privacy.budget import probability
from spinney.protocols import horizontal_forest
from spinney.protocols.accounts.settings import delta_text
from spinney.protocols.model import ForestModel
from spinney.protocols.settings import (
    ForestSettings,
    PrivacySettings,
    as_text,
    require_honest_masks,
)
from spinney.report.tree_picture import tree_svg
from spinney.report.tree_text import tree_text
from spinney.tables.table import MemoryTable
from spinney.transport.in_process import InProcess


def _exact(
    tables: dict[str, MemoryTable], settings: ForestSettings, n_jobs: int | None
) -> ForestModel | None:
    """Return a model without noise; None if all rows have the same class."""
    targets = [t.target if t.rows is None else t.target[t.rows] for t in tables.values()]
    if np.unique(np.concatenate(targets)).size < 2:
        return None
    parties = {n: horizontal_forest.Party(t, n_jobs=n_jobs) for n, t in tables.items()}
    return horizontal_forest.train(InProcess(parties), settings, n_jobs=n_jobs).model


class PrivateRowsEstimator(FitsAtHome):
    """Train within a privacy budget."""

    @property
    def _is_private(self) -> bool:
        return True

    @property
    def _needs_ranges(self) -> bool:
        return True

    def _privacy(self, sizes: Mapping[str, int], leaf_share: Any = 0.5) -> PrivacySettings:
        """Return the privacy settings of a simulated job with a unique name."""
        n_parties = len(sizes)
        self._warn_of_delta(sum(sizes.values()))
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

    def _warn_of_delta(self, n_rows: int) -> None:
        """Warn if delta is so large that it allows to publish somebody's record."""
        if self.delta is not None and probability(self.delta) * n_rows > 1:
            warnings.warn(
                f"delta={float(self.delta):g} is above one over the number of rows: it would allow "
                "a mechanism that publishes a record at random. Take a smaller one, such as 1e-6.",
                SpinneyWarning,
                stacklevel=4,
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


class PrivateEstimator(PrivateRowsEstimator):
    """Train within a privacy budget, and compare with models without noise on request."""

    @abstractmethod
    def _baseline(self) -> ForestSettings:
        """Return the settings of the same model without privacy."""

    def _compare(self, tables: dict[str, MemoryTable]) -> None:
        """Train the pooled model and each party's own model, if requested."""
        self.__dict__.pop("baselines_", None)
        if not self.baselines:
            return
        settings = self._baseline()
        pooled = _exact(tables, settings, self.n_jobs)
        own = {name: _exact({name: table}, settings, self.n_jobs) for name, table in tables.items()}
        self.baselines_: dict[str, Any] = {"pooled": pooled, "local": own}

    def compare(self, X: Any, y: Any) -> dict[str, Any]:
        """Return the accuracies of this model, of the pooled model, and of each party's own.

        `fit` must have `baselines=True`, which only a simulation may, because it pools rows without
        noise. A party whose rows all have the same class has no own model: None.
        """
        check_is_fitted(self, "baselines_")
        truth = np.asarray(y)

        def accuracy(model: ForestModel | None) -> float | None:
            if model is None:
                return None
            shares = self._predicted(X, model)
            return float(np.mean(self.classes_.take(shares.argmax(axis=1)) == truth))

        return {
            "federated": accuracy(self.model_),
            "pooled": accuracy(self.baselines_["pooled"]),
            "local": {name: accuracy(m) for name, m in self.baselines_["local"].items()},
        }
