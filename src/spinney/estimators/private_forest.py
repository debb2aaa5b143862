"""`PrivateForestClassifier`: a forest that spends its epsilon once, in one secure sum."""

from typing import Any, Literal

from spinney.estimators.base import ClassifiesRows
from spinney.estimators.private_base import PrivateEstimator
from spinney.protocols import private_forest
from spinney.protocols.settings import ForestSettings
from spinney.protocols.spec import Spec
from spinney.seeds import job_seed
from spinney.tables.schema import Schema


class PrivateForestClassifier(ClassifiesRows, PrivateEstimator):
    """A differentially private forest over parties that hold different rows.

    Trees are drawn at random within the public ranges of the columns, which costs no budget. The
    whole budget goes to the class counts of their leaves, in one secure sum. The forest works best
    if many columns each carry a little information and the ranges are well chosen. For a model
    that people can read, use `PrivateTreeClassifier`.

    Parameters
    ----------
    epsilon
        The budget of the whole forest: pure, record-level differential privacy for a record that
        is added or removed. `ledger_` shows that it was spent.
    n_estimators
        The number of trees; each has a share of the budget.
    max_depth
        The depth of every tree; each has 2**max_depth leaves.
    shrinkage
        How strongly a leaf is shrunk towards its parents, in standard deviations of its noise.
    secure_sum
        Secure aggregation: whether masks hide the parties' counts, so that they share the noise of
        one sum. Otherwise each party adds enough noise for itself, and the sum carries all of it.
    honest
        The number of parties that secure sums trust to keep their secrets; by default half of
        them, rounded up.
    schema
        The public facts: kinds, ranges, categories, classes. None: read from the data, which only
        a simulation may do.
    categorical_features, unknown_categories
        As in `HorizontalForestClassifier`.
    baselines
        Whether `fit` also trains forests without privacy, one on the pooled rows and one on each
        party's rows, for `compare`; only in a simulation.
    random_state
        Fixes the trees' shapes, not the noise.
    n_jobs, verbose
        As in `HorizontalForestClassifier`.

    Attributes
    ----------
    classes_, n_classes_, n_features_in_, feature_names_in_, feature_importances_
        As in scikit-learn; importances follow from noisy counts.
    model_, report_, ledger_
        As in `HorizontalForestClassifier`.
    baselines_
        The models without privacy, if requested: "pooled", and "local" by party.
    """

    _is_classifier = True

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        n_estimators: int = 20,
        max_depth: int = 5,
        shrinkage: float = 1.0,
        secure_sum: bool = True,
        honest: int | None = None,
        schema: Schema | None = None,
        categorical_features: Any = "from_dtype",
        unknown_categories: Literal["refuse", "as_missing"] = "refuse",
        baselines: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self._keep(locals())

    @property
    def _spec(self) -> Spec[private_forest.Settings]:
        return private_forest.SPEC

    def _settings(
        self,
        classes: tuple[Any, ...],  # noqa: ARG002
        sizes: dict[str, int],
    ) -> private_forest.Settings:
        return private_forest.Settings(
            privacy=self._privacy(len(sizes)),
            n_estimators=self.n_estimators,
            max_depth=self.max_depth,
            shrinkage=self.shrinkage,
            seed=job_seed(self.random_state),
        )

    def _baseline(self) -> ForestSettings:
        return ForestSettings(
            task="classification",
            n_estimators=self.n_estimators,
            max_depth=self.max_depth,
            seed=job_seed(self.random_state),
        )
