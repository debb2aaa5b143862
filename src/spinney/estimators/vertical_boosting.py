"""`VerticalBoostingClassifier` and `VerticalBoostingRegressor`: boosting over columns."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self

from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from spinney.estimators.base import PredictsClasses, PredictsNumbers
from spinney.estimators.boosted import Binning, BoostedEstimator, StagedClasses, StagedNumbers
from spinney.estimators.inputs import is_complete
from spinney.estimators.vertical_base import ColumnsEstimator
from spinney.protocols.columns.settings import Labels, Place, SchemeName
from spinney.seeds import job_seed
from spinney.tables.schema import Schema
from spinney.trees.threads import threads_for_levels

if TYPE_CHECKING:
    from collections.abc import Collection

    from spinney.estimators.column_party import ColumnParties
    from spinney.protocols.training import Roles
    from spinney.typing import Floats, Integers


class _VerticalBoosting(BoostedEstimator, ColumnsEstimator):
    """The settings of classifier and regressor."""

    _keys_by_content = True  # as in boosting over rows, so that both give the same trees

    def _vertical_settings(self, classes: tuple[Any, ...]) -> Any:
        from spinney.protocols.vertical_boosting.settings import VerticalSettings  # noqa: PLC0415

        boosting = self._boosting_settings(classes, job_seed(self.random_state))
        return VerticalSettings(boosting=boosting, **self._label_settings())

    @property
    def _family(self) -> Any:
        from spinney.protocols import vertical_boosting  # noqa: PLC0415  loads numba

        return vertical_boosting

    def _threads(self, n_rows: int, parties: ColumnParties) -> int:
        n_threads = super()._threads(n_rows, parties)
        if self.labels == "encrypted":
            return n_threads
        widest = max(map(len, parties.columns.values()))
        return threads_for_levels(n_threads, n_rows * widest * self.batch_trees)

    def _narrowed(self, settings: Any, names: Collection[str]) -> Any:
        directions = settings.boosting.monotonic_cst
        kept = tuple(one for one in directions if one[0] in names)
        return replace(settings, boosting=replace(settings.boosting, monotonic_cst=kept))

    def _keep_training(self, training: Any) -> None:
        self._keep_curves(training)

    @property
    def own_importances_(self) -> dict[str, Floats]:
        """Each party's own columns' shares of the gain of all trees; no part is joined for it."""
        check_is_fitted(self, "partial_models_")
        from spinney.protocols.columns.explaining import own_importances  # noqa: PLC0415

        return own_importances(self.partial_models_)

    def contributions(self, X: Any) -> dict[str, Floats]:
        """Return how much each party's columns move each row's score, (n_rows, n_outputs).

        They are Shapley values with parties as players: for every row they add up to its score
        (log odds, or the target) minus the mean score of training rows. They take one round, as a
        prediction does, and show no party another's columns.
        """
        check_is_fitted(self, "partial_models_")
        from spinney.protocols.columns.explaining import contributions  # noqa: PLC0415  loads numba

        roles: Roles = self.roles_
        return contributions(roles, self._predicting(X), self.partial_models_[roles.label_party])


class VerticalBoostingClassifier(StagedClasses, PredictsClasses, _VerticalBoosting):
    r"""Gradient boosted trees grown jointly by parties that hold different columns of some rows.

    The model is identical, bit for bit, to that of all columns in one place, and to that of
    `HorizontalBoostingClassifier` with one party, whether labels are encrypted or not. Parameters
    have the names of scikit-learn's `HistGradientBoostingClassifier` where they exist.

    Parameters
    ----------
    loss, learning_rate, max_iter, batch_trees, max_depth, min_samples_leaf, l2_regularization, \
    subsample, colsample_bytree, max_features, max_leaf_nodes, max_bins, max_cells, binning, \
    class_weight, monotonic_cst
        As in `HorizontalBoostingClassifier`. A batch takes `2 * max_depth + 1` rounds, or
        `3 * max_depth + 1` if labels are encrypted.
    early_stopping, validation_fraction, n_iter_no_change, tol
        As in `HorizontalBoostingClassifier`; the label party computes the loss.
    column_party, label_party, scheme, key_bits, intersect_at, consent
        As in `VerticalForestClassifier`.
    labels
        "shared": every party gets the encoded labels. "encrypted": only the label party has them;
        for each tree it encrypts what is left to correct in each row, and the others sum
        ciphertexts.
    label_epsilon
        The epsilon for randomising every label once, before anything leaves the label party (pure
        label differential privacy). None: exact labels. Works with both values of `labels`.
    categorical_features, unknown_categories, schema, random_state, n_jobs, baselines, verbose
        As in `VerticalForestClassifier`.

    Attributes
    ----------
    classes_, n_classes_, n_features_in_, feature_names_in_, feature_importances_, n_iter_
        As in scikit-learn.
    train_score_, validation_score_
        Minus the mean loss before each batch of trees, on training and on validation rows.
    partial_models_
        Each party's part of the trees, by name.
    model_
        The model joined from all parts, which predicts by itself; needs `consent`.
    report_
        The report: quality, traffic, time, disclosures, and how many labels node membership
        reveals.
    ledger_
        With `label_epsilon`, the label party's ledger, by its name; otherwise empty.
    """

    _is_classifier = True

    def __init__(
        self,
        loss: Literal["log_loss"] = "log_loss",
        *,
        learning_rate: float = 0.6,
        max_iter: int = 100,
        batch_trees: int = 10,
        max_depth: int = 8,
        min_samples_leaf: int = 20,
        l2_regularization: float = 0.0,
        subsample: float = 0.8,
        colsample_bytree: float = 0.6,
        max_features: float = 1.0,
        max_leaf_nodes: int | None = None,
        max_bins: int = 255,
        max_cells: int = 17,
        binning: Binning = "quantiles",
        class_weight: Any = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-7,
        monotonic_cst: Any = None,
        column_party: Any = None,
        label_party: str | None = None,
        labels: Labels = "shared",
        label_epsilon: float | None = None,
        scheme: SchemeName = "auto",
        key_bits: int = 2048,
        intersect_at: Place = "label_party",
        consent: Any = "all",
        categorical_features: Any = "from_dtype",
        unknown_categories: Literal["refuse", "as_missing"] = "refuse",
        schema: Schema | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        baselines: bool = False,
        verbose: int = 0,
    ) -> None:
        self._keep(locals())

    def fit(self, X: Any, y: Any, **others: Any) -> Self:
        """Boost trees over the parties that `column_party` names."""
        if y is not None and is_complete(y):  # our own check refuses the rest
            check_classification_targets(y)
        return super().fit(X, y, **others)

    def _decided(self, shares: Floats) -> Integers:
        """Return the most probable class by its number; the parts need not be joined for it."""
        best: Integers = shares.argmax(axis=1)
        return best


class VerticalBoostingRegressor(StagedNumbers, PredictsNumbers, _VerticalBoosting):
    """Gradient boosted regression trees grown jointly by parties that hold different columns.

    Parameters are those of `VerticalBoostingClassifier`; the loss is "squared_error", or "poisson"
    for counts, and trees draw 0.8 of the columns. Scores and gradients are fixed-point numbers over
    the target's declared range.
    """

    _is_classifier = False

    def __init__(
        self,
        loss: Literal["squared_error", "poisson"] = "squared_error",
        *,
        learning_rate: float = 0.6,
        max_iter: int = 100,
        batch_trees: int = 10,
        max_depth: int = 8,
        min_samples_leaf: int = 20,
        l2_regularization: float = 0.0,
        subsample: float = 0.8,
        colsample_bytree: float = 0.8,
        max_features: float = 1.0,
        max_leaf_nodes: int | None = None,
        max_bins: int = 255,
        max_cells: int = 17,
        binning: Binning = "quantiles",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-7,
        monotonic_cst: Any = None,
        column_party: Any = None,
        label_party: str | None = None,
        labels: Labels = "shared",
        label_epsilon: float | None = None,
        scheme: SchemeName = "auto",
        key_bits: int = 2048,
        intersect_at: Place = "label_party",
        consent: Any = "all",
        categorical_features: Any = "from_dtype",
        unknown_categories: Literal["refuse", "as_missing"] = "refuse",
        schema: Schema | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        baselines: bool = False,
        verbose: int = 0,
    ) -> None:
        self._keep(locals())
