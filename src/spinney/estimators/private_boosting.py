"""`PrivateBoostingClassifier` and `PrivateBoostingRegressor`: boosting that trusts nobody."""

from typing import Any, Literal

from sklearn.utils.validation import check_is_fitted

from spinney.estimators.base import PredictsClasses, PredictsNumbers
from spinney.estimators.private_base import PrivateRowsEstimator
from spinney.protocols import private_boosting
from spinney.protocols.settings import Task
from spinney.protocols.spec import Spec
from spinney.seeds import job_seed
from spinney.tables.schema import Schema

MethodName = Literal["auto", "cyclic", "pairs"]
_SETTINGS = (  # parameters that a job takes unchanged
    "method",
    "n_passes",
    "max_depth",
    "learning_rate",
    "batch_trees",
    "edges",
)


class _PrivateBoosting(PrivateRowsEstimator):
    """Settings of classifier and regressor."""

    @property
    def _spec(self) -> Spec[private_boosting.Settings]:
        return private_boosting.SPEC

    @property
    def _counts_rows(self) -> bool:
        """Whether the number of rows is read from the data."""
        return self.n_rows is None and self.schema is None

    def _sizes_read(self) -> tuple[str, ...]:
        return ("number of rows",) if self._counts_rows else ()

    def _settings(
        self, classes: tuple[Any, ...], sizes: dict[str, int]
    ) -> private_boosting.Settings:
        del classes
        task: Task = "classification" if self._is_classifier else "regression"
        return private_boosting.Settings(
            privacy=self._privacy(sizes),
            task=task,
            n_rows=self.n_rows,
            assumed_rows=sum(sizes.values()) if self._counts_rows else None,
            seed=job_seed(self.random_state),
            **{name: getattr(self, name) for name in _SETTINGS},
        )

    @property
    def method_(self) -> str:
        """The method used."""
        check_is_fitted(self, "report_")
        return str(self.report_.settings["method"])

    @property
    def choice_(self) -> str:
        """What was chosen, and the public facts from which it follows."""
        check_is_fitted(self, "report_")
        return str(self.report_.settings["why"])


class PrivateBoostingClassifier(PredictsClasses, _PrivateBoosting):
    """Differentially private boosted trees over parties that hold different rows.

    Trees are drawn at random within public bins, and grow better batch by batch from noisy sums of
    gradients. Nobody sees an exact number: not the coordinator, not another party. At equal epsilon
    it predicts better than `PrivateForestClassifier` and `PrivateTreeClassifier` on most tables.

    Parameters
    ----------
    epsilon
        The budget of the whole model, for a record that is added or removed. `ledger_` shows that
        it was spent.
    delta
        The chance with which epsilon may not hold for a record: noise is Gaussian. It should be far
        below one over the number of rows. None: epsilon is pure, noise is Laplace and larger.
    method
        "cyclic": every tree divides one column; all trees of a column together are its shape
        function, a curve that people can read. "pairs": every tree divides two columns. "auto"
        is "cyclic" for classes and "pairs" for numbers; `choice_` names the choice and the reason.
    n_passes
        The number of trees for each column. None: chosen from `n_rows`, the numbers of columns and
        classes, epsilon and delta, as are the next three.
    max_depth
        The depth of every tree.
    learning_rate
        How far each tree goes, above 0 and at most 1.
    batch_trees
        How many trees are counted in one round. None: as many as keep a job to 40 rounds.
    edges
        "private": columns are divided where rows are, by noisy histograms that cost a tenth of the
        budget. "public": the declared ranges are divided into equal parts.
    n_rows
        The approximate number of rows of all parties together, as a public fact. None: 4,000 are
        assumed; without a schema they are counted, which only a simulation may do.
    secure_sum
        Secure aggregation: whether masks hide the parties' sums, so that they share the noise of
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
        Whether `fit` also trains the pooled forest and each party's own, without noise, for
        `compare`.
    random_state
        Fixes the trees' shapes, not the noise.
    n_jobs, verbose
        As in `HorizontalForestClassifier`.

    Attributes
    ----------
    classes_, n_classes_, n_features_in_, feature_names_in_, feature_importances_
        As in scikit-learn; importances follow from noisy sums.
    model_, report_, ledger_
        As in `HorizontalForestClassifier`.
    method_, choice_
        The method used, and what was chosen from which public facts.
    """

    _is_classifier = True

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float | None = 1e-6,
        method: MethodName = "auto",
        n_passes: int | None = None,
        max_depth: int | None = None,
        learning_rate: float | None = None,
        batch_trees: int | None = None,
        edges: Literal["private", "public"] = "private",
        n_rows: int | None = None,
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


class PrivateBoostingRegressor(PredictsNumbers, _PrivateBoosting):
    """Differentially private boosted regression trees over parties that hold different rows.

    Parameters are those of `PrivateBoostingClassifier`. How far a residual pulls is bounded by
    the targets' standard deviation, as a noisy histogram of the declared range tells it. With
    `delta`, and where rows and budget carry it, a smooth curve for each column is fitted beside the
    trees, and that bound falls as residuals do; and after two passes over all columns, trees take
    the columns that have mattered, by the noisy sums so far. `choice_` says both.
    """

    _is_classifier = False

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float | None = 1e-6,
        method: MethodName = "auto",
        n_passes: int | None = None,
        max_depth: int | None = None,
        learning_rate: float | None = None,
        batch_trees: int | None = None,
        edges: Literal["private", "public"] = "private",
        n_rows: int | None = None,
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
