"""The base class of all forest estimators: prediction, saving, export.

`fit` loads the protocols, and numba with them. Importing an estimator imports scikit-learn and
little more.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from spinney.errors import SettingError
from spinney.estimators.inputs import check_features, is_complete
from spinney.seeds import job_seed
from spinney.tables.frames import columns_of
from spinney.tables.schema import Label, Schema
from spinney.tables.withheld import has_withheld
from spinney.trees.threads import thread_count
from spinney.typing import Floats, Integers, Values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spinney.protocols.model import ForestModel
    from spinney.tables.columns import Columns


_SETTINGS: Final = (  # parameters that a job takes unchanged
    "n_estimators",
    "criterion",
    "max_depth",
    "min_samples_split",
    "min_samples_leaf",
    "min_weight_fraction_leaf",
    "min_impurity_decrease",
    "max_features",
    "max_bins",
    "oob_score",
)


class ForestEstimator(BaseEstimator):  # type: ignore[misc]
    """Everything that works with a trained forest, whichever protocol trained it.

    Subclasses define `_is_classifier` and `fit`.
    """

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"party": True}
    _is_classifier: bool

    def _keep(self, given: Mapping[str, Any]) -> None:
        """Store a constructor's parameters, its `locals()`, unchanged, as scikit-learn requires."""
        kind: Any = type(self)
        for name in _parameters_of(kind):
            setattr(self, name, given[name])

    def _adopt(self, model: ForestModel) -> None:
        """Make a trained model this estimator's model."""
        self.model_ = model
        self.n_features_in_ = len(model.schema.columns)
        self.n_outputs_ = 1

    @property
    def feature_importances_(self) -> Floats:
        """Each column's share of the decrease in impurity, averaged over trees."""
        check_is_fitted(self)
        return self.model_.importances()

    def _predicted(self, X: Any, model: ForestModel | None = None) -> Floats:
        """Return the mean over trees, (n_rows, n_outputs), of `model` or of this estimator's."""
        check_is_fitted(self)
        model = model or self.model_
        X = check_features(self, X, self.categorical_features, reset=False)
        columns = columns_of(X, model.schema, unknown_categories=self.unknown_categories)
        return model.predict(columns, n_threads=thread_count(self.n_jobs))

    def apply(self, X: Any) -> Integers:
        """Return the leaf of each row in each tree, (n_rows, n_trees); a tree's root is 0.

        Nodes have the numbers that they have in `to_sklearn`.
        """
        from spinney.estimators.paths import leaves_of  # noqa: PLC0415  loaded late

        columns = self._columns(X)
        return leaves_of(self.model_, columns)

    def decision_path(self, X: Any) -> tuple[Any, Integers]:
        """Return the nodes on each row's paths, as scikit-learn's forests do.

        The first result is a sparse matrix, rows by nodes of all trees; the second says where each
        tree's nodes begin.
        """
        from spinney.estimators.paths import paths_of  # noqa: PLC0415  loaded late

        columns = self._columns(X)
        return paths_of(self.model_, columns)

    def _columns(self, X: Any) -> Columns:
        """Return X as the model reads it."""
        check_is_fitted(self)
        X = check_features(self, X, self.categorical_features, reset=False)
        return columns_of(X, self.model_.schema, unknown_categories=self.unknown_categories)

    def _consented(self) -> ForestModel:
        """Return the model, with the names of the parties that consented, if it needs that."""
        check_is_fitted(self)
        return self.model_

    def _leaving(self, *, exact: bool) -> ForestModel:
        """Return the model to be saved or exported, as it may leave.

        A model that several parties grew is hardened, unless its only reader is who holds all their
        rows and asks for it as it was trained. One party's own model stays as it is.
        """
        model = self._consented()
        if hasattr(model, "home"):
            raise SettingError(
                "A model that a party fitted at home stays there: it shows how common each class "
                "is among the party's rows. Save or export the joint model; `for_party` fits it "
                "again."
            )
        report = getattr(self, "report_", None)
        if exact or report is None or report.release is None:
            return model
        from spinney.report.door import release  # noqa: PLC0415  loads the protocols

        return release(model, report.release)[0]

    def save(self, path: str | os.PathLike[str], *, exact: bool = False) -> None:
        """Write the model to a file that `load_model` reads; equal models give equal bytes.

        A model that several parties grew is hardened as `spinney model export` does it: small
        leaves are closed, and thresholds, counts and predictions are rounded. So its predictions
        differ from this estimator's, more where leaves are small; a row between a threshold and its
        rounded value goes the other way, and may get quite another one. With `exact`, it is written
        as it was trained, with exact counts: do not pass that file on.
        """
        self._leaving(exact=exact).save(path)

    def to_sklearn(self, *, exact: bool = False) -> Any:
        """Return a fitted scikit-learn model with the predictions of the model that may leave.

        It is a random forest, or histogram gradient boosting for boosted trees.

        They are equal to this estimator's if one party grew it, or with `exact`. Otherwise the
        model is hardened, and some rows get other predictions than here; see `save`.

        If the model has categories, this is a pipeline that encodes them first. It treats unseen
        categories according to the present value of `unknown_categories`.
        """
        model = self._leaving(exact=exact)
        self._require_sound_parameters()
        from spinney.estimators.to_sklearn import sklearn_forest  # noqa: PLC0415  slow to load

        names = getattr(self, "feature_names_in_", None)
        classes = getattr(self, "classes_", None)
        if has_withheld(model.schema.label.classes or ()):
            classes = classes_of(model.schema.label)
        if model.boosted is not None:
            from spinney.estimators.to_sklearn_boosted import sklearn_boosting  # noqa: PLC0415

            how = (classes, names, self.unknown_categories)
            return sklearn_boosting(model, model.boosted, *how)
        return sklearn_forest(model, classes, names, self.unknown_categories)

    def to_onnx(self, *, exact: bool = False) -> Any:
        """Return the forest as an `onnx.ModelProto` with float32 input and numbered categories.

        Needs `spinney[export]`. `encoded` returns its input `X`. Without `exact`, what several
        parties grew is hardened, and some rows get other predictions than here; see `save`.
        """
        from spinney.estimators.to_onnx import onnx_forest  # noqa: PLC0415  only for exports

        return onnx_forest(self._leaving(exact=exact))

    def to_treelite(self, *, exact: bool = False) -> Any:
        """Return the forest as a `treelite.Model` with float32 input and numbered categories.

        Needs `spinney[export]`. `encoded` returns its input. Without `exact`, what several parties
        grew is hardened, and some rows get other predictions than here; see `save`.
        """
        from spinney.estimators.to_treelite import treelite_forest  # noqa: PLC0415  only for exports

        return treelite_forest(self._leaving(exact=exact))

    def to_lightgbm(self, *, exact: bool = False) -> str:
        """Return boosted trees as LightGBM's text model with numbered categories.

        `encoded` returns its input. Without `exact`, what several parties grew is hardened, and
        some rows get other predictions than here; see `save`.
        """
        from spinney.estimators.to_lightgbm import lightgbm_text  # noqa: PLC0415  only for exports

        return lightgbm_text(self._leaving(exact=exact))

    def encoded(self, X: Any) -> Values:
        """Return X as exported models take it: categories are numbers, missing values are NaN."""
        check_is_fitted(self)
        self._require_sound_parameters()
        return np.ascontiguousarray(self._columns(X).values(slice(None)).T)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle; ledgers and rows stay with their parties."""
        stay = ("ledger_", "_tables")
        return {k: v for k, v in super().__getstate__().items() if k not in stay}

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags

    def _require_sound_parameters(self) -> None:
        """Raise if a parameter that is not a setting is invalid."""
        thread_count(self.n_jobs)
        if self.schema is not None and not isinstance(self.schema, Schema | dict):
            raise SettingError(
                "schema must be a spinney Schema, a dict of ranges and categories by column, or "
                f"None; got a {type(self.schema).__name__}."
            )
        if self.unknown_categories not in ("refuse", "as_missing"):  # a list is neither
            raise SettingError(
                "unknown_categories must be 'refuse' or 'as_missing'; "
                f"got {self.unknown_categories!r}."
            )

    def _class_weights(self, classes: tuple[Any, ...]) -> str | tuple[float, ...] | None:
        """Return the class weights in the order of `classes`."""
        given = self.class_weight
        if given is None or (isinstance(given, str) and given == "balanced"):
            return given
        if not isinstance(given, dict):
            raise SettingError(
                "class_weight must be None, 'balanced' or a dict of weights by class; "
                f"got {given!r}."
            )
        unknown = [label for label in given if label not in classes]
        if unknown:
            raise SettingError(f"class_weight names classes that y does not have: {unknown}.")
        if not all(isinstance(weight, Real) for weight in given.values()):
            raise SettingError(f"class_weight must give a number for each class; got {given!r}.")
        return tuple(float(given.get(label, 1.0)) for label in classes)

    def _forest_settings(self, classes: tuple[Any, ...]) -> dict[str, Any]:
        """Return the settings that are common to all forests."""
        weights = self._class_weights(classes) if self._is_classifier else None
        return {name: getattr(self, name) for name in _SETTINGS} | {
            "task": "classification" if self._is_classifier else "regression",
            "class_weight": weights,
            "seed": job_seed(self.random_state),
        }


class PredictsNumbers(RegressorMixin):  # type: ignore[misc]
    """Methods of regressors."""

    def predict(self, X: Any) -> Floats:
        """Return the predicted target of each row."""
        targets: Floats = self._predicted(X)[:, 0]
        return targets


class PredictsClasses(ClassifierMixin):  # type: ignore[misc]
    """Methods of classifiers."""

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class, in the order of `classes_`."""
        shares: Floats = self._predicted(X)
        return shares

    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithm of each class's probability, in the order of `classes_`."""
        with np.errstate(divide="ignore"):
            logarithms: Floats = np.log(self.predict_proba(X))
        return logarithms

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row."""
        shares = self._predicted(X)  # which says so if there is no model yet
        found: NDArray[Any] = self.classes_.take(self._decided(shares))
        return found

    def _decided(self, shares: Floats) -> Integers:
        """Return the number of the class that the model decides for, for each row."""
        found: Integers = self.model_.decided(shares)
        return found


@cache
def _parameters_of(kind: Any) -> tuple[str, ...]:
    """Return the names of an estimator's parameters: scikit-learn reads them anew each time."""
    return tuple(kind._get_param_names())  # noqa: SLF001


def require_classes(y: Any) -> None:
    """Raise if labels are no classes; incomplete ones are refused elsewhere."""
    if y is not None and is_complete(y) and not _are_few_numbers(y):
        check_classification_targets(y)


def _are_few_numbers(y: Any) -> bool:
    """Return whether labels are whole numbers that repeat: scikit-learn has nothing to say of them.

    Its own check takes longer than ten trees do on a small table.
    """
    if type(y) is not np.ndarray or y.ndim != 1 or y.dtype.kind not in "bi":
        return False
    return bool(2 * np.unique(y).size <= y.size)


def classes_of(label: Label) -> NDArray[Any]:
    """Return a model's classes; numbers stay numbers beside a class that has lost its text."""
    classes = label.classes or ()
    return np.array(classes, dtype=object if has_withheld(classes) else None)


def classes_like(labels: Any, classes: tuple[Any, ...]) -> Any:
    """Return the classes in the dtype of the labels, if it can hold them all."""
    if labels.dtype.kind == "O":
        return np.array(classes, dtype=object)
    found = np.array(classes)
    like = found.astype(labels.dtype)  # may truncate the name of a class without rows
    return like if np.array_equal(like, found) else found


def print_progress(phase: str, done: int, total: int) -> None:
    """Print progress as lines."""
    step = f" {done}/{total}" if total > 0 else f" {done}" if done else ""
    print(f"spinney: {phase}{step}", file=sys.stderr)  # noqa: T201  verbose


def refuse_others(estimator: ForestEstimator, others: Mapping[str, Any]) -> None:
    """Raise if `fit` was given what this estimator does not take; name the estimator and why."""
    for name in others:
        own = type(estimator).__name__
        if name == "sample_weight":
            raise SettingError(
                f"{own} takes no sample_weight: it counts every row once. Horizontal forests, "
                "extra trees and boosting without noise take weights; drop it, or use one of them."
            )
        raise SettingError(f"{own}.fit takes no argument {name!r}. Drop it.")
