"""Boosted trees as scikit-learn's histogram gradient boosting, node for node.

As in `to_sklearn`, each set of categories that a node uses becomes its own column of 0 and 1, since
scikit-learn's own categories are at most 255.
"""

from typing import Any, Final

import numpy as np
from sklearn._loss.loss import (
    HalfBinomialLoss,
    HalfMultinomialLoss,
    HalfPoissonLoss,
    HalfSquaredError,
)
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper
from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor

from spinney.estimators.to_sklearn import Places, encoded_first
from spinney.protocols.model import Boosted, ForestModel
from spinney.tables.frames import UnknownCategories
from spinney.typing import Floats, Values

_NAMES: Final = {"identity": "squared_error", "log": "poisson"}


def sklearn_boosting(
    model: ForestModel,
    boosted: Boosted,
    classes: Any,
    names: Any,
    unknown_categories: UnknownCategories,
) -> Any:
    """Return fitted boosted trees, with an encoder before them if the model has categories."""
    places, n_outputs = Places(model), boosted.base.size
    is_class = model.schema.label.kind == "class"
    n_iterations = model.forest.n_trees // n_outputs
    mapper = _BinMapper()
    mapper.is_categorical_ = np.zeros(places.n_columns, np.uint8)
    mapper.bin_thresholds_ = []
    state = {
        "n_features_in_": places.n_columns,
        "n_trees_per_iteration_": n_outputs,
        "is_categorical_": None,
        "do_early_stopping_": False,
        "train_score_": np.zeros(0),
        "validation_score_": np.zeros(0),
        "_loss": _loss(boosted),
        "_baseline_prediction": boosted.base.reshape(1, -1),
        "_preprocessor": None,
        "_bin_mapper": mapper,
        "_predictors": [
            [_tree(model, places, step * n_outputs + output, output) for output in range(n_outputs)]
            for step in range(n_iterations)
        ],
    }
    trees: Any = (
        HistGradientBoostingClassifier(max_iter=n_iterations)
        if is_class
        else HistGradientBoostingRegressor(max_iter=n_iterations, loss=_NAMES[boosted.link])
    )
    for name, value in (state | ({"classes_": classes} if is_class else {})).items():
        setattr(trees, name, value)
    return encoded_first(model.schema, places, trees, names, unknown_categories)


def _loss(boosted: Boosted) -> Any:
    if boosted.link == "softmax":
        return HalfMultinomialLoss(boosted.base.size)
    kinds = {
        "identity": HalfSquaredError,
        "log": HalfPoissonLoss,
        "logistic": HalfBinomialLoss,
    }
    return kinds[boosted.link]()


def _tree(model: ForestModel, places: Places, number: int, output: int) -> TreePredictor:
    forest = model.forest
    part = slice(int(forest.tree_start[number]), int(forest.tree_start[number + 1]))
    left = forest.left[part].astype(np.int64) - part.start
    is_leaf, is_set = forest.feature[part] < 0, forest.subset[part] >= 0
    nodes = np.zeros(left.size, PREDICTOR_RECORD_DTYPE)
    nodes["value"] = forest.value[part][:, output]
    nodes["count"] = np.maximum(forest.moments[part][:, 0], 0)
    nodes["feature_idx"] = np.where(is_leaf, 0, places.of_node[part])
    nodes["num_threshold"] = np.where(is_set, 0.5, _as_float64(forest.threshold[part]))
    nodes["missing_go_to_left"] = forest.missing_left[part] & ~is_set
    # A row in a set has 1, above the threshold, and goes right in scikit-learn: that is our left.
    nodes["left"] = np.where(is_leaf, 0, left + is_set)
    nodes["right"] = np.where(is_leaf, 0, left + ~is_set)
    nodes["gain"] = forest.gain[part]
    nodes["is_leaf"] = is_leaf
    for node in np.flatnonzero(~is_leaf):  # children come after their parents
        nodes["depth"][left[node] : left[node] + 2] = nodes["depth"][node] + 1
    none = np.zeros((0, 8), np.uint32)
    return TreePredictor(nodes, none, none)


def _as_float64(threshold: Values) -> Floats:
    """Return the largest numbers of 64 bits that, rounded to 32, are at most the thresholds.

    Our trees compare numbers of 32 bits, and scikit-learn's boosting those of 64.
    """
    low = np.ascontiguousarray(threshold, np.float32)
    middle = (low.astype(np.float64) + np.nextafter(low, np.float32(np.inf))) / 2.0
    is_even = low.view(np.uint32) % 2 == 0  # a number in the middle is rounded to the even one
    return np.where(is_even, middle, np.nextafter(middle, -np.inf))
