"""Models to compare with: of all rows pooled, and of each simulated party alone, without noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from spinney.errors import SettingError
from spinney.estimators.base import ForestEstimator
from spinney.transport.in_process import InProcess
from spinney.typing import Floats, silent

if TYPE_CHECKING:
    from spinney.protocols.model import ForestModel
    from spinney.protocols.spec import Spec
    from spinney.tables.table import MemoryTable


class Compares(ForestEstimator):
    """Train the models that a simulation compares with, if `baselines` asks for them."""

    def _compare(self, tables: dict[str, MemoryTable], spec: Spec[Any], settings: Any) -> None:
        """Train the pooled model and each party's own model."""
        self.__dict__.pop("baselines_", None)
        if not getattr(self, "baselines", False):
            return
        from spinney.protocols.horizontal_forest.spec import SPEC  # noqa: PLC0415  loads numba

        name, exact = spec.baseline(settings)
        own = spec if spec.name == name else SPEC
        self.baselines_: dict[str, Any] = {
            "pooled": _alone(tables, own, exact, self.n_jobs),
            "local": {
                party: _alone({party: table}, own, exact, self.n_jobs)
                for party, table in tables.items()
            },
        }

    def compare(self, X: Any, y: Any) -> dict[str, Any]:
        """Return the scores of this model, of the pooled model, and of each party's own.

        Scores are the accuracy, or R2 for numbers. `fit` must have `baselines=True`, which only a
        simulation may, because it pools rows without noise. A party whose rows all have the same
        class has no own model: None. Nor has a party that holds columns without labels. Of evolved
        trees, "federated" is the mean of all parties' trees, and "pooled" and "local" are trees
        that were grown at home, without evolving.
        """
        check_is_fitted(self)
        if not hasattr(self, "baselines_"):
            raise SettingError(
                f"This {type(self).__name__} has nothing to compare with: it was fitted, but "
                "without the pooled model and the parties' own models. In a simulation, fit it "
                "again with baselines=True."
            )
        truth = np.asarray(y)

        def score(found: Floats) -> float:
            if not self._is_classifier:
                from sklearn.metrics import r2_score  # noqa: PLC0415  loaded late

                return float(r2_score(truth, found))
            return float(np.mean(self.classes_.take(found.argmax(axis=1)) == truth))

        def score_of(model: ForestModel | None) -> float | None:
            return None if model is None else score(self._predicted_by(model, X))

        return {
            "federated": score(self._predicted(X)),
            "pooled": score_of(self.baselines_["pooled"]),
            "local": {name: score_of(m) for name, m in self.baselines_["local"].items()},
        }

    def _predicted_by(self, model: ForestModel, X: Any) -> Floats:
        """Return what a model to compare with predicts."""
        return self._predicted(X, model)


def _alone(
    tables: dict[str, MemoryTable], spec: Spec[Any], settings: Any, n_jobs: int | None
) -> ForestModel | None:
    """Return a model without noise; None if all rows have the same class."""
    from spinney.protocols.spec import PartySite  # noqa: PLC0415  loaded late

    first = next(iter(tables.values()))
    targets = [table.targets for table in tables.values()]
    if first.schema.label.kind == "class" and np.unique(np.concatenate(targets)).size < 2:
        return None
    sides = {
        name: spec.party(table, settings, PartySite(name, n_jobs)) for name, table in tables.items()
    }
    trained = spec.train(InProcess(sides), settings, n_jobs=n_jobs, progress=silent)
    return trained.model
