"""`HorizontalBoostingClassifier` and `HorizontalBoostingRegressor`: boosting over rows."""

from __future__ import annotations

from itertools import combinations
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from spinney.errors import SettingError
from spinney.estimators.base import ClassifiesRows, PredictsNumbers
from spinney.estimators.inputs import check_features
from spinney.estimators.over_rows import RowsEstimator
from spinney.seeds import job_seed
from spinney.tables.frames import columns_of
from spinney.tables.names import default_names
from spinney.tables.schema import Schema
from spinney.trees.threads import thread_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from spinney.privacy.ledger import Ledger
    from spinney.protocols.horizontal_boosting.settings import Settings
    from spinney.protocols.spec import Spec
    from spinney.protocols.training import Trained
    from spinney.tables.table import MemoryTable
    from spinney.typing import Floats, Progress

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
    "early_stopping",
    "validation_fraction",
    "n_iter_no_change",
    "tol",
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
            monotonic_cst=self._directions(),
            interaction_cst=self._together(),
            **{name: getattr(self, name) for name in _SETTINGS},
        )

    def _names(self) -> list[str]:
        """Return the names of the columns that `fit` saw."""
        names = getattr(self, "feature_names_in_", None)
        return list(default_names(self.n_features_in_) if names is None else map(str, names))

    def _directions(self) -> tuple[tuple[str, int], ...]:
        """Return the columns that `monotonic_cst` constrains, by name."""
        given = self.monotonic_cst
        if given is None:
            return ()
        if not isinstance(given, dict):
            names = self._names()
            if np.ndim(given) != 1 or len(given) != len(names):
                raise SettingError(
                    f"monotonic_cst must be a dict by column, or give one of -1, 0 and 1 for each "
                    f"of the {len(names)} columns; got {given!r}."
                )
            given = dict(zip(names, np.asarray(given).tolist(), strict=True))
        return tuple(sorted((str(name), direction) for name, direction in given.items()))

    def _together(self) -> tuple[tuple[str, ...], ...]:
        """Return the sets of columns that `interaction_cst` allows together, by name."""
        given, names = self.interaction_cst, self._names()
        if given is None:
            return ()
        if isinstance(given, str):
            if given not in ("pairwise", "no_interactions"):
                raise SettingError(
                    "interaction_cst must be 'pairwise', 'no_interactions' or sets of columns; "
                    f"got {given!r}."
                )
            return tuple(combinations(names, 1 if given == "no_interactions" else 2))
        return tuple(tuple(self._name_of(column, names) for column in held) for held in given)

    @staticmethod
    def _name_of(column: Any, names: list[str]) -> str:
        if not isinstance(column, Integral):
            return str(column)
        if not 0 <= int(column) < len(names):
            raise SettingError(
                f"interaction_cst names column {column}; there are {len(names)}, counted from 0."
            )
        return names[int(column)]

    def _train(
        self,
        tables: dict[str, MemoryTable],
        settings: Any,
        ledgers: dict[str, Ledger],
        progress: Progress,
    ) -> Trained:
        training: Any = super()._train(tables, settings, ledgers, progress)
        self.train_score_ = -np.array(training.curves.get("training", ()))
        self.validation_score_ = -np.array(training.curves.get("validation", ()))
        return training  # type: ignore[no-any-return]

    @property
    def n_iter_(self) -> int:
        """How many trees were grown, for each class if there are more than two."""
        check_is_fitted(self)
        boosted = self.model_.boosted
        assert boosted is not None
        return self.model_.forest.n_trees // boosted.base.size

    def _staged(self, X: Any) -> Iterator[Floats]:
        """Yield predictions after each batch of trees."""
        check_is_fitted(self)
        X = check_features(self, X, self.categorical_features, reset=False)
        columns = columns_of(X, self.model_.schema, unknown_categories=self.unknown_categories)
        yield from self.model_.staged(columns, n_threads=thread_count(self.n_jobs))

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
    early_stopping, validation_fraction, n_iter_no_change, tol
        Whether to stop when the loss on validation rows no longer falls by more than `tol` within
        `n_iter_no_change` batches. The rows are a share of all, drawn by a hash of their keys; the
        sum of their loss comes with the next batch's first reply, so that no round is added.
    monotonic_cst
        The direction in which each column may change the prediction: -1, 0 or 1, by column name or
        for every column in order. For two classes and numbers; not for category columns.
    interaction_cst
        Sets of columns, by name or position, of which one path may use one set only; "pairwise" or
        "no_interactions". Columns in no set form a set of their own.
    categorical_features, unknown_categories, schema, secure_sum, message_limit, honest, \
    random_state, n_jobs, verbose
        As in `HorizontalForestClassifier`.

    Attributes
    ----------
    classes_, n_classes_, n_features_in_, feature_names_in_, feature_importances_, n_iter_
        As in scikit-learn.
    train_score_, validation_score_
        Minus the mean loss before each batch of trees, on training and on validation rows.
    model_
        The trained model, which predicts by itself.
    report_
        The report: quality, traffic, time and disclosures.
    """

    _is_classifier = True

    def staged_predict_proba(self, X: Any) -> Iterator[Floats]:
        """Yield the probability of each class after each batch of trees."""
        yield from self._staged(X)

    def staged_predict(self, X: Any) -> Iterator[NDArray[Any]]:
        """Yield the most probable class after each batch of trees."""
        for shares in self._staged(X):
            yield self.classes_.take(shares.argmax(axis=1))

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
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-7,
        monotonic_cst: Any = None,
        interaction_cst: Any = None,
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

    Parameters are those of `HorizontalBoostingClassifier`; the loss is "squared_error", or
    "poisson" for counts, and trees draw 0.8 of the columns. Scores and gradients are fixed-point
    numbers over the target's declared range.
    """

    _is_classifier = False

    def staged_predict(self, X: Any) -> Iterator[Floats]:
        """Yield the predicted targets after each batch of trees."""
        for found in self._staged(X):
            yield found[:, 0]

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
        max_cells: int = 33,
        binning: Binning = "quantiles",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-7,
        monotonic_cst: Any = None,
        interaction_cst: Any = None,
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
