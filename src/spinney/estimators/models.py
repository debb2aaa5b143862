"""Load saved models as estimators."""

import os
from inspect import signature
from typing import Any

import numpy as np

from spinney.errors import StorageError
from spinney.estimators.base import ForestEstimator, classes_of
from spinney.estimators.extra_trees import ExtraTreesClassifier, ExtraTreesRegressor
from spinney.estimators.genetic_tree import GeneticTreeClassifier, GeneticTreeRegressor
from spinney.estimators.horizontal_boosting import (
    HorizontalBoostingClassifier,
    HorizontalBoostingRegressor,
)
from spinney.estimators.horizontal_forest import (
    HorizontalForestClassifier,
    HorizontalForestRegressor,
)
from spinney.estimators.private_boosting import (
    PrivateBoostingClassifier,
    PrivateBoostingRegressor,
)
from spinney.estimators.private_forest import PrivateForestClassifier
from spinney.estimators.private_tree import PrivateTreeClassifier
from spinney.estimators.vertical_boosting import (
    VerticalBoostingClassifier,
    VerticalBoostingRegressor,
)
from spinney.estimators.vertical_forest import VerticalForestClassifier, VerticalForestRegressor
from spinney.protocols.model import ForestModel
from spinney.report.file_names import MODEL, file_in
from spinney.tables.names import default_names

_FACE_OF_MODEL: dict[tuple[str, str], type[ForestEstimator]] = {
    ("extra_trees", "class"): ExtraTreesClassifier,
    ("extra_trees", "number"): ExtraTreesRegressor,
    ("genetic_tree", "class"): GeneticTreeClassifier,
    ("genetic_tree", "number"): GeneticTreeRegressor,
    ("horizontal_boosting", "class"): HorizontalBoostingClassifier,
    ("horizontal_boosting", "number"): HorizontalBoostingRegressor,
    ("horizontal_forest", "class"): HorizontalForestClassifier,
    ("horizontal_forest", "number"): HorizontalForestRegressor,
    ("private_boosting", "class"): PrivateBoostingClassifier,
    ("private_boosting", "number"): PrivateBoostingRegressor,
    ("private_forest", "class"): PrivateForestClassifier,
    ("private_tree", "class"): PrivateTreeClassifier,
    ("vertical_boosting", "class"): VerticalBoostingClassifier,
    ("vertical_boosting", "number"): VerticalBoostingRegressor,
    ("vertical_forest", "class"): VerticalForestClassifier,
    ("vertical_forest", "number"): VerticalForestRegressor,
}


def load_model(path: str | os.PathLike[str]) -> Any:
    """Load a saved model, or the model in a run's folder, and return an estimator that predicts.

    Prediction needs no network.
    """
    model = ForestModel.load(file_in(path, MODEL))
    label = model.schema.label
    face = _FACE_OF_MODEL.get((model.protocol, label.kind))
    if face is None:
        raise StorageError(
            f"{str(path)!r} holds a model of {model.protocol!r}, which this Spinney does not know."
        )
    takes_trees = "n_estimators" in signature(face).parameters
    estimator = face(n_estimators=model.forest.n_trees) if takes_trees else face()
    estimator._adopt(model)  # noqa: SLF001  same package
    if model.schema.names != default_names(len(model.schema.columns)):
        estimator.feature_names_in_ = np.array(model.schema.names, dtype=object)
    if label.classes is not None:
        estimator.classes_ = classes_of(label)
        estimator.n_classes_ = len(label.classes)
    return estimator
