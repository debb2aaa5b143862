"""What estimators of boosted trees share: their settings, stages and curves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from spinney.errors import SettingError
from spinney.estimators.base import ForestEstimator
from spinney.estimators.inputs import check_features
from spinney.tables.frames import columns_of
from spinney.tables.names import default_names
from spinney.trees.threads import thread_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from spinney.protocols.boosted.settings import Settings
    from spinney.typing import Floats

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
)


class BoostedEstimator(ForestEstimator):
    """The settings of boosted trees, and what their model shows batch by batch."""

    def _boosting_settings(self, classes: tuple[Any, ...], seed: int, **more: Any) -> Settings:
        """Return the settings of the trees."""
        from spinney.protocols.boosted.settings import Settings  # noqa: PLC0415
        from spinney.protocols.settings import refuse_max_leaf_nodes  # noqa: PLC0415  loaded late

        refuse_max_leaf_nodes(self.max_leaf_nodes)
        return Settings(
            task="classification" if self._is_classifier else "regression",
            class_weight=self._class_weights(classes) if self._is_classifier else None,
            seed=seed,
            monotonic_cst=self._directions(),
            **{name: getattr(self, name) for name in _SETTINGS},
            **more,
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

    def _keep_curves(self, training: Any) -> None:
        """Keep how the loss fell."""
        self.train_score_ = -np.array(training.curves.get("training", ()))
        self.validation_score_ = -np.array(training.curves.get("validation", ()))

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


class StagedClasses:
    """Predictions of a boosted classifier, batch by batch."""

    _staged: Any
    _decided: Any
    classes_: Any

    def staged_predict_proba(self, X: Any) -> Iterator[Floats]:
        """Yield the probability of each class after each batch of trees."""
        yield from self._staged(X)

    def staged_predict(self, X: Any) -> Iterator[NDArray[Any]]:
        """Yield the most probable class after each batch of trees."""
        for shares in self._staged(X):
            yield self.classes_.take(self._decided(shares))


class StagedNumbers:
    """Predictions of a boosted regressor, batch by batch."""

    _staged: Any

    def staged_predict(self, X: Any) -> Iterator[Floats]:
        """Yield the predicted targets after each batch of trees."""
        for found in self._staged(X):
            yield found[:, 0]
