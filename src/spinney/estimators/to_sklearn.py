"""A forest as scikit-learn's own, through its trees' state.

A category split becomes a chain of threshold splits over the category's number, whose ends lead
to the same two children: scikit-learn only follows links, so nothing is copied.
"""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.pipeline import Pipeline
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.tree._tree import NODE_DTYPE, Tree

from spinney.protocols.model import ForestModel
from spinney.tables.frames import UnknownCategories, columns_of
from spinney.tables.schema import Schema

_LEAF = -1
_UNDEFINED = -2


class SchemaEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Numbers the categories of a table as its schema does; missing values become NaN.

    A category that the schema does not name is refused, or taken as missing, as the estimator does.
    """

    def __init__(self, schema: Schema, unknown_categories: UnknownCategories = "refuse") -> None:
        self.schema = schema
        self.unknown_categories = unknown_categories

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002  scikit-learn's signature
        """Learn nothing: the schema says it all."""
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Return X as one matrix of numbers."""
        columns = columns_of(X, self.schema, unknown_categories=self.unknown_categories)
        return columns.values(slice(None)).T

    def __sklearn_is_fitted__(self) -> bool:
        return True


def sklearn_forest(
    model: ForestModel, classes: Any, names: Any, unknown_categories: UnknownCategories
) -> Any:
    """Return a fitted forest, behind an encoder where the model has categories."""
    schema = model.schema
    is_classifier = schema.label.kind == "class"
    forest: Any = RandomForestClassifier() if is_classifier else RandomForestRegressor()
    forest.set_params(n_estimators=model.forest.n_trees)
    forest.n_outputs_ = 1
    forest.n_features_in_ = len(schema.columns)
    if is_classifier:
        forest.classes_ = classes
        forest.n_classes_ = len(classes)
    forest.estimators_ = [
        _tree(model, number, is_classifier=is_classifier) for number in range(model.forest.n_trees)
    ]
    forest.estimator_ = type(forest.estimators_[0])()
    if any(column.kind == "category" for column in schema.columns):
        encoder = SchemaEncoder(schema, unknown_categories)
        return Pipeline([("encode", encoder), ("forest", forest)])
    if names is not None:
        forest.feature_names_in_ = np.asarray(names, dtype=object)
    return forest


def _tree(model: ForestModel, number: int, *, is_classifier: bool) -> Any:
    n_columns = len(model.schema.columns)
    n_outputs = model.n_outputs
    tree = Tree(n_columns, np.array([n_outputs if is_classifier else 1], np.intp), 1)
    tree.__setstate__(_TreeWriter(model, number).state())
    face: Any = DecisionTreeClassifier() if is_classifier else DecisionTreeRegressor()
    face.tree_ = tree
    face.n_outputs_ = 1
    face.n_features_in_ = n_columns
    face.max_features_ = n_columns
    if is_classifier:
        face.n_classes_ = n_outputs
        face.classes_ = np.arange(n_outputs, dtype=np.float64)
    return face


class _TreeWriter:
    """Writes one tree's nodes; those that a category split needs more come at the end."""

    def __init__(self, model: ForestModel, number: int) -> None:
        forest = model.forest
        self._model = model
        self._part = slice(int(forest.tree_start[number]), int(forest.tree_start[number + 1]))
        self._start = self._part.start
        self._weight = forest.moments[self._part].sum(axis=1).astype(np.float64)
        if model.schema.label.kind == "number":
            self._weight = forest.moments[self._part, 0].astype(np.float64)

    def state(self) -> dict[str, Any]:
        """Return what `Tree.__setstate__` takes."""
        forest, part = self._model.forest, self._part
        feature = forest.feature[part]
        n = feature.size
        nodes = np.zeros(n, NODE_DTYPE)
        left = forest.left[part].astype(np.int64) - self._start
        is_leaf = feature < 0
        nodes["left_child"] = np.where(is_leaf, _LEAF, left)
        nodes["right_child"] = np.where(is_leaf, _LEAF, left + 1)
        nodes["feature"] = np.where(is_leaf, _UNDEFINED, feature)
        nodes["threshold"] = np.where(is_leaf, _UNDEFINED, forest.threshold[part])
        nodes["missing_go_to_left"] = forest.missing_left[part]
        nodes["impurity"] = self._impurity(left)
        nodes["n_node_samples"] = self._weight
        nodes["weighted_n_node_samples"] = self._weight
        values = forest.value[part][:, None, :]
        extra: list[Any] = []
        steps = (feature >= 0).astype(np.int64)
        for node in np.flatnonzero(forest.subset[part] >= 0):
            before = len(extra)
            self._write_chain(nodes, int(node), extra, n)
            steps[node] += len(extra) - before
        if extra:
            more = np.array([record for record, _ in extra], NODE_DTYPE)
            nodes = np.concatenate([nodes, more])
            values = np.concatenate([values, values[[parent for _, parent in extra]]])
        return {
            "max_depth": _longest(left, steps),
            "node_count": len(nodes),
            "nodes": nodes,
            "values": np.ascontiguousarray(values),
        }

    def _impurity(self, left: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return impurities that fit the gains, taking leaves as pure."""
        forest, part = self._model.forest, self._part
        gain, feature = forest.gain[part], forest.feature[part]
        below = np.zeros(feature.size)  # weight times impurity
        for node in range(feature.size - 1, -1, -1):  # children come after their parents
            if feature[node] >= 0:
                child = left[node]
                below[node] = max(gain[node], 0.0) + below[child] + below[child + 1]
        shares: NDArray[np.float64] = below / np.maximum(self._weight, 1.0)
        return shares

    def _write_chain(self, nodes: Any, node: int, extra: list[Any], n: int) -> None:
        """Turn a category split into thresholds between runs of categories that go one way."""
        forest = self._model.forest
        at = self._start + node
        bins = self._model.bin_of_category[int(forest.feature[at])]
        words = forest.bin_sets[forest.subset[at]]
        goes_left = (words[bins >> 6] >> (bins & np.uint8(63)).astype(np.uint64)) & np.uint64(1)
        missing_left = bool((words[3] >> np.uint64(63)) & np.uint64(1))
        ends = np.flatnonzero(goes_left[1:] != goes_left[:-1])
        if not ends.size:  # all known categories go one way: only missing values differ
            ends = np.array([goes_left.size - 1])
        sides = (int(nodes["right_child"][node]), int(nodes["left_child"][node]))
        for step, end in enumerate(ends):
            record = nodes[node].copy()
            here = int(goes_left[end])
            is_last = step == len(ends) - 1
            following = n + len(extra) + (step > 0)  # where the chain's next node will stand
            record["left_child"] = sides[here]
            record["right_child"] = sides[1 - here] if is_last else following
            record["threshold"] = end + 0.5
            record["missing_go_to_left"] = missing_left == bool(here)
            if step == 0:
                nodes[node] = record
            else:
                extra.append((record.item(), node))


def _longest(left: NDArray[np.int64], steps: NDArray[np.int64]) -> int:
    """Return the longest way from the root to a leaf; readers set memory aside by it."""
    depth = np.zeros(left.size, np.int64)
    for node in np.flatnonzero(steps):  # children come after their parents
        depth[left[node] : left[node] + 2] = depth[node] + steps[node]
    return int(depth.max())
