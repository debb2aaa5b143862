"""`HorizontalBoostingClassifier` and `HorizontalBoostingRegressor`: boosting over rows."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from spinney.errors import SettingError
from spinney.estimators.at_home import FitsAtHome
from spinney.estimators.base import PredictsClasses, PredictsNumbers
from spinney.estimators.boosted import Binning, BoostedEstimator, StagedClasses, StagedNumbers
from spinney.seeds import job_seed
from spinney.tables.schema import Schema
from spinney.trees.threads import thread_count, threads_for_levels

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spinney.privacy.ledger import Ledger
    from spinney.protocols.boosted.settings import Settings
    from spinney.protocols.horizontal_boosting.coordinator import SoFar
    from spinney.protocols.spec import Spec
    from spinney.protocols.training import Trained
    from spinney.tables.table import MemoryTable
    from spinney.typing import Floats, Progress


class _HorizontalBoosting(BoostedEstimator, FitsAtHome):
    """Checks and settings of classifier and regressor."""

    def _settings(self, classes: tuple[Any, ...], sizes: dict[str, int]) -> Settings:  # noqa: ARG002
        if not isinstance(self.secure_sum, bool | np.bool_):
            raise SettingError(f"secure_sum must be True or False; got {self.secure_sum!r}.")
        so_far = self._before()
        return self._boosting_settings(
            classes,
            job_seed(self.random_state) if so_far is None else so_far.job.settings.seed,
            interaction_cst=self._together(),
            message_limit=self.message_limit,
        )

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
        self._so_far = training.so_far if self.warm_start else None
        self._keep_curves(training)
        return training  # type: ignore[no-any-return]

    def fit(self, X: Any, y: Any, party: Any = None, sample_weight: Any = None) -> Self:
        """Boost the trees.

        Parameters
        ----------
        X
            A numeric array, or a data frame (pandas, polars, pyarrow).
        y
            The label of each row.
        party
            The party of each row; see `deal_rows`. None: one party holds all rows.
        sample_weight
            How much each row counts: gradients and curvatures are multiplied with it, in steps of
            2^-16 of the largest. The largest weight is public. None: all rows count alike.
        """
        return self._fitted(X, y, party, sample_weight)

    def _before(self) -> SoFar | None:
        """Return the trees that a fit adds to, if any."""
        return getattr(self, "_so_far", None) if self.warm_start else None

    def _begin_fit(self) -> None:
        if self._before() is None:  # else the model so far stays, if the fit fails
            super()._begin_fit()

    def _fitted(self, X: Any, y: Any, party: Any, sample_weight: Any = None) -> Self:
        kept = {name: held for name, held in vars(self).items() if name.endswith("_in_")}
        try:
            return super()._fitted(X, y, party, sample_weight)
        except Exception:
            if self._before() is not None:  # the model so far predicts as it did
                self.__dict__.update(kept)
            raise

    def _weighed(self, settings: Any, weight: Floats | None) -> Any:
        return settings if weight is None else replace(settings, largest_weight=weight.max().item())

    @property
    def _spec(self) -> Spec[Settings]:
        from spinney.protocols.horizontal_boosting import SPEC  # noqa: PLC0415  loads numba

        so_far = self._before()
        return SPEC if so_far is None else SPEC.after(so_far)

    def _compare(self, tables: dict[str, MemoryTable], spec: Spec[Any], settings: Any) -> None:
        from spinney.protocols.horizontal_boosting import SPEC  # noqa: PLC0415  loads numba

        del spec  # a warm start goes on from this model; the others begin anew
        super()._compare(tables, SPEC, settings)

    @property
    def _is_private(self) -> bool:
        return False

    def _threads_of_party(self, tables: Mapping[str, MemoryTable]) -> int | None:
        # Parties count in one call, so a level has the cells of all.
        cells = sum(table.n_rows * len(table.schema.columns) for table in tables.values())
        return threads_for_levels(thread_count(self.n_jobs), cells * self.batch_trees)


class HorizontalBoostingClassifier(StagedClasses, PredictsClasses, _HorizontalBoosting):
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
        As in `HorizontalForestClassifier`, without adaptive bins, and with half as many cells.
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
    warm_start
        Whether `fit` adds trees, up to `max_iter` in all, to those of the fit before, on the same
        rows. The result is that of one fit with as many trees, bit for bit.
    categorical_features, unknown_categories, schema, secure_sum, message_limit, honest, \
    baselines
        Whether `fit` also trains the pooled model and each party's own, for `compare`.
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

    def fit(self, X: Any, y: Any, party: Any = None, sample_weight: Any = None) -> Self:
        """Boost the trees; see `HorizontalBoostingRegressor.fit`."""
        return self._fitted(X, y, party, sample_weight)

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
        interaction_cst: Any = None,
        categorical_features: Any = "from_dtype",
        unknown_categories: Literal["refuse", "as_missing"] = "refuse",
        schema: Schema | None = None,
        secure_sum: bool = False,
        message_limit: int = 256 << 20,
        honest: int | None = None,
        warm_start: bool = False,
        baselines: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self._keep(locals())


class HorizontalBoostingRegressor(StagedNumbers, PredictsNumbers, _HorizontalBoosting):
    """Gradient boosted regression trees grown jointly by parties that hold different rows.

    Parameters are those of `HorizontalBoostingClassifier`; the loss is "squared_error", or
    "poisson" for counts, and trees draw 0.8 of the columns. Scores and gradients are fixed-point
    numbers over the target's declared range.
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
        interaction_cst: Any = None,
        categorical_features: Any = "from_dtype",
        unknown_categories: Literal["refuse", "as_missing"] = "refuse",
        schema: Schema | None = None,
        secure_sum: bool = False,
        message_limit: int = 256 << 20,
        honest: int | None = None,
        warm_start: bool = False,
        baselines: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self._keep(locals())
