"""`HorizontalBoostingClassifier` and `HorizontalBoostingRegressor`: boosting over rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from spinney.errors import SettingError
from spinney.estimators.base import ClassifiesRows, PredictsNumbers
from spinney.estimators.over_rows import RowsEstimator
from spinney.seeds import job_seed
from spinney.tables.schema import Schema
from spinney.trees.threads import thread_count

if TYPE_CHECKING:
    from spinney.protocols.horizontal_boosting.settings import Settings
    from spinney.protocols.spec import Spec

Binning = Literal["quantiles", "ranges"]
_SETTINGS = (  # parameters that a job takes unchanged
    "loss",
    "learning_rate",
    "max_iter",
    "batch_trees",
    "max_depth",
    "min_samples_leaf",
    "l2_regularization",
    "subsample",
    "colsample_bytree",
    "max_features",
    "max_bins",
    "max_cells",
    "binning",
    "message_limit",
)


class _HorizontalBoosting(RowsEstimator):
    """Checks and settings of classifier and regressor."""

    def _settings(self, classes: tuple[Any, ...], sizes: dict[str, int]) -> Settings:  # noqa: ARG002
        from spinney.protocols.horizontal_boosting.settings import Settings  # noqa: PLC0415
        from spinney.protocols.settings import refuse_max_leaf_nodes  # noqa: PLC0415  loaded late

        if not isinstance(self.secure_sum, bool | np.bool_):
            raise SettingError(f"secure_sum must be True or False; got {self.secure_sum!r}.")
        refuse_max_leaf_nodes(self.max_leaf_nodes)
        return Settings(
            task="classification" if self._is_classifier else "regression",
            class_weight=self._class_weights(classes) if self._is_classifier else None,
            seed=job_seed(self.random_state),
            **{name: getattr(self, name) for name in _SETTINGS},
        )

    @property
    def _spec(self) -> Spec[Settings]:
        from spinney.protocols.horizontal_boosting import SPEC  # noqa: PLC0415  loads numba

        return SPEC

    @property
    def _is_private(self) -> bool:
        return False

    def _n_at_once(self) -> int:
        return min(2, thread_count(self.n_jobs))


class HorizontalBoostingClassifier(ClassifiesRows, _HorizontalBoosting):
    r"""Gradient boosted trees grown jointly by parties that hold different rows.

    With `party` in `fit`, the rows are dealt to simulated parties; the model is identical, bit for
    bit, to that of all rows in one place. Parameters have the names of scikit-learn's
    `HistGradientBoostingClassifier` where they exist.

    The default grows ten batches of ten trees, which takes 80 rounds instead of 600. For trees one
    after another, as elsewhere, set `batch_trees=1, learning_rate=0.1, max_depth=6, subsample=1.0,
    colsample_bytree=1.0`.

    Parameters
    ----------
    loss
        "log_loss", of two classes or more.
    learning_rate
        How far each batch of trees goes, above 0 and at most 1; each of its trees goes its share.
    max_iter
        The number of trees, for each class if there are more than two.
    batch_trees
        How many trees grow at once from the same scores. They differ by the rows and columns that
        they draw. A batch takes `max_depth` rounds.
    max_depth
        The number of levels of a tree, 1 to 16.
    min_samples_leaf
        The fewest rows of a leaf.
    l2_regularization
        What is added to the curvature of a leaf.
    subsample, colsample_bytree
        The share of rows and of columns that each tree draws, by hash.
    max_features
        The share of a tree's columns that each node draws.
    max_leaf_nodes
        Must be None, because trees grow one level at a time.
    max_bins, max_cells, binning
        As in `HorizontalForestClassifier`, without adaptive bins.
    class_weight
        None, "balanced", or a dict of weights by class.
    categorical_features, unknown_categories, schema, secure_sum, message_limit, honest, \
    random_state, n_jobs, verbose
        As in `HorizontalForestClassifier`.

    Attributes
    ----------
    classes_, n_classes_, n_features_in_, feature_names_in_, feature_importances_
        As in scikit-learn.
    model_
        The trained model, which predicts by itself.
    report_
        The report: quality, traffic, time and disclosures.
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
        max_cells: int = 33,
        binning: Binning = "quantiles",
        class_weight: Any = None,
        categorical_features: Any = "from_dtype",
        unknown_categories: Literal["refuse", "as_missing"] = "refuse",
        schema: Schema | None = None,
        secure_sum: bool = False,
        message_limit: int = 256 << 20,
        honest: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self._keep(locals())


class HorizontalBoostingRegressor(PredictsNumbers, _HorizontalBoosting):
    """Gradient boosted regression trees grown jointly by parties that hold different rows.

    Parameters are those of `HorizontalBoostingClassifier`; the loss is "squared_error". Scores and
    gradients are fixed-point numbers over the target's declared range.
    """

    _is_classifier = False

    def __init__(
        self,
        loss: Literal["squared_error"] = "squared_error",
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
        max_cells: int = 33,
        binning: Binning = "quantiles",
        categorical_features: Any = "from_dtype",
        unknown_categories: Literal["refuse", "as_missing"] = "refuse",
        schema: Schema | None = None,
        secure_sum: bool = False,
        message_limit: int = 256 << 20,
        honest: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self._keep(locals())
