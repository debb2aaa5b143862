"""`PrivateForestClassifier`: a forest that costs its epsilon once, in one secure sum."""

from typing import Any, Literal

from spinney.estimators.base import PredictsClasses
from spinney.estimators.private_base import PrivateEstimator
from spinney.protocols import private_forest
from spinney.protocols.settings import ForestSettings
from spinney.protocols.spec import Spec
from spinney.seeds import job_seed
from spinney.tables.schema import Schema


class PrivateForestClassifier(PredictsClasses, PrivateEstimator):
    """A differentially private forest over parties that hold different rows.

    Trees are drawn at random within the public ranges of the columns, which costs nothing; the
    whole budget goes to the class counts of their leaves, in one secure sum. It is at its best
    where many columns tell a little each and ranges are well chosen; `PrivateTreeClassifier` is
    the one to read.

    Parameters
    ----------
    epsilon
        The budget of the whole forest: pure differential privacy for a record that is added or
        removed. `ledger_` shows that it was spent.
    n_estimators
        How many trees: each has a part of the budget.
    max_depth
        How deep every tree is; they have 2**max_depth leaves each.
    shrinkage
        How strongly a leaf is drawn to its parents: by so many standard deviations of its noise.
    secure_sum
        Whether the parties' counts are masked, so that they share the noise of one sum. Else each
        adds enough for itself, and the sum has that of all of them.
    honest
        How many parties secure sums count on to keep their secrets; half of them, rounded up.
    schema
        The public facts: kinds, ranges, categories, classes. None: read from the data, which only
        a simulation may do.
    categorical_features, unknown_categories
        As in `HorizontalForestClassifier`.
    baselines
        Whether `fit` also trains, without privacy, a forest of the pooled rows and one of each
        party's own, for `compare`; only a simulation may.
    random_state
        Fixes the trees' shapes. Noise cannot be fixed.
    n_jobs, verbose
        As in `HorizontalForestClassifier`.

    Attributes
    ----------
    classes_, n_classes_, n_features_in_, feature_names_in_, feature_importances_
        As in scikit-learn; importances follow from noisy counts.
    model_, report_, ledger_
        As in `HorizontalForestClassifier`.
    baselines_
        The models without privacy, if they were asked for: "pooled", and "local" by party.
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
        self.epsilon = epsilon
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.shrinkage = shrinkage
        self.secure_sum = secure_sum
        self.honest = honest
        self.schema = schema
        self.categorical_features = categorical_features
        self.unknown_categories = unknown_categories
        self.baselines = baselines
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

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
