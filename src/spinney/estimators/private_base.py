"""What the private estimators share: a budget, secure sums, baselines, and trees to be read."""

from abc import abstractmethod
from typing import Any
from uuid import uuid4

import numpy as np
from sklearn.utils.validation import check_is_fitted

from spinney.errors import SettingError
from spinney.estimators.over_rows import RowsEstimator
from spinney.protocols import horizontal_forest
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
    """Return a model without noise; None where the rows are all of one class."""
    targets = [t.target if t.rows is None else t.target[t.rows] for t in tables.values()]
    if np.unique(np.concatenate(targets)).size < 2:
        return None
    parties = {n: horizontal_forest.Party(t, n_jobs=n_jobs) for n, t in tables.items()}
    return horizontal_forest.train(InProcess(parties), settings, n_jobs=n_jobs).model


class PrivateEstimator(RowsEstimator):
    """Train under a budget."""

    @property
    def _is_private(self) -> bool:
        return True

    @property
    def _needs_ranges(self) -> bool:
        return True

    def _privacy(self, n_parties: int, leaf_share: Any = 0.5) -> PrivacySettings:
        """Return the privacy of a simulated job under a name of its own; one party sums alone."""
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
        )

    def _is_masked(self, settings: Any, n_parties: int) -> bool:
        del n_parties
        return bool(settings.privacy.in_shares)

    # --- baselines -------------------------------------------------------------------------------

    @abstractmethod
    def _baseline(self) -> ForestSettings:
        """Return the settings of the same model without privacy."""

    def _compare(self, tables: dict[str, MemoryTable]) -> None:
        """Train the pooled model and each party's own, where they are asked for."""
        self.__dict__.pop("baselines_", None)
        if not self.baselines:
            return
        settings = self._baseline()
        pooled = _exact(tables, settings, self.n_jobs)
        own = {name: _exact({name: table}, settings, self.n_jobs) for name, table in tables.items()}
        self.baselines_: dict[str, Any] = {"pooled": pooled, "local": own}

    def compare(self, X: Any, y: Any) -> dict[str, Any]:
        """Return accuracies of this model, of the pooled one, and of each party's own.

        Needs `baselines=True` when fitting: a simulation, for rows were pooled without noise. A
        party whose rows are all of one class has no model of its own: None.
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

    # --- reading ---------------------------------------------------------------------------------

    def export_text(self, tree: int = 0) -> str:
        """Return a tree as text.

        Every split has its noisy gain with its standard error, every leaf its probability with the
        bounds between which noise leaves it (95 %).
        """
        check_is_fitted(self)
        return tree_text(self.model_, tree)

    def export_svg(self, tree: int = 0) -> str:
        """Return a picture of a tree, as SVG text: what `export_text` says, drawn."""
        check_is_fitted(self)
        return tree_svg(self.model_, tree)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # noise cannot be seeded
        if tags.classifier_tags is not None:
            tags.classifier_tags.poor_score = True  # on tables as small as those of checks
        return tags
