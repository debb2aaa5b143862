"""A forest as a scikit-learn forest with the same trees, node for node, set through their state.

scikit-learn has no category splits. So each set of categories that a node uses becomes its own
column, 1 if a row's category is in the set and 0 otherwise, and the node becomes a threshold at one
half. Every node keeps one parent, and no node is copied, so SHAP's TreeExplainer reads it too.
"""

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.pipeline import Pipeline
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.tree._tree import NODE_DTYPE, Tree

from spinney.protocols.model import ForestModel
from spinney.report.tree_text import categories_left
from spinney.tables.frames import UnknownCategories, columns_of
from spinney.tables.schema import Schema
from spinney.typing import Floats

_LEAF = -1
_UNDEFINED = -2
_LEAST_COVER = 1e-3


class CategorySet(NamedTuple):
    """A set of categories of one column that a split uses, by their numbers in the schema."""

    column: int
    members: tuple[int, ...]
    has_missing: bool


class SchemaEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn a table into the matrix that the exported forest takes.

    The matrix has the numbers and booleans in the schema's order, with NaN for missing values, and
    then one column for each set of categories: 1 if a row is in it. A category that the schema
    does not name is refused or treated as missing, as in the estimator.
    """

    def __init__(
        self,
        schema: Schema,
        sets: tuple[CategorySet, ...],
        unknown_categories: UnknownCategories = "refuse",
    ) -> None:
        self.schema = schema
        self.sets = sets
        self.unknown_categories = unknown_categories

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002  scikit-learn's signature
        """Do nothing: the schema has all the facts."""
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Return X as one matrix of numbers."""
        columns = columns_of(X, self.schema, unknown_categories=self.unknown_categories)
        values = columns.values(slice(None))
        plain = _plain_columns(self.schema)
        out = np.empty((values.shape[1], len(plain) + len(self.sets)), np.float32)
        out[:, : len(plain)] = values[plain].T
        for at, (column, members, has_missing) in enumerate(self.sets, len(plain)):
            is_in = np.zeros(len(self.schema.columns[column].categories or ()) + 1, np.float32)
            is_in[list(members)] = 1
            is_in[-1] = has_missing
            asked = values[column]
            out[:, at] = is_in[np.where(np.isnan(asked), is_in.size - 1, asked).astype(np.intp)]
        return out

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:  # noqa: ARG002
        """Return a readable name for each column of the matrix."""
        names = [self.schema.names[column] for column in _plain_columns(self.schema)]
        for column, members, has_missing in self.sets:
            categories = self.schema.columns[column].categories or ()
            told = [str(categories[one]) for one in members] + ["missing"] * has_missing
            names.append(f"{self.schema.names[column]} is {' or '.join(told)}")
        return np.array(names, dtype=object)

    def by_column(self, values: Any) -> Floats:
        """Sum values per column of the matrix (the second axis) by columns of the table.

        The SHAP values of a column's sets add up to the column's contribution.
        """
        given = np.asarray(values, np.float64)
        columns = [*_plain_columns(self.schema), *(one.column for one in self.sets)]
        out = np.zeros((given.shape[0], len(self.schema.columns), *given.shape[2:]))
        for at, column in enumerate(columns):
            out[:, column] += given[:, at]
        return out

    def __sklearn_is_fitted__(self) -> bool:
        return True


def _plain_columns(schema: Schema) -> list[int]:
    """Return the numbers of the columns that need no sets."""
    return [at for at, column in enumerate(schema.columns) if column.kind != "category"]


def sklearn_forest(
    model: ForestModel, classes: Any, names: Any, unknown_categories: UnknownCategories
) -> Any:
    """Return a fitted forest, with an encoder before it if the model has categories."""
    is_classifier = model.schema.label.kind == "class"
    places = Places(model)
    forest: Any = RandomForestClassifier() if is_classifier else RandomForestRegressor()
    forest.set_params(n_estimators=model.forest.n_trees)
    forest.n_outputs_ = 1
    forest.n_features_in_ = places.n_columns
    if is_classifier:
        forest.classes_ = classes
        forest.n_classes_ = len(classes)
    forest.estimators_ = [
        _tree(model, places, number, is_classifier=is_classifier)
        for number in range(model.forest.n_trees)
    ]
    forest.estimator_ = type(forest.estimators_[0])()
    return encoded_first(model.schema, places, forest, names, unknown_categories)


def encoded_first(
    schema: Schema, places: "Places", forest: Any, names: Any, unknown_categories: UnknownCategories
) -> Any:
    """Return a fitted forest with an encoder before it, if the schema has categories."""
    if any(column.kind == "category" for column in schema.columns):
        encoder = SchemaEncoder(schema, places.sets, unknown_categories)
        return Pipeline([("encode", encoder), ("forest", forest)])
    if names is not None:
        forest.feature_names_in_ = np.asarray(names, dtype=object)
    return forest


class Places:
    """The column of the encoded matrix that each split of a forest uses."""

    def __init__(self, model: ForestModel) -> None:
        forest, plain = model.forest, _plain_columns(model.schema)
        place = np.full(len(model.schema.columns), _UNDEFINED, np.int64)
        place[plain] = np.arange(len(plain))
        self.of_node = np.where(forest.feature < 0, _UNDEFINED, place[forest.feature])
        asked = np.flatnonzero(forest.subset >= 0)
        pairs = np.stack([forest.feature[asked], forest.subset[asked]], axis=1)
        kinds, which = np.unique(pairs, axis=0, return_inverse=True)
        sets = []
        for column, subset in kinds.tolist():
            members, has_missing = categories_left(model, column, subset)
            sets.append(CategorySet(column, tuple(members.tolist()), has_missing))
        known = sorted(set(sets))
        if not plain and not known:  # scikit-learn refuses a matrix without columns
            known = [CategorySet(0, (), has_missing=False)]
        number = {one: len(plain) + at for at, one in enumerate(known)}
        self.sets = tuple(known)
        self.n_columns = len(plain) + len(known)
        if asked.size:
            self.of_node[asked] = np.array([number[one] for one in sets])[which.ravel()]


def _tree(model: ForestModel, places: Places, number: int, *, is_classifier: bool) -> Any:
    n_columns, n_outputs = places.n_columns, model.n_outputs
    tree = Tree(n_columns, np.array([n_outputs if is_classifier else 1], np.intp), 1)
    tree.__setstate__(_state(model, places, number))
    face: Any = DecisionTreeClassifier() if is_classifier else DecisionTreeRegressor()
    face.tree_ = tree
    face.n_outputs_ = 1
    face.n_features_in_ = n_columns
    face.max_features_ = n_columns
    if is_classifier:
        face.n_classes_ = n_outputs
        face.classes_ = np.arange(n_outputs, dtype=np.float64)
    return face


def _state(model: ForestModel, places: Places, number: int) -> dict[str, Any]:
    """Return what `Tree.__setstate__` takes; nodes keep their order."""
    forest = model.forest
    part = slice(int(forest.tree_start[number]), int(forest.tree_start[number + 1]))
    left = forest.left[part].astype(np.int64) - part.start
    is_leaf, is_set = forest.feature[part] < 0, forest.subset[part] >= 0
    weight = _cover(model, part, is_leaf, left)
    nodes = np.zeros(left.size, NODE_DTYPE)
    # A row in a set has 1, above the threshold, and goes right in scikit-learn: that is our left.
    nodes["left_child"] = np.where(is_leaf, _LEAF, left + is_set)
    nodes["right_child"] = np.where(is_leaf, _LEAF, left + ~is_set)
    nodes["feature"] = places.of_node[part]
    nodes["threshold"] = np.where(is_set, 0.5, forest.threshold[part])
    nodes["threshold"][is_leaf] = _UNDEFINED
    nodes["missing_go_to_left"] = forest.missing_left[part] & ~is_set
    nodes["impurity"] = _impurity(forest.gain[part], is_leaf, left, weight)
    nodes["n_node_samples"] = weight
    nodes["weighted_n_node_samples"] = weight
    return {
        "max_depth": int(forest.depths[number]),
        "node_count": left.size,
        "nodes": nodes,
        "values": np.ascontiguousarray(forest.value[part][:, None, :]),
    }


def _cover(
    model: ForestModel, part: slice, is_leaf: NDArray[np.bool_], left: NDArray[np.int64]
) -> Floats:
    """Return every node's number of rows, summed from its leaves.

    With noise or rounding, counts may not add up, or may be 0; SHAP needs shares that add up.
    """
    moments = model.forest.moments[part]
    rows = moments[:, 0] if model.schema.label.kind == "number" else moments.sum(axis=1)
    cover: Floats = np.maximum(rows, _LEAST_COVER)
    for node in range(left.size - 1, -1, -1):  # children come after their parents
        if not is_leaf[node]:
            cover[node] = cover[left[node]] + cover[left[node] + 1]
    return cover


def _impurity(
    gain: Floats, is_leaf: NDArray[np.bool_], left: NDArray[np.int64], weight: Floats
) -> Floats:
    """Return impurities that fit the gains, with pure leaves."""
    below = np.zeros(left.size)  # weight times impurity
    for node in range(left.size - 1, -1, -1):  # children come after their parents
        if not is_leaf[node]:
            child = left[node]
            below[node] = max(gain[node], 0.0) + below[child] + below[child + 1]
    shares: Floats = below / weight
    return shares
